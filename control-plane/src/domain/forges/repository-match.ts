// Decides whether a delivery is about the project's repository: by name at first, later by the forge's id. The same id
// under a new name is a rename, another id under the same name another repository. PURE. Addresses are never contacted.
import type { Provider } from '@berth/shared'

interface KnownRepository {
  repoUrl: string
  provider: string | null
  externalId: string | null
}

export interface ReportedRepository {
  provider: Provider
  externalId: string
  fullName: string
  webUrl: string | null
}

export type RepositoryMatch =
  | { kind: 'match'; learn: boolean; renamedTo: string | null }
  | { kind: 'mismatch'; reason: string }

interface Address {
  host: string
  path: string
}

/** Without scheme, user, port, `.git`, case and the prefixes that only some forges put before the name. */
export function normaliseAddress(url: string): Address {
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(url)
  const scp = scheme ? null : /^(?:[^@/]*@)?([^:/]+):(.*)$/.exec(url)
  const rest = scheme ? url.slice(scheme[0].length) : url
  const slash = rest.indexOf('/')
  const authority = scp ? (scp[1] ?? '') : slash < 0 ? rest : rest.slice(0, slash)
  const path = scp ? (scp[2] ?? '') : slash < 0 ? '' : rest.slice(slash)
  const host = authority.replace(/^.*@/, '').replace(/:\d+$/, '')
  return { host: host.toLowerCase(), path: normalisePath(path) }
}

const normalisePath = (path: string): string =>
  path
    .toLowerCase()
    .replace(/[?#].*$/, '')
    .replace(/^\/+|\/+$/g, '')
    .replace(/\/?\.git$/, '') // also a folder of its own: acme/shop/.git
    .replace(/\/browse$/, '')
    .replace(/^scm\//, '')
    .replace(/^projects\/([^/]+)\/repos\//, '$1/')

/** Forgejo began as Gitea: an installation that changed from one to the other keeps its numbers. */
const familyOf = (provider: string | null): string | null =>
  provider === 'forgejo' ? 'gitea' : provider

export function matchRepository(
  known: KnownRepository,
  reported: ReportedRepository,
): RepositoryMatch {
  const own = normaliseAddress(known.repoUrl)
  const web = reported.webUrl === null ? undefined : normaliseAddress(reported.webUrl)
  const sameAddress = web !== undefined && web.host === own.host && web.path === own.path
  const sameName = sameAddress || normalisePath(reported.fullName) === own.path
  const learned = known.provider !== null && known.externalId !== null
  if (learned && familyOf(known.provider) === familyOf(reported.provider)) {
    if (known.externalId === reported.externalId) {
      return { kind: 'match', learn: false, renamedTo: sameName ? null : reported.fullName }
    }
    const reason = sameName
      ? `${reported.fullName} is another repository than the one this project knows under that name.`
      : `The delivery is about ${reported.fullName}, not about this project's repository.`
    return { kind: 'mismatch', reason }
  }
  // another kind of forge than before: only exactly the same address matches
  if (learned ? sameAddress : sameName) return { kind: 'match', learn: true, renamedTo: null }
  return {
    kind: 'mismatch',
    reason: `The delivery is about ${reported.fullName}, not about this project's repository.`,
  }
}
