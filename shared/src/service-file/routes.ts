// Decides which service answers at which address. The check of the file (variables left in) and a deployment (variables
// substituted) share one rule: `addressOf` and `defaultService`. A service has at most one address. The control plane
// decides who may own a hostname.
import type { Recipe } from '../task.ts'
import { ENVIRONMENT_DOMAIN, expandDomain, forgeFault, normalizeTemplate } from './domain.ts'
import { FILE_NAME, type Problem, type Range } from './problem.ts'
import type { DockerService, ManualService, ManualTarget, ServiceFile } from './service-file.ts'
import type { EnvironmentFacts } from './variables.ts'

export interface Route {
  service: string
  host: string
  /** `/` or a prefix without a trailing slash. */
  path: string
  isDefault: boolean
  /** The hostname is the file's own, not derived from the environment's domain. */
  isCustom: boolean
  /** false: no Basic Auth in front of it. */
  auth: boolean
  target: RouteTarget
}

/** docker: the port inside the container. */
type RouteTarget = ManualTarget

interface Routes {
  routes: Route[]
  defaultService: string | null
  /** The environment's own domain has no service, two services claim one address, or a hostname is impossible. */
  problems: Problem[]
}

export function routes(file: ServiceFile, recipe: Recipe, facts: EnvironmentFacts): Routes {
  const services: Candidate[] = candidates(file, recipe)
  const defaultName = defaultService(services)
  const found: Routes = { routes: [], defaultService: defaultName, problems: [] }
  const taken = new Map<string, string>()
  for (const service of services) {
    if (!service.target || !service.isRouted) continue
    const { name, domain, at, auth } = service
    const isDefault = name === defaultName
    const address = addressOf(service, isDefault)
    const host = expandDomain(address.domain, facts)
    const where = `${recipe}.services.${name}`
    const wrong = forgeFault(host)
    if (wrong) {
      const says =
        domain === null
          ? `${where}: its address ${host} ${wrong.says}`
          : `${where}.domain ${wrong.says}`
      const hint =
        domain === null ? "; shorten the service's name or give it a 'domain'" : ` (${host})`
      found.problems.push(problem(at, where, 'invalid_domain', says + hint))
      continue
    }
    const key = `${host}${address.path}`
    const other = taken.get(key)
    if (other !== undefined) {
      const says = sameAddress(where, other, `${host}${address.path}`)
      found.problems.push(problem(at, where, 'duplicate_route', says))
      continue
    }
    taken.set(key, where)
    found.routes.push({
      service: name,
      host,
      path: address.path,
      isDefault,
      isCustom: domain !== null,
      auth,
      target: service.target,
    })
  }
  return found
}

type Candidate = Pick<
  DockerService | ManualService,
  'name' | 'domain' | 'path' | 'isDefault' | 'auth' | 'at'
> & { target: RouteTarget | null; isRouted: boolean }

function candidates(file: ServiceFile, recipe: Recipe): Candidate[] {
  if (recipe === 'manual') {
    const services = file.manual?.services ?? []
    return services.map((service) => ({
      ...service,
      isRouted: service.target !== null && service.isPublic,
    }))
  }
  return (file.docker?.services ?? []).map((service) => ({
    ...service,
    isRouted: isRouted(service),
    target: service.port === null ? null : { kind: 'port', port: service.port },
  }))
}

/** Whether a docker service has an address. */
export const isRouted = ({ port, isPublic }: DockerService): boolean => port !== null && isPublic

const problem = (
  at: Range,
  path: string,
  code: 'invalid_domain' | 'duplicate_route',
  message: string,
): Problem => ({ file: FILE_NAME, ...at, path, code, severity: 'error', message, suggestion: null })

/** `default: true`, else the one named web, else the only routed one. */
export function defaultService(
  services: readonly { name: string; isRouted: boolean; isDefault: boolean }[],
): string | null {
  const routed = services.filter(({ isRouted }) => isRouted)
  const chosen =
    routed.find(({ isDefault }) => isDefault) ??
    routed.find(({ name }) => name === 'web') ??
    (routed.length === 1 ? routed[0] : undefined)
  return chosen?.name ?? null
}

/** Leaves variables in the domain; text parts are lower case. */
export function addressOf(
  service: { name: string; domain: string | null; path: string | null },
  isDefault: boolean,
): { domain: string; path: string } {
  const path = normalizePath(service.path ?? '/')
  if (service.domain !== null) return { domain: normalizeTemplate(service.domain), path }
  const ownHost = isDefault || service.path !== null
  return { domain: ownHost ? ENVIRONMENT_DOMAIN : `${service.name}-${ENVIRONMENT_DOMAIN}`, path }
}

export const sameAddress = (service: string, other: string, address: string): string =>
  `${service} and ${other} would both answer at ${address}; give one of them another 'path' or ` +
  "'domain'"

const normalizePath = (path: string): string => path.replace(/(?<!\/)\/+$/, '') || '/'
