// Routing in a deployment of either recipe: claims hostnames (`claim-hosts`), moves the traffic in one call (`switch`),
// proves through the proxy that the new version answers, and gives running requests time (`drain`). The recipe says
// where its services answer.
import { setTimeout as delay } from 'node:timers/promises'
import type { Recipe } from '@berth/shared'
import { type Health, routes } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { PROXY, ROUTE_STEPS } from '../../limits/proxy.ts'
import { countConnections } from '../../machine/process/connections.ts'
import { tryHandshake } from '../../machine/process/handshake.ts'
import { isExpectedStatus } from '../../machine/process/health.ts'
import { type EdgeClient, isLocalHost, type ProbeAnswer } from '../../proxy/client.ts'
import { EdgeError, type EdgeRoute } from '../../proxy/protocol.ts'
import { type Attempt, need } from '../attempt.ts'
import { probeOf } from '../docker/verify.ts'
import { StepFailure } from '../failure.ts'
import { claimHosts } from '../hostname-claims.ts'
import {
  findProxyProblem,
  giveAuth,
  giveRoutes,
  hasRoutes,
  nameUpstream,
  type Retired,
  requireProxy,
  routeOf,
  routingOf,
  showPages,
  type Upstream,
} from '../routing.ts'
import { environmentFacts } from './configure.ts'

export async function claimRoutes(attempt: Attempt, recipe: Recipe): Promise<void> {
  const routing = routingOf(attempt)
  const found = routes(need(attempt, 'file'), recipe, environmentFacts(attempt))
  routing.routes = found.routes
  if (found.routes.length === 0) {
    attempt.output.say('No service has an address: nothing is routed.')
    // the switch removes the routes of the previous version; they are restored if anything fails
    const { environmentId } = attempt.assignment
    if (!hasRoutes(attempt.settings, environmentId)) return
    routing.routesBefore = (await routing.edge.getRoutes(environmentId))?.routes ?? []
    return
  }
  await requireProxy(attempt, [...new Set(found.routes.map(({ service }) => service))])
  const hosts = [...new Set(found.routes.map(({ host }) => host))]
  await claimHosts(attempt, hosts)
  attempt.output.say(`Hosts: ${hosts.join(', ')}`)
  await showFirstPage(attempt)
}

/** A hostname without a version shows that its first deployment is under way. */
async function showFirstPage(attempt: Attempt): Promise<void> {
  const routing = routingOf(attempt)
  const before = await routing.edge.getRoutes(attempt.assignment.environmentId)
  routing.routesBefore = before?.routes ?? []
  if (routing.routesBefore.some(({ target }) => target.kind !== 'page')) return
  // a user stopped all of it, and its pages say so until the new version answers
  if (attempt.results.last && routing.routesBefore.length > 0) return
  routing.showsPages = true
  await showPages(attempt, 'deploying')
}

export async function switchTraffic(attempt: Attempt, wanted: EdgeRoute[]): Promise<void> {
  const routing = routingOf(attempt)
  const hadRoutes = routing.routesBefore.length > 0
  if (wanted.length === 0 && !hadRoutes) return attempt.output.say('Nothing is routed.')
  const [problem] = await Promise.all([
    findProxyProblem(attempt, PROXY.waitForCaddyMs),
    giveAuth(attempt),
  ])
  if (problem !== undefined) throw new StepFailure(FailureCode.PROXY_UNAVAILABLE, problem)
  routing.hasSwitched = true
  await giveRoutes(attempt, wanted)
  routing.settledAt = performance.now()
  for (const { service, host, path } of wanted) {
    attempt.output.say(`${routing.edge.urlOf(host, path)} → ${service}`)
  }
}

export const unproven = (message: string): StepFailure =>
  new StepFailure(FailureCode.VERIFY_FAILED, message)

/** `judge` says what is wrong with the answer; undefined: it comes from the new version. */
export async function verifyRoute(
  attempt: Attempt,
  service: { name: string; health: Health },
  judge: (answer: ProbeAnswer, host: string) => string | undefined,
): Promise<void> {
  const { name } = service
  const route = routeOf(attempt, name)
  if (!route) return
  const { host } = route
  const asked = probeOf(service, route.path)
  const timeoutMs = ROUTE_STEPS.probeMs
  const answer = await routingOf(attempt)
    .edge.probe({ host, ...asked, timeoutMs })
    .catch((error) => {
      throw error instanceof EdgeError ? unproven(error.message) : error
    })
  const problem = judge(answer, host)
  if (problem !== undefined) throw unproven(problem)
  if (asked.isHealth && !isExpectedStatus(asked.status, answer.status)) {
    throw unproven(`${host}${asked.path} answered ${answer.status} through the proxy.`)
  }
  await verifyHandshake(attempt, name, host)
}

/** For services behind an address: one of these addresses must have answered. */
export const answeredFrom =
  (name: string, wanted: readonly string[]) =>
  ({ status, upstream }: ProbeAnswer, host: string): string | undefined => {
    if (wanted.includes(upstream)) return undefined
    return upstream === ''
      ? `${host} is answered by the proxy itself (${status}), not by ${name}.`
      : `${host} still answers from the version before (${upstream}).`
  }

/** DNS or certificate issuance may lag behind a deployment, so a failure is a warning with the reason. */
async function verifyHandshake(attempt: Attempt, name: string, host: string): Promise<void> {
  const { https } = attempt.settings.proxy
  if (!https || isLocalHost(host)) return
  const problem = await tryHandshake(https, host, ROUTE_STEPS.handshakeMs)
  if (problem === undefined) return
  const message = `https://${host} does not answer with a certificate yet: ${problem}.`
  attempt.output.say(`Warning: ${message}`)
  attempt.report.warning('tls_not_ready', message, `verify:${name}`)
}

/** Counts running requests; where the proxy cannot count them, connections, including idle ones. */
export async function countBusy(
  edge: Pick<EdgeClient, 'countRequests'>,
  upstream: Upstream,
): Promise<number> {
  const requests = await edge.countRequests([nameUpstream(upstream)])
  return requests ?? countConnections(upstream.address, upstream.port)
}

/**
 * Nothing new reaches the previous version. What still answers a request is left to the daemon, so that the deployment
 * ends while a long request goes on.
 */
export async function drain(attempt: Attempt, old: Retired[]): Promise<void> {
  const { ledger, assignment, output } = attempt
  if (old.length === 0) return output.say('Nothing to wait for.')
  const { settledAt, edge } = routingOf(attempt)
  const startedAt = performance.now()
  await delay(Math.max(0, settledAt + ROUTE_STEPS.drainMinMs - startedAt))
  const left = new Map<string, { until: number; open: number }>()
  for (const retired of old) {
    const { service, taskId, drainMs } = retired
    const open = await countBusy(edge, retired)
    if (open === 0) continue
    const spent = performance.now() - settledAt
    const until = Math.round(Date.now() + Math.max(0, drainMs - spent))
    const known = left.get(service)
    const most = { until: Math.max(until, known?.until ?? 0), open: open + (known?.open ?? 0) }
    left.set(service, most)
    ledger.setDraining({
      environmentId: assignment.environmentId,
      service,
      taskId,
      until: most.until,
    })
  }
  for (const [service, { open, until }] of left) {
    const seconds = Math.ceil((until - Date.now()) / 1_000)
    output.say(
      `${service} of the version before still answers ${open} requests, for up to ${seconds} s.`,
    )
  }
  if (left.size === 0) output.say('The version before answers no request any more.')
}
