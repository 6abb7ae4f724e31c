// Renders Caddy's whole configuration from the routing table. PURE. It is nearly constant: one catch-all route asks the
// name server for every plain hostname, so a deployment changes an answer of the name server and not this. Passwords,
// paths, folders and sockets get routes of their own. Invariants: the catch-all never serves a hostname that has its
// own route; every @id is unique (Caddy silently accepts duplicates).
import { PROXY } from '../../limits/proxy.ts'
import type { AgentSettings } from '../../settings.ts'
import { errorPage } from '../edge/pages.ts'
import type { EdgeKeys } from '../paths.ts'
import { type PlacedRoute, routeId } from '../table.ts'

type Json = Record<string, unknown>

export interface RenderInput {
  proxy: AgentSettings['proxy']
  routes: PlacedRoute[]
  keys: EdgeKeys
  adminSocket: string
  /** Folders of stable names (`<id>`) of static roots and of sockets. */
  links: string
  sockets: string
  logs: string
  pagePort: number
  /** Of Caddy; later versions have more features and rename some. */
  version: string
}

/** Hostnames of the catch-all. */
export const PLAIN_ZONE = 'berth.internal'
/** Names of own routes; no Host header can spell a name in this zone. */
export const OWN_ZONE = 'berth-own.internal'

const ms = (n: number): string => `${n}ms`

/** Only valid hostnames reach the name server; for an invalid one, the client would wait in vain. */
const LABEL = '[a-zA-Z0-9_](?:[a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?'
const HOST_PATTERN = `^${LABEL}(?:\\.${LABEL})*$`
/** RE2 has no look-ahead, so a second condition checks the length, with space for a port. */
const isHost = {
  vars_regexp: { '{http.request.host}': { pattern: HOST_PATTERN } },
  header_regexp: { Host: { pattern: `^.{1,${PROXY.hostLength + 6}}$` } },
}
const isLocal = {
  vars_regexp: { '{http.request.host}': { pattern: '(?i)^(?:.*\\.)?localhost$' } },
}
const isProbe = { vars: { berth_probe: ['1'] } }

export const needsOwnRoute = (route: PlacedRoute): boolean =>
  route.basicAuth !== null ||
  route.path !== '/' ||
  route.target.kind === 'static' ||
  route.target.kind === 'socket'

/** The name of an own route in queries to the name server. */
export const ownName = (host: string, path: string): string => `r${routeId(host, path)}.${OWN_ZONE}`

/** Tells for which Caddy a configuration is; one version refuses what another one needs. */
const configurationId = (version: string): string => `berth.caddy-${version}`

export function renderConfiguration(input: RenderInput): Json {
  const { http, https } = input.proxy
  const configuration = {
    '@id': configurationId(input.version),
    admin: {
      listen: `unix/${input.adminSocket}`,
      origins: [input.keys.origin],
      config: { persist: false },
    },
    logging: renderLogging(input),
    apps: {
      http: {
        http_port: http.port,
        ...(https ? { https_port: https.port } : {}),
        grace_period: ms(PROXY.graceMs),
        servers: {
          http: renderServer(input, 'http', `${http.address}:${http.port}`),
          ...(https
            ? { https: renderServer(input, 'https', `${https.address}:${https.port}`) }
            : {}),
        },
      },
      ...(https ? { tls: renderTls(input), pki: PKI } : {}),
    },
  }
  assertUnique(configuration)
  return configuration
}

/** Leaves the machine's trust store alone. */
const PKI = { certificate_authorities: { local: { install_trust: false } } }

function renderTls({ proxy, pagePort, version, keys }: RenderInput): Json {
  const endpoint = `http://127.0.0.1:${pagePort}/ask/${keys.ask}`
  const question = isAtLeast(version, 2, 8)
    ? { permission: { module: 'http', endpoint } }
    : { ask: endpoint }
  const issuer =
    proxy.tls === 'internal' ? { module: 'internal' } : { module: 'acme', ca: proxy.tls }
  const issuers = proxy.tls === undefined ? {} : { issuers: [issuer] }
  return { automation: { on_demand: question, policies: [{ on_demand: true, ...issuers }] } }
}

function isAtLeast(version: string, major: number, minor: number): boolean {
  const [, a = '0', b = '0'] = /^(\d+)\.(\d+)/.exec(version) ?? []
  return Number(a) > major || (Number(a) === major && Number(b) >= minor)
}

function renderLogging({ logs: folder, proxy }: RenderInput): Json {
  const file = (name: string, mib: number, keep: number) => ({
    output: 'file',
    filename: `${folder}/${name}`,
    roll_size_mb: mib,
    roll_keep: keep,
  })
  return {
    logs: {
      default: {
        level: 'INFO',
        writer: file('caddy.log', 10, 2),
        exclude: ['http.log.access'],
      },
      ...(proxy.accessLog
        ? { access: accessLog(file('access.log', PROXY.accessLogMiB, PROXY.accessLogs)) }
        : {}),
    },
  }
}

