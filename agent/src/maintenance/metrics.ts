// Serves figures of this agent to monitoring (Prometheus), off unless the settings name an address and a file with a
// token: accounts of environments can reach a port of this server, and figures are not theirs. Written by hand, because
// a library would cost every agent memory for a page of text.
import { createHash, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { VERSION } from '@berth/shared/version'
import type { AttemptManager } from '../attempts/attempt-manager.ts'
import { METRICS } from '../limits/maintenance.ts'
import { describeError, type Log } from '../log.ts'
import type { AgentSettings } from '../settings.ts'
import type { Host } from './host.ts'
import type { Observations } from './observations.ts'

interface MetricsParts {
  settings: AgentSettings
  manager: Pick<AttemptManager, 'liveIds'>
  host: Pick<Host, 'pulse' | 'info'>
  observations: Observations
  isConnected: () => boolean
  log: Log
}

type Figure = [labels: Record<string, string>, value: number]

const escaped = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

function series(name: string, type: 'gauge' | 'counter', help: string, figures: Figure[]): string {
  const lines = figures.map(([labels, value]) => {
    const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escaped(text)}"`)
    return `${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}`
  })
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n')
}

function count<T>(all: T[], keyOf: (one: T) => string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const one of all) counts.set(keyOf(one), (counts.get(keyOf(one)) ?? 0) + 1)
  return counts
}

export function renderMetrics(parts: Omit<MetricsParts, 'settings' | 'log'>): string {
  const { manager, host, observations, isConnected } = parts
  const { spoolBytes, diskFreeBytes } = host.pulse()
  const views = observations.since(0).filter(({ services }) => services.length > 0)
  const degraded = views.filter(({ degradedReason }) => degradedReason !== '').length
  const services = count(
    views.flatMap((view) => view.services),
    ({ state }) => state,
  )
  const { user, system } = process.cpuUsage()
  return [
    series('berth_agent_info', 'gauge', 'Its version', [[{ version: VERSION }, 1]]),
    series('berth_agent_connected', 'gauge', 'Whether the control plane is reached', [
      [{}, Number(isConnected())],
    ]),
    series('berth_agent_attempts', 'gauge', 'Tasks that run here', [
      [{}, manager.liveIds().length],
    ]),
    series('berth_agent_environments', 'gauge', 'Environments that run here, by state', [
      [{ state: 'running' }, views.length - degraded],
      [{ state: 'degraded' }, degraded],
    ]),
    series(
      'berth_agent_services',
      'gauge',
      'Services that should run here, by state',
      [...services].map(([state, number]): Figure => [{ state }, number]),
    ),
    series(
      'berth_agent_part_up',
      'gauge',
      'Programs of this server that Berth uses',
      host
        .info()
        .parts.map(({ name, version }): Figure => [{ part: name }, Number(version !== '')]),
    ),
    series(
      'berth_agent_log_bytes_waiting',
      'gauge',
      'Log lines that the control plane has not stored',
      [[{}, Number(spoolBytes)]],
    ),
    series('berth_agent_disk_free_bytes', 'gauge', "Free space of the agent's disk", [
      [{}, Number(diskFreeBytes)],
    ]),
    series('process_cpu_seconds_total', 'counter', 'Processor time of the daemon', [
      [{}, (user + system) / 1e6],
    ]),
    series('process_resident_memory_bytes', 'gauge', 'Memory of the daemon', [
      [{}, process.memoryUsage.rss()],
    ]),
  ].join('')
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** The file is read for each request, so that a new token needs no restart. */
function isAllowed(request: IncomingMessage, tokenFile: string): boolean {
  const given = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1]
  const token = readFileSync(tokenFile, 'utf8').trim()
  return given !== undefined && token !== '' && timingSafeEqual(digest(given), digest(token))
}

/** Returns a function that stops it. */
export function serveMetrics(parts: MetricsParts): () => void {
  const { settings, log } = parts
  const { metrics } = settings
  if (!metrics) return () => undefined
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const send = (status: number, text: string): void =>
      void response.writeHead(status, { 'content-type': 'text/plain; version=0.0.4' }).end(text)
    try {
      if (request.url !== '/metrics' || request.method !== 'GET') send(404, 'Not found.\n')
      else if (!isAllowed(request, metrics.tokenFile)) send(401, 'The token is missing or wrong.\n')
      else send(200, renderMetrics(parts))
    } catch (error) {
      log.error(describeError(error), 'metrics')
      send(500, 'The figures could not be read; see the log of the agent.\n')
    }
  }
  const server = createServer({ requestTimeout: METRICS.requestMs }, answer)
  server.maxConnections = METRICS.connections
  server.on('error', (error) => log.error(describeError(error), 'metrics are not served'))
  server.listen(metrics.listen.port, metrics.listen.address)
  server.unref()
  return () => {
    server.close()
    server.closeAllConnections()
  }
}
