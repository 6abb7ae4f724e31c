// The edge's client for runner and daemon: one call per connection, each with a deadline; each failure is an EdgeError
// with a sentence. Finding an address for people (`urlOf`) needs only the edge's table.
import { request } from 'node:http'
import { createConnection } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { PROXY, ROUTE_STEPS } from '../limits/proxy.ts'
import type { AgentSettings } from '../settings.ts'
import { openAdmin } from './caddy/admin.ts'
import { type EdgePaths, edgePaths, ensureKeys } from './paths.ts'
import { findAdminSocket, readProxyProcess } from './process-files.ts'
import {
  decodeLine,
  type EdgeAnswer,
  type EdgeCall,
  type EdgeDescription,
  EdgeError,
  type EdgeRoute,
  encodeLine,
  type PortRoute,
  type RemoveRoutes,
  type RoutesSet,
  type SetAuth,
  type SetAvoided,
  type SetRoutes,
} from './protocol.ts'
import { readTable, routeKey } from './table.ts'

interface ProbeRequest {
  host: string
  path: string
  /** Retries until this status comes; null accepts any answer of the application. */
  status: number | null
  timeoutMs: number
}

export interface ProbeAnswer {
  status: number
  /** The ip:port that answered, or the name of a socket or folder. */
  upstream: string
}

export interface EdgeClient {
  /** Sets all routes of the environment atomically. When it returns, they are durable, and new requests follow them. */
  setRoutes(routes: SetRoutes): Promise<{ generation: number }>
  getRoutes(environmentId: number): Promise<{ fence: bigint; routes: EdgeRoute[] } | undefined>
  removeRoutes(removal: RemoveRoutes): Promise<void>
  setAuth(auth: SetAuth): Promise<void>
  /** When it returns, new requests follow it. */
  setAvoided(avoided: SetAvoided): Promise<void>
  describe(): Promise<EdgeDescription>
  /** The address that people type. */
  urlOf(host: string, path: string): string
  /** Running requests to these upstreams (ip:port); undefined when they are not counted. */
  countRequests(upstreams: readonly string[]): Promise<number | undefined>
  /** Finds out which upstream answers now: through the proxy, with the real hostname, without Basic Auth. */
  probe(probe: ProbeRequest): Promise<ProbeAnswer>
}

type ClientSettings = Pick<AgentSettings, 'stateDir' | 'runDir' | 'proxy'>

export function openEdge(settings: ClientSettings): EdgeClient {
  const call = <T>(value: EdgeCall, ms: number = PROXY.callMs): Promise<T> =>
    callEdge(edgePaths(settings), value, ms) as Promise<T>
  const isInPorts = (): boolean => readTable(settings).mode === 'ports'
  return {
    async setRoutes(params) {
      const set = await call<RoutesSet>({ method: 'setRoutes', params })
      if (set.isSettled !== true) await delay(PROXY.settleMs)
      return set
    },
    async getRoutes(environmentId) {
      const found = await call({ method: 'getRoutes', params: { environmentId } })
      return (found ?? undefined) as { fence: bigint; routes: EdgeRoute[] } | undefined
    },
    async removeRoutes(params) {
      await call({ method: 'removeRoutes', params })
    },
    async setAuth(params) {
      await call({ method: 'setAuth', params })
    },
    async setAvoided(params) {
      await call({ method: 'setAvoided', params }, PROXY.adminMs)
    },
    describe: () => call({ method: 'describe', params: {} }, PROXY.adminMs),
    urlOf: (host, path) => addressOf(settings, host, path),
    async countRequests(upstreams) {
      if (isInPorts()) return undefined
      const admin = openAdmin(findAdminSocket(settings), ensureKeys(settings).origin)
      const running = await admin.requests().catch(() => undefined)
      if (!running) return undefined
      return [...running]
        .filter(([address]) => upstreams.includes(readUpstream(address)))
        .reduce((sum, [, count]) => sum + count, 0)
    },
    async probe(probe) {
      if (!isInPorts()) return probeUntil(probe, () => probeCaddy(settings, probe))
      const { host, path } = probe
      const found = await call<PortRoute>({ method: 'findPort', params: { host, path } })
      return probeUntil(probe, async () => {
        const answer = await ask({ host: '127.0.0.1', port: found.port }, probe, {})
        return { status: answer.status, upstream: found.upstream }
      })
    },
  }
}

