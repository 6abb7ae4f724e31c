// Chooses the client for a repository's forge, and its API address. Addresses come from the project's own repository
// address and the learned kind of forge; never from a payload or an answer.
import { checkRepositoryUrl, never } from '@berth/shared'
import { openBitbucketCloud } from './bitbucket-cloud.ts'
import { openBitbucketServer } from './bitbucket-server.ts'
import {
  FORGE_PROVIDERS,
  type ForgeAccess,
  type ForgeAddress,
  type ForgeClient,
  type ForgeProvider,
} from './forge.ts'
import { openGitea } from './gitea.ts'
import { openGitHub } from './github.ts'
import { openGitLab } from './gitlab.ts'

const KNOWN: Record<string, ForgeProvider> = {
  'github.com': 'github',
  'ssh.github.com': 'github',
  'gitlab.com': 'gitlab',
  'altssh.gitlab.com': 'gitlab',
  'bitbucket.org': 'bitbucket_cloud',
  'altssh.bitbucket.org': 'bitbucket_cloud',
  'codeberg.org': 'forgejo',
}
const APIS: Partial<Record<ForgeProvider, { host: string; base: string }[]>> = {
  github: [
    { host: 'github.com', base: 'https://api.github.com' },
    { host: 'ssh.github.com', base: 'https://api.github.com' },
  ],
  gitlab: [{ host: 'altssh.gitlab.com', base: 'https://gitlab.com/api/v4' }],
  bitbucket_cloud: [
    { host: 'bitbucket.org', base: 'https://api.bitbucket.org/2.0' },
    { host: 'altssh.bitbucket.org', base: 'https://api.bitbucket.org/2.0' },
  ],
}
const PREFIXES: Record<ForgeProvider, string> = {
  github: '/api/v3',
  gitlab: '/api/v4',
  gitea: '/api/v1',
  forgejo: '/api/v1',
  bitbucket_cloud: '/2.0',
  bitbucket_server: '/rest/api/1.0',
}

interface Parts {
  /** Origin of its web pages and its API. */
  origin: string
  host: string
  path: string
}

const trim = (path: string): string => path.replace(/^\/+|\/+$/g, '').replace(/\.git$/, '')

/** Undefined for a folder or an invalid address. */
export function splitRepositoryUrl(url: string): Parts | undefined {
  const checked = checkRepositoryUrl(url, { allowFile: false, allowLoopbackHttp: true })
  if (!checked.ok) return undefined
  const { transport, host } = checked.value
  if (transport === 'https' || transport === 'http') {
    const parsed = new URL(checked.value.url)
    return { origin: parsed.origin, host: parsed.hostname, path: trim(parsed.pathname) }
  }
  const path = url.includes('://')
    ? url.replace(/^[^:]*:\/\/[^/]*/, '')
    : url.slice(url.indexOf(':') + 1)
  return { origin: `https://${host.toLowerCase()}`, host: host.toLowerCase(), path: trim(path) }
}

export function forgeAddress(url: string, provider: ForgeProvider): ForgeAddress | undefined {
  const parts = splitRepositoryUrl(url)
  if (!parts) return undefined
  const known = APIS[provider]?.find(({ host }) => host === parts.host)?.base
  if (provider !== 'bitbucket_server') {
    return { base: known ?? parts.origin + PREFIXES[provider], path: parts.path }
  }
  // https://host/[context/]scm/KEY/slug.git, ssh://git@host:7999/key/slug.git, ~name for a user's own
  const scm = /^(?:(.*)\/)?scm\/([^/]+\/[^/]+)$/.exec(parts.path)
  const context = scm?.[1] ? `/${scm[1]}` : ''
  return { base: parts.origin + context + PREFIXES.bitbucket_server, path: scm?.[2] ?? parts.path }
}

/** Lists the possible kinds of forge: the learned one, the well-known one, else every self-hosted kind. */
export function candidateProviders(url: string, learned: string | null): ForgeProvider[] {
  const known = FORGE_PROVIDERS.find((p) => p === learned)
  if (known) return [known]
  const host = splitRepositoryUrl(url)?.host
  if (host === undefined) return []
  const famous = KNOWN[host]
  return famous ? [famous] : ['gitlab', 'gitea', 'github', 'bitbucket_server']
}

export function openForge(provider: ForgeProvider, access: ForgeAccess): ForgeClient {
  switch (provider) {
    case 'github':
      return openGitHub(access)
    case 'gitlab':
      return openGitLab(access)
    case 'gitea':
    case 'forgejo':
      return openGitea(access, provider)
    case 'bitbucket_cloud':
      return openBitbucketCloud(access)
    case 'bitbucket_server':
      return openBitbucketServer(access)
    default:
      return never(provider)
  }
}
