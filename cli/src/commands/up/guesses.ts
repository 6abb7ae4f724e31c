// What `berth up` guesses, each with its reason and the flag that changes it. PURE.
import { isIP } from 'node:net'
import type { Project, Server } from '@berth/shared/api'
import type { Remote } from '../../client/checkout.ts'

export interface Guess<T> {
  value: T
  why: string
}

/** What a guess could not answer. */
export interface Missing {
  /** As it is typed: '--server SERVER'. */
  flag: string
  /** 'which server: fra-1, fra-2' */
  why: string
}

/** Of the folder, the branch: lower case letters, digits and dashes. */
export const slugOf = (text: string, most = 40): string =>
  text
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+/, '')
    .slice(0, most)
    .replace(/-+$/, '')

export function guessRemote(
  remotes: readonly Remote[],
  named: string | undefined,
): Guess<Remote> | Missing {
  const names = remotes.map(({ name }) => name).join(', ')
  const flag = '--remote NAME'
  if (named !== undefined) {
    const found = remotes.find(({ name }) => name === named)
    if (found) return { value: found, why: 'named by --remote' }
    return { flag, why: `there is no remote ${named} (remotes: ${names || 'none'})` }
  }
  const [only] = remotes
  if (!only)
    return { flag: '--repo URL', why: 'the checkout has no remote: git remote add origin URL' }
  if (remotes.length === 1) return { value: only, why: `remote ${only.name}` }
  const origin = remotes.find(({ name }) => name === 'origin')
  if (origin) return { value: origin, why: `remote origin, of ${names}` }
  return { flag, why: `which remote: ${names}` }
}

export function guessServer(
  servers: readonly Server[],
  named: Server | undefined,
): Guess<Server> | Missing {
  if (named) return { value: named, why: 'named by --server' }
  const [only] = servers
  const names = servers.map(({ name }) => name).join(', ')
  if (only && servers.length === 1) return { value: only, why: 'the only server' }
  return { flag: '--server SERVER', why: `which server: ${names}` }
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127\./.test(host)

/**
 * Domains that may fit, the best first. `certain`: no name server has to be asked, because the address leads nowhere
 * else, or because other projects have theirs there.
 */
export function domainCandidates(
  name: string,
  server: Pick<Server, 'id' | 'hostname'>,
  projects: readonly Project[],
): (Guess<string> & { certain: boolean })[] {
  const label = slugOf(name, 63)
  const { hostname } = server
  if (label === '') return []
  if (isLoopback(hostname)) {
    return [{ value: `${label}.localhost`, why: 'the server is this machine', certain: true }]
  }
  const beside = projects.flatMap((project) => {
    const isThere = project.servers.some(({ id }) => id === server.id)
    const parent = project.domain.slice(project.domain.indexOf('.') + 1)
    return isThere && parent.includes('.') ? [{ parent, name: project.name }] : []
  })
  const found = beside.map((one) => ({
    value: `${label}.${one.parent}`,
    why: `beside ${one.name}`,
    certain: false,
  }))
  const below = {
    value: `${label}.${hostname}`,
    why: 'below the name of the server',
    certain: false,
  }
  const isName = isIP(hostname) === 0 && hostname.includes('.')
  return [...found, ...(isName ? [below] : [])]
    .filter((one, i, all) => all.findIndex(({ value }) => value === one.value) === i)
    .slice(0, 3)
}

/** One error for everything that is missing. */
export const missingMessage = (missing: readonly Missing[]): string =>
  `berth up needs ${missing.length === 1 ? 'an answer' : `${missing.length} answers`} that only you can give: ` +
  missing.map(({ flag, why }) => `${flag} (${why})`).join('; ')