/** Headers contain cookies, passwords and the probe's secret. */
const accessLog = (writer: Json): Json => ({
  include: ['http.log.access'],
  writer,
  encoder: {
    format: 'filter',
    wrap: { format: 'json' },
    fields: {
      'request>headers': { filter: 'delete' },
      resp_headers: { filter: 'delete' },
    },
  },
})

function renderServer(input: RenderInput, scheme: 'http' | 'https', listen: string): Json {
  const own = input.routes.filter(needsOwnRoute).sort(byLongestPath)
  const redirects = scheme === 'http' && input.proxy.https !== null
  return {
    listen: [listen],
    protocols: ['h1', 'h2'],
    automatic_https: { disable: true },
    ...(scheme === 'https' ? { tls_connection_policies: [{}] } : {}),
    read_header_timeout: ms(PROXY.dialMs * 5),
    ...(input.proxy.accessLog ? { logs: { default_logger_name: 'berth' } } : {}),
    routes: [
      probeRoute(input, scheme),
      stripRoute(scheme),
      ...(scheme === 'https' ? [STAY_ENCRYPTED] : []),
      ...(redirects ? [redirectRoute(input)] : []),
      ...own.map((route) => ownRoute(input, route, scheme)),
      catchAll(input, scheme),
      { '@id': `${scheme}.fallback`, handle: [pageServer(input)] },
    ],
    errors: { routes: errorRoutes(scheme) },
  }
}

const byLongestPath = (a: PlacedRoute, b: PlacedRoute): number =>
  a.host === b.host ? b.path.length - a.path.length : a.host < b.host ? -1 : 1

/**
 * For the agent's probe: identified by its secret, it needs no password, and the answer names the upstream. It is not a
 * visitor's request, so the access log leaves it out (versions of Caddy name that variable differently).
 */
const probeRoute = ({ keys }: RenderInput, scheme: string): Json => ({
  '@id': `${scheme}.probe`,
  match: [{ header: { 'X-Berth-Probe': [keys.probe] } }],
  handle: [
    { handler: 'vars', berth_probe: '1', log_skip: true, skip_log: true },
    {
      handler: 'headers',
      response: {
        deferred: true,
        set: {
          'X-Berth-Upstream': ['{http.vars.berth_upstream}{http.reverse_proxy.upstream.hostport}'],
        },
      },
    },
  ],
})

/** Removes the platform's own headers, both from outside requests and from answers of applications. */
const stripRoute = (scheme: string): Json => ({
  '@id': `${scheme}.strip`,
  handle: [
    {
      handler: 'headers',
      request: { delete: ['X-Berth-*'] },
      response: { deferred: true, delete: ['X-Berth-*'] },
    },
  ],
})

/** With https, http only redirects. An application's own header stays. */
const STAY_ENCRYPTED: Json = {
  '@id': 'https.stay',
  handle: [
    {
      handler: 'headers',
      response: {
        require: { headers: { 'Strict-Transport-Security': null } },
        set: { 'Strict-Transport-Security': ['max-age=31536000'] },
      },
    },
  ],
}

/** The page server redirects known hostnames to https and shows a page for unknown ones. */
const redirectRoute = (input: RenderInput): Json => ({
  '@id': 'http.redirect',
  match: [{ not: [isLocal, isProbe] }],
  handle: [
    { handler: 'headers', request: { set: { 'X-Berth-Page': ['redirect'] } } },
    pageServer(input),
  ],
  terminal: true,
})

function ownRoute(input: RenderInput, route: PlacedRoute, scheme: string): Json {
  const id = `${scheme}.route.${routeId(route.host, route.path)}`
  const path = route.path === '/' ? {} : { path_regexp: { pattern: pathPattern(route.path) } }
  return {
    '@id': id,
    match: [{ host: [route.host], ...path }],
    handle: [
      ...(route.basicAuth ? [passwordGate(route.basicAuth)] : []),
      ...handlersOf(input, route),
    ],
    terminal: true,
  }
}

const pathPattern = (path: string): string =>
  `^${path.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?:/|$)`

const passwordGate = ({ username, passwordHash }: NonNullable<PlacedRoute['basicAuth']>): Json => ({
  handler: 'subroute',
  routes: [
    {
      match: [{ not: [isProbe] }],
      handle: [
        {
          handler: 'authentication',
          providers: {
            http_basic: {
              hash: { algorithm: 'bcrypt' },
              hash_cache: {},
              realm: 'restricted',
              accounts: [
                {
                  // Caddy would read braces as a placeholder
                  username: username.replaceAll('{', '\\{'),
                  password: Buffer.from(passwordHash).toString('base64'),
                },
              ],
            },
          },
        },
      ],
    },
  ],
})

