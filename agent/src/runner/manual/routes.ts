// Where the services of a manual deployment answer (a port of this machine, a socket, a copy of their files), the proof
// through the proxy that their hostnames lead there, and the state of services that only their owner starts.
import { STEPS } from '@berth/shared'
import type { ManualService } from '@berth/shared/service-file'
import type { HealthCheck } from '../../machine/process/health.ts'
import { openSocket } from '../../machine/process/sockets.ts'
import type { ProbeAnswer } from '../../proxy/client.ts'
import { readRouteLink } from '../../proxy/links.ts'
import { edgePaths } from '../../proxy/paths.ts'
import { isLinked } from '../../proxy/socket-links.ts'
import { readTable, routeId } from '../../proxy/table.ts'
import { type Attempt, accountOf, need } from '../attempt.ts'
import { isManualPlan, type ManualRoute, type PlacedStep } from '../plan/plan.ts'
import { routeOf, routingOf } from '../routing.ts'
import { answeredFrom, switchTraffic, verifyRoute } from '../steps/route.ts'
import { sectionOf } from './configure.ts'
import { replacementOf } from './plan.ts'
import { ask, noSocket, serviceOf, socketPath } from './service-processes.ts'
import { staticFolder } from './static.ts'

function targetOf(attempt: Attempt, { name, target }: ManualService): ManualRoute['target'] {
  switch (target?.kind) {
    case 'root':
      return { kind: 'static', root: staticFolder(attempt, name) }
    case 'socket': {
      const uid = accountOf(attempt)?.uid
      const path = socketPath(attempt, target.path)
      return { kind: 'socket', path, ...(uid === undefined ? {} : { uid }) }
    }
    default:
      return { kind: 'loopback', port: need(attempt, 'ports').get(name) ?? 0 }
  }
}

/** The address of every routed service of this deployment. */
export const manualRoutes = (attempt: Attempt): ManualRoute[] =>
  routingOf(attempt).routes.map(({ service, host, path, auth }) => {
    return { service, host, path, auth, target: targetOf(attempt, serviceOf(attempt, service)) }
  })

/** Checked even without a health check: the proxy dials only such sockets, and here the user still sees the reason. */
function requireSockets(attempt: Attempt, routes: ManualRoute[]): void {
  for (const { service, target } of routes) {
    if (target.kind !== 'socket') continue
    const socket = openSocket(target.path, accountOf(attempt)?.uid)
    if (typeof socket === 'object') socket.close()
    else throw noSocket(target.path, service)
  }
}

export async function switchManual(attempt: Attempt): Promise<void> {
  const routes = manualRoutes(attempt)
  requireSockets(attempt, routes)
  await switchTraffic(attempt, routes)
}

/** Addresses of this deployment's processes that end on undo. */
export const processUpstreams = (attempt: Attempt): string[] =>
  sectionOf(attempt)
    .services.filter((service) => service.run && replacementOf(service) === 'beside')
    .flatMap(({ name }) => {
      const port = routeOf(attempt, name) && attempt.results.ports?.get(name)
      return port === undefined ? [] : [`127.0.0.1:${port}`]
    })

type Judge = (answer: ProbeAnswer, host: string) => string | undefined

/** The address is the same for every version, so the target of the link decides. */
function byLink(attempt: Attempt, name: string, wanted: string, isIt: Judge): Judge {
  const route = routeOf(attempt, name)
  return (answer, host) => {
    const { links } = edgePaths(attempt.settings)
    const found = readRouteLink(links, host, route?.path ?? '/')
    if (found !== wanted) return `${host} still leads to the version before (${found}).`
    return isIt(answer, host)
  }
}

/** A folder without index.html has nothing to show at its root, which is allowed. */
const byFiles: Judge = ({ status, upstream }, host) =>
  upstream === 'static' || (upstream === '' && status === 404)
    ? undefined
    : `${host} is not answered with its files (${status}${upstream && `, by ${upstream}`}).`

const isInPorts = (attempt: Attempt): boolean => readTable(attempt.settings).mode === 'ports'

export async function verifyManualRoute(attempt: Attempt, service: ManualService): Promise<void> {
  const { name } = service
  const route = routeOf(attempt, name)
  if (!route) return
  const target = targetOf(attempt, service)
  if (target.kind === 'loopback') {
    return verifyRoute(attempt, service, answeredFrom(name, [`127.0.0.1:${target.port}`]))
  }
  if (target.kind === 'static') {
    if (isInPorts(attempt)) {
      return attempt.output.say(`Without Caddy the files of ${name} are not served.`)
    }
    return verifyRoute(attempt, service, byLink(attempt, name, target.root, byFiles))
  }
  if (isInPorts(attempt)) {
    return verifyRoute(attempt, service, answeredFrom(name, [target.path]))
  }
  const { sockets } = edgePaths(attempt.settings)
  const id = routeId(route.host, route.path)
  const from = answeredFrom(name, [`${sockets}/${id}`])
  return verifyRoute(attempt, service, (answer, host) =>
    isLinked(sockets, id, target.path)
      ? from(answer, host)
      : `${host} does not lead to ${target.path} (service ${name}).`,
  )
}

const CONNECT: HealthCheck = {
  kind: 'connect',
  intervalMs: STEPS.healthIntervalMs,
  timeoutMs: STEPS.healthTimeoutMs,
  startPeriodMs: 0,
  retries: 1,
}

/**
 * After a failure: the repository's commands start and stop services without `run`, so probing shows whether the
 * previous version still runs, with the service's own check if it has one (the kernel accepts connections for a process
 * that is being killed). Empty: nothing to report.
 */
export async function reportUnmanaged(attempt: Attempt, begun: PlacedStep[]): Promise<string> {
  const { last } = attempt.results
  const isTouched = begun.some(({ work }) => work.kind === 'command')
  if (!isManualPlan(last) || !isTouched) return ''
  const sentences: string[] = []
  for (const { name, run, target, health } of last.section.services) {
    const port = last.ports[name]
    if (run || (port === undefined && target?.kind !== 'socket')) continue
    const place =
      target?.kind === 'socket' ? { socket: socketPath(attempt, target.path) } : { port: port ?? 0 }
    const shown = 'port' in place ? `port ${place.port}` : place.socket
    const check = health.kind === 'http' ? health : CONNECT
    const sample = await ask(attempt, name, place, check).catch(() => undefined)
    const said = sample?.said ?? `${shown} is not a socket of this environment`
    sentences.push(
      sample?.isHealthy
        ? `${name} still answers on ${shown}.`
        : `${name} is not healthy any more (${said}): commands of this deployment stopped or changed it, and they are not undone.`,
    )
  }
  for (const sentence of sentences) attempt.output.say(sentence)
  return sentences.join(' ')
}