/** Sends one line and reads one line. */
function callEdge(paths: EdgePaths, value: EdgeCall, ms: number): Promise<unknown> {
  const away = (why: string) =>
    new EdgeError('unavailable', `The edge of this server does not answer: ${why}.`)
  return new Promise((resolve, reject) => {
    const socket = createConnection(paths.socket)
    const timer = setTimeout(() => end(away(`nothing came in ${ms / 1_000} s`)), ms)
    let text = ''
    const end = (error?: Error, result?: unknown): void => {
      clearTimeout(timer)
      socket.destroy()
      if (error) reject(error)
      else resolve(result)
    }
    socket.setEncoding('utf8')
    socket.on('connect', () => socket.write(encodeLine(value)))
    socket.on('error', ({ message }) => {
      const reason = readProxyProcess(paths.edgeStart)?.reason // written by the process that starts it
      end(reason ? new EdgeError('unavailable', reason) : away(message))
    })
    socket.on('close', () => end(away('it closed the connection')))
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.length > PROXY.lineBytes) return end(away('its answer is too long'))
      const line = text.indexOf('\n')
      if (line < 0) return
      try {
        const answer = decodeLine(text.slice(0, line)) as EdgeAnswer
        if (answer.ok) end(undefined, answer.result)
        else end(new EdgeError(answer.kind, answer.message))
      } catch {
        end(away('its answer cannot be read'))
      }
    })
  })
}

export const isLocalHost = (host: string): boolean =>
  host === 'localhost' || host.endsWith('.localhost')

function addressOf(settings: ClientSettings, host: string, path: string): string {
  const { http, https } = settings.proxy
  const table = readTable(settings)
  if (table.mode === 'ports') {
    const port = table.ports[routeKey(host, path)]
    return port ? `http://127.0.0.1:${port}/` : ''
  }
  const isSecure = https !== null && !isLocalHost(host)
  const { port } = isSecure ? https : http
  const isUsual = port === (isSecure ? 443 : 80)
  return `${isSecure ? 'https' : 'http'}://${host}${isUsual ? '' : `:${port}`}${path}`
}

type Endpoint = { host: string; port: number }

function probeCaddy(settings: ClientSettings, probe: ProbeRequest): Promise<ProbeAnswer> {
  const { address, port } = settings.proxy.http
  const host = address === '0.0.0.0' ? '127.0.0.1' : address
  const secret = ensureKeys(settings).probe
  return ask({ host, port }, probe, { host: probe.host, 'x-berth-probe': secret })
}

/**
 * Returns the last answer when the wanted status never came; throws when there was no answer. Where any status will do,
 * one of the proxy itself will not: a busy server may need a second look before its name server answers.
 */
async function probeUntil(
  probe: ProbeRequest,
  look: () => Promise<ProbeAnswer>,
): Promise<ProbeAnswer> {
  const end = performance.now() + probe.timeoutMs
  for (;;) {
    let seen: ProbeAnswer | undefined
    let problem = ''
    try {
      seen = await look()
      if (probe.status === null ? seen.upstream !== '' : seen.status === probe.status) return seen
    } catch (error) {
      problem = (error as Error).message
    }
    if (performance.now() >= end) {
      if (seen) return seen
      const why = `The proxy does not answer for ${probe.host}: ${problem}.`
      throw new EdgeError('unavailable', why)
    }
    await delay(PROXY.probePollMs)
  }
}

/** Caddy uses the name that the name server gave it: ip-10-214-0-5.berth.internal.:8080. */
const readUpstream = (text: string): string =>
  text
    .replace('{http.reverse_proxy.upstream.hostport}', '') // Caddy served a file and used no upstream
    .replace(/^ip-(\d+)-(\d+)-(\d+)-(\d+)\.[a-z.]+:(\d+)$/, '$1.$2.$3.$4:$5')

function ask(
  at: Endpoint,
  probe: ProbeRequest,
  headers: Record<string, string>,
): Promise<ProbeAnswer> {
  return new Promise((resolve, reject) => {
    const timeout = Math.max(1, Math.min(PROXY.probeMs + PROXY.tryMs, probe.timeoutMs))
    const sent = request({ ...at, path: probe.path, headers, agent: false }, (answer) => {
      const upstream = readUpstream(String(answer.headers['x-berth-upstream'] ?? ''))
      resolve({ status: answer.statusCode ?? 0, upstream })
      answer.destroy()
    })
    const late = setTimeout(() => sent.destroy(new Error('no answer in time')), timeout)
    sent.on('close', () => clearTimeout(late))
    sent.on('error', reject)
    sent.end()
  })
}

/** Called before an upstream ends: waits for its running requests, up to a bound. */
export async function letRequestsEnd(
  edge: EdgeClient,
  upstreams: readonly string[],
  boundMs: number,
): Promise<void> {
  if (upstreams.length === 0) return
  const until = performance.now() + boundMs
  while ((await edge.countRequests(upstreams)) && performance.now() < until) {
    await delay(ROUTE_STEPS.drainPollMs)
  }
}