function handlersOf(input: RenderInput, route: PlacedRoute): Json[] {
  const id = routeId(route.host, route.path)
  const isGuarded = route.basicAuth !== null
  switch (route.target.kind) {
    case 'static':
      return [
        { handler: 'vars', berth_upstream: 'static' },
        { handler: 'file_server', root: `${input.links}/${id}`, hide: ['.*'] },
      ]
    case 'socket':
      return [
        reverseProxy(input, { upstreams: [{ dial: `unix/${input.sockets}/${id}` }] }, isGuarded),
      ]
    default: {
      const name = `${ownName(route.host, route.path)}.`
      return [reverseProxy(input, fromNames(input, name), isGuarded)]
    }
  }
}

const catchAll = (input: RenderInput, scheme: string): Json => ({
  '@id': `${scheme}.all`,
  match: [isHost],
  handle: [reverseProxy(input, fromNames(input, `{http.request.host}.${PLAIN_ZONE}.`), false)],
  terminal: true,
})

/** Idempotent requests wait for an upstream that is down; others only while no byte of them was sent (see CLOSED_PORT). */
const WAITING = {
  retries: 0,
  try_duration: ms(PROXY.tryMs),
  try_interval: '50ms',
  retry_match: [{ method: ['GET', 'HEAD', 'OPTIONS'] }],
}

const KEEP_ALIVE = {
  enabled: true,
  idle_timeout: ms(PROXY.idleMs),
  max_idle_conns_per_host: 64,
}

const pageServer = ({ pagePort }: RenderInput): Json => ({
  handler: 'reverse_proxy',
  upstreams: [{ dial: `127.0.0.1:${pagePort}` }],
  load_balancing: WAITING,
  transport: { protocol: 'http', dial_timeout: ms(PROXY.dialMs), keep_alive: KEEP_ALIVE },
})

/** Without `udp/` Caddy uses TCP. */
const resolver = ({ proxy }: RenderInput) => ({ addresses: [`udp/127.0.0.1:${proxy.dnsPort}`] })

/**
 * Caddy's upstream while the name server is down. The port has no listener, and a refused connection is the one failure
 * after which Caddy retries any request; without it, a POST got 503 immediately.
 */
const CLOSED_PORT = [{ dial: '127.0.0.1:1' }]

const fromNames = (input: RenderInput, name: string): Json => ({
  upstreams: CLOSED_PORT,
  dynamic_upstreams: {
    source: 'srv',
    name,
    refresh: ms(PROXY.refreshMs),
    resolver: resolver(input),
  },
})

const reverseProxy = (input: RenderInput, to: Json, isGuarded: boolean): Json => ({
  handler: 'reverse_proxy',
  ...to,
  load_balancing: WAITING,
  // before 2.7 every push closes WebSockets
  ...(isAtLeast(input.version, 2, 7) ? { stream_close_delay: ms(PROXY.streamsMs) } : {}),
  transport: {
    protocol: 'http',
    dial_timeout: ms(PROXY.dialMs),
    resolver: resolver(input),
    keep_alive: KEEP_ALIVE,
  },
  ...(isGuarded ? { headers: { request: { delete: ['Authorization'] } } } : {}),
})

/** A page for when no upstream answered; it must work without the edge, which may be down. */
const errorRoutes = (scheme: string): Json[] => {
  const isFailure = { expression: '{http.error.status_code} >= 500' }
  const answer = (id: string, type: string, body: string, match: Json): Json => ({
    '@id': `${scheme}.error.${id}`,
    match: [{ ...isFailure, ...match }],
    handle: [
      {
        handler: 'static_response',
        status_code: '{http.error.status_code}',
        headers: { 'Content-Type': [type], 'Cache-Control': ['no-store'] },
        body,
      },
    ],
    terminal: true,
  })
  const { html, text } = errorPage()
  return [
    answer('html', 'text/html; charset=utf-8', html, { header: { Accept: ['*text/html*'] } }),
    answer('text', 'text/plain; charset=utf-8', text, {}),
  ]
}

function assertUnique(value: unknown, seen = new Set<string>()): void {
  if (typeof value !== 'object' || value === null) return
  const id = (value as Json)['@id']
  if (typeof id === 'string') {
    if (seen.has(id)) throw new Error(`the configuration names ${id} twice`)
    seen.add(id)
  }
  for (const inner of Object.values(value)) assertUnique(inner, seen)
}
