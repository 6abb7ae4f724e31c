// An environment's names, its addresses, and the word for its present status.
import type { Recipe, TaskStatus } from '@berth/shared'

export interface DeployedService {
  name: string
  hosts: string[]
  port: number
  /** Its public address, as the server's edge reports it; absent in reports of agents that do not know it. */
  url?: string | undefined
  /** As the service file names it; absent: it has none, or was deployed before this was stored. */
  image?: string | undefined
}

export const RESERVED_IDENTIFIER = /^pr-\d+$/

export const defaultDomain = (identifier: string, projectDomain: string): string =>
  `${identifier}.${projectDomain}`

/** A fork never runs commands on the server itself, regardless of its own and its project's settings. */
export const effectiveRecipe = (
  environment: { recipe: Recipe | null; fromFork: boolean },
  projectDefault: Recipe,
): Recipe => (environment.fromFork ? 'docker' : (environment.recipe ?? projectDefault))

const MAX_URL = 2_048

/** An agent's reported address, as it is shown: users click on it, so only plain http(s) passes. */
export function shownUrl(reported: string): string | undefined {
  if (reported === '' || reported.length > MAX_URL || !URL.canParse(reported)) return undefined
  const url = new URL(reported)
  const isWeb = url.protocol === 'http:' || url.protocol === 'https:'
  if (!isWeb || url.username !== '' || url.password !== '') return undefined
  return url.pathname === '/' && url.search === '' && url.hash === '' ? url.origin : url.href
}

/** A service's address: the one its edge reports, else its hostname behind a proxy or its port on the server. */
export function serviceUrl(service: DeployedService, hostname: string): string | null {
  if (service.url) return service.url
  const [host] = service.hosts
  if (host) return `https://${host}`
  return service.port > 0 ? `http://${hostname}:${service.port}` : null
}

/** The address that users open first: agents report the default service first. */
export function environmentUrl(services: DeployedService[], hostname: string): string | null {
  for (const service of services) {
    const url = serviceUrl(service, hostname)
    if (url) return url
  }
  return null
}

export type EnvironmentStatus =
  | 'new'
  | 'deploying'
  | 'running'
  | 'stopped'
  | 'degraded'
  | 'failed'
  | 'removing'

export function environmentStatus(e: {
  removing: boolean
  locked: boolean
  deployed: boolean
  degradedReason: string | null
  /** A user stopped all of it. */
  stopped: boolean
  lastTask: { status: TaskStatus } | undefined
}): EnvironmentStatus {
  if (e.removing) return 'removing'
  if (e.locked) return 'deploying'
  if (e.degradedReason !== null) return 'degraded'
  if (e.deployed) return e.stopped ? 'stopped' : 'running'
  return e.lastTask?.status === 'failed' ? 'failed' : 'new'
}

/** The server's own name of an image that it built; the commit says more. */
const BUILT = /^[^/]+\/e\d+-[^/]+:\d+$/

/** An image as users know it; undefined for one that was built, and for any text that is no reference. */
export const shownImage = (reported: string): string | undefined =>
  /^[\w][\w./:@-]{0,254}$/.test(reported) && !BUILT.test(reported) ? reported : undefined
