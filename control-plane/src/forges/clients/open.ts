// Chooses the client for a repository's forge, and its API address. Addresses come from the project's own repository
// address, the learned kind of forge, or the address that a user gave; never from a payload or an answer.
import { type Checked, checkRepositoryUrl, FORGE_API, never } from '@berth/shared'
import { bitbucketCloudApi, openBitbucketCloud } from './bitbucket-cloud.ts'
import { bitbucketServerApi, openBitbucketServer } from './bitbucket-server.ts'
import {
  FORGE_PROVIDERS,
  type ForgeAccess,
  type ForgeAccount,
  type ForgeAddress,
  type ForgeClient,
  type ForgeProvider,
} from './forge.ts'
import { giteaApi, openGitea } from './gitea.ts'
import { githubApi, openGitHub } from './github.ts'
import { gitlabApi, openGitLab } from './gitlab.ts'
import { bitbucketCloudAccount } from './setup/bitbucket-cloud.ts'
import { bitbucketServerAccount } from './setup/bitbucket-server.ts'
import { giteaAccount, githubAccount } from './setup/github.ts'
import { gitlabAccount } from './setup/gitlab.ts'

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

/** Without slashes at the ends and `.git`, which may also be a folder of its own: acme/shop/.git. */
const trim = (path: string): string => path.replace(/^\/+|\/+$/g, '').replace(/\/?\.git$/, '')

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

/** The path below which the forge answers: /gitea of https://git.example.com/gitea/api/v1. */
function contextOf(base: string, provider: ForgeProvider): string {
  const { pathname } = new URL(base)
  const prefix = PREFIXES[provider]
  return pathname.endsWith(prefix) ? pathname.slice(0, -prefix.length) : ''
}

/** The name that the API of a connection uses for the repository; undefined for a folder or an invalid address. */
export function repositoryPath(
  repoUrl: string,
  provider: ForgeProvider,
  base: string,
): string | undefined {
  const parts = splitRepositoryUrl(repoUrl)
  if (!parts) return undefined
  const context = contextOf(base, provider).replace(/^\//, '')
  // over ssh, addresses have no such path
  const isWeb = /^https?:/i.test(repoUrl)
  const below = isWeb && context !== '' && parts.path.startsWith(`${context}/`)
  const path = below ? parts.path.slice(context.length + 1) : parts.path
  return provider === 'bitbucket_server' ? path.replace(/^scm\//, '') : path
}

/** Reads the address of an API as a user wrote it; its well-known end may be left out. */
export function checkApiUrl(
  given: string,
  provider: ForgeProvider,
  { allowHttp }: { allowHttp: boolean },
): Checked<string> {
  const refuse = (problem: string): Checked<string> => ({ ok: false, problem })
  if (!URL.canParse(given) || given.length > FORGE_API.urlCharacters) {
    return refuse('It must be an address such as https://git.example.com/api/v1.')
  }
  const url = new URL(given)
  if (url.protocol !== 'https:' && !(allowHttp && url.protocol === 'http:')) {
    return refuse('The API of a forge is asked over https only.')
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    return refuse('It must hold no user, password, query or fragment.')
  }
  const known = APIS[provider]?.find(({ host }) => host === url.hostname)?.base
  if (known) return { ok: true, value: known }
  const path = url.pathname.replace(/\/+$/, '')
  const isOwnHost = provider === 'github' && url.hostname.startsWith('api.') && path === ''
  const needsEnd = !isOwnHost && !path.endsWith(PREFIXES[provider])
  return { ok: true, value: url.origin + path + (needsEnd ? PREFIXES[provider] : '') }
}

/** The kinds of forge that an API at this address may be. */
export function candidatesOfApi(apiUrl: string): ForgeProvider[] {
  if (!URL.canParse(apiUrl)) return []
  const { hostname, pathname } = new URL(apiUrl)
  const famous = KNOWN[hostname.replace(/^api\./, '')]
  if (famous) return [famous]
  const path = pathname.replace(/\/+$/, '')
  const byEnd = SELF_HOSTED.filter((provider) => path.endsWith(PREFIXES[provider]))
  return byEnd.length > 0 ? byEnd : SELF_HOSTED
}

const SELF_HOSTED: ForgeProvider[] = ['gitlab', 'gitea', 'github', 'bitbucket_server']

/** Lists the possible kinds of forge: the learned one, the well-known one, else every self-hosted kind. */
export function candidateProviders(url: string, learned: string | null): ForgeProvider[] {
  const known = FORGE_PROVIDERS.find((p) => p === learned)
  if (known) return [known]
  const host = splitRepositoryUrl(url)?.host
  if (host === undefined) return []
  const famous = KNOWN[host]
  return famous ? [famous] : SELF_HOSTED
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

/** For calls that need no repository. */
export function openAccount(
  provider: ForgeProvider,
  access: Omit<ForgeAccess, 'path'>,
): ForgeAccount {
  const whole = { ...access, path: '' }
  switch (provider) {
    case 'github':
      return githubAccount(githubApi(whole))
    case 'gitlab':
      return gitlabAccount(gitlabApi(whole))
    case 'gitea':
    case 'forgejo':
      return giteaAccount(giteaApi(whole), provider)
    case 'bitbucket_cloud':
      return bitbucketCloudAccount(bitbucketCloudApi(whole))
    case 'bitbucket_server':
      return bitbucketServerAccount(bitbucketServerApi(whole))
    default:
      return never(provider)
  }
}
