// What an environment is called, where it lives, and which word describes it now.
import type { Recipe, TaskStatus } from '@berth/shared'

export interface DeployedService {
  name: string
  hosts: string[]
  port: number
}

export const RESERVED_IDENTIFIER = /^pr-\d+$/

export const defaultDomain = (identifier: string, projectDomain: string): string =>
  `${identifier}.${projectDomain}`

/** A fork's never runs its commands on the server itself, whatever it or its project was set to before or since. */
export const effectiveRecipe = (
  environment: { recipe: Recipe | null; fromFork: boolean },
  projectDefault: Recipe,
): Recipe => (environment.fromFork ? 'docker' : (environment.recipe ?? projectDefault))

/** A service's address: its host name behind a proxy, else its port on the server itself. */
export function serviceUrl(service: DeployedService, hostname: string): string | null {
  const [host] = service.hosts
  if (host) return `https://${host}`
  return service.port > 0 ? `http://${hostname}:${service.port}` : null
}

/** The one people open first: the default service stands first in what the agent reports. */
export function environmentUrl(services: DeployedService[], hostname: string): string | null {
  for (const service of services) {
    const url = serviceUrl(service, hostname)
    if (url) return url
  }
  return null
}

export type EnvironmentStatus = 'new' | 'deploying' | 'running' | 'degraded' | 'failed' | 'removing'

export function environmentStatus(e: {
  removing: boolean
  locked: boolean
  deployed: boolean
  degradedReason: string | null
  lastTask: { status: TaskStatus } | undefined
}): EnvironmentStatus {
  if (e.removing) return 'removing'
  if (e.locked) return 'deploying'
  if (e.degradedReason !== null) return 'degraded'
  if (e.deployed) return 'running'
  return e.lastTask?.status === 'failed' ? 'failed' : 'new'
}
