// The protocol of the edge's socket: one line of JSON each way, one call per connection. Plain data and its checks,
// used by both sides. Fences and revisions are bigint in code and decimal text on the wire.
import { PROXY } from '../limits/proxy.ts'

/** stopped: nothing answers. off: a user stopped the service. */
export type PageName = 'deploying' | 'failed' | 'stopped' | 'off'

const PAGES: readonly PageName[] = ['deploying', 'failed', 'stopped', 'off']

export type EdgeTarget =
  | ContainerTarget
  | { kind: 'loopback'; port: number }
  | SocketTarget
  | { kind: 'static'; root: string }
  | { kind: 'page'; page: PageName }

export interface ContainerTarget {
  kind: 'container'
  id: string
  port: number
  /** Further replicas, on the same port; absent: none, or an earlier version wrote the route. */
  others?: string[]
}

export const containerIds = ({ id, others = [] }: ContainerTarget): string[] => [id, ...others]

export interface SocketTarget {
  kind: 'socket'
  path: string
  /** The account that must own the socket; undefined without accounts, or when an earlier version wrote the route. */
  uid?: number
}

export interface EdgeRoute {
  service: string
  /** Lower case, punycode, no trailing dot. */
  host: string
  /** '/' or '/x'; the longest prefix on segment boundaries wins. */
  path: string
  /** False when this service does not ask for the environment's password. */
  auth: boolean
  target: EdgeTarget
}

export interface BasicAuth {
  username: string
  /** bcrypt. */
  passwordHash: string
}

export interface SetRoutes {
  environmentId: number
  fence: bigint
  routes: EdgeRoute[]
}

export interface RoutesSet {
  generation: number
  /** Requests that come from now on reach the new upstreams. An earlier edge answers before that, without this field. */
  isSettled?: boolean
}

export interface RemoveRoutes {
  environmentId: number
  fence: bigint
  /** The environment is removed for good, and its password with it. */
  forget?: boolean
}

export interface SetAuth {
  environmentId: number
  revision: bigint
  basicAuth: BasicAuth | null
}

/** Replicas of an environment that get no requests while another one of their service can. Replaces the former set. */
export interface SetAvoided {
  environmentId: number
  containers: string[]
}

export interface EdgeDescription {
  /** Increases with every change of the table. */
  generation: number
  caddy: {
    up: boolean
    version: string
    /** Why it is not up, as a sentence that a person can act on. */
    reason: string
  }
  /** 'ports' is development without Caddy, with one loopback port per routed service. */
  mode: 'caddy' | 'ports'
}

/** The address of a route in mode 'ports', and its upstream. */
export interface PortRoute {
  port: number
  upstream: string
}

/** unavailable: not reachable, retry later · refused: it cannot work · stale: a newer call came first. */
type EdgeErrorKind = 'unavailable' | 'refused' | 'stale'

export class EdgeError extends Error {
  override readonly name = 'EdgeError'
  readonly kind: EdgeErrorKind
  constructor(kind: EdgeErrorKind, message: string) {
    super(message)
    this.kind = kind
  }
}

export type EdgeCall =
  | { method: 'setRoutes'; params: SetRoutes }
  | { method: 'getRoutes'; params: { environmentId: number } }
  | { method: 'removeRoutes'; params: RemoveRoutes }
  | { method: 'setAuth'; params: SetAuth }
  | { method: 'setAvoided'; params: SetAvoided }
  | { method: 'describe'; params: Record<string, never> }
  | { method: 'findPort'; params: { host: string; path: string } }

export type EdgeAnswer =
  | { ok: true; result: unknown }
  | { ok: false; kind: EdgeErrorKind; message: string }

const BIG = new Set(['fence', 'revision'])

export const encodeLine = (value: unknown): string =>
  `${JSON.stringify(value, (_key, v: unknown) => (typeof v === 'bigint' ? v.toString() : v))}\n`

export const decodeLine = (line: string): unknown =>
  JSON.parse(line, (key, value: unknown) =>
    BIG.has(key) && typeof value === 'string' && /^\d{1,20}$/.test(value) ? BigInt(value) : value,
  )

const HOST =
  /^(?=.{1,230}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/
const PATH = /^\/$|^(\/[A-Za-z0-9._~!$&'()+,;=:@%-]+)+$/
const BCRYPT = /^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/
const CONTAINER = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$/

const isPort = (n: unknown): boolean => Number.isInteger(n) && Number(n) >= 1 && Number(n) <= 65_535
/** Excludes root, whose sockets are never a service. */
const isUser = (n: unknown): boolean => Number.isSafeInteger(n) && Number(n) >= 1
const isPlace = (path: unknown): boolean =>
  typeof path === 'string' && /^\/[^\0{}]{1,4000}$/.test(path)

const isContainers = (ids: unknown): boolean =>
  Array.isArray(ids) &&
  ids.length <= PROXY.containers &&
  ids.every((id) => typeof id === 'string' && CONTAINER.test(id))

function findTargetProblem(target: EdgeTarget): string | undefined {
  switch (target?.kind) {
    case 'container':
      if (!isContainers([target.id, ...(target.others ?? [])])) return 'has no container'
      return isPort(target.port) ? undefined : 'has no port'
    case 'loopback':
      return isPort(target.port) ? undefined : 'has no port'
    case 'socket':
      if (!isPlace(target.path)) return 'has no socket'
      return target.uid === undefined || isUser(target.uid) ? undefined : 'has no account'
    case 'static':
      return isPlace(target.root) ? undefined : 'has no folder'
    case 'page':
      return PAGES.includes(target.page) ? undefined : 'has no page'
    default:
      return 'has no target'
  }
}

function findRouteProblem(route: EdgeRoute): string | undefined {
  const name = String(route?.service ?? '?').slice(0, 80)
  if (!HOST.test(String(route.host))) return `The host of service ${name} cannot be routed.`
  if (!PATH.test(String(route.path))) return `The path of service ${name} cannot be routed.`
  if (typeof route.auth !== 'boolean')
    return `Service ${name} does not say whether it is protected.`
  const problem = findTargetProblem(route.target)
  return problem && `Service ${name} ${problem}.`
}

/** A sentence, or undefined when the call is valid. Only root can use the socket; this catches mistakes. */
export function findProblem(call: EdgeCall): string | undefined {
  const params = call.params as Partial<SetRoutes & SetAuth>
  if (call.method === 'describe' || call.method === 'findPort') return undefined
  if (!Number.isSafeInteger(params.environmentId) || Number(params.environmentId) < 1) {
    return 'The call names no environment.'
  }
  if (call.method === 'getRoutes') return undefined
  if (call.method === 'setAvoided') {
    return isContainers(call.params.containers) ? undefined : 'The call names no containers.'
  }
  if (call.method === 'setAuth') {
    if (typeof call.params.revision !== 'bigint') return 'The settings have no revision.'
    const auth = call.params.basicAuth
    if (auth === null) return undefined
    const isName = /^[^:\p{Cc}]{1,255}$/u.test(String(auth?.username))
    return isName && BCRYPT.test(String(auth?.passwordHash))
      ? undefined
      : 'Name or password of Basic Auth cannot be used.'
  }
  if (typeof call.params.fence !== 'bigint') return 'The call has no fence.'
  if (call.method === 'removeRoutes') return undefined
  if (!Array.isArray(params.routes)) return 'The call has no routes.'
  if (params.routes.length > PROXY.routesPerEnvironment) return 'These are too many routes.'
  return params.routes.map(findRouteProblem).find((problem) => problem !== undefined)
}
