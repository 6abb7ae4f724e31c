// What the steps of a deployment of either recipe share about its routes: the edge, the addresses of its services, the
// previous routes, and the calls to the edge. The first step that needs it opens it; opening has no effect.

import { setTimeout as delay } from 'node:timers/promises'
import type { Route } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { PROXY, ROUTE_STEPS } from '../limits/proxy.ts'
import { serverName } from '../machine/server-settings.ts'
import { type EdgeClient, letRequestsEnd, openEdge } from '../proxy/client.ts'
import { EdgeError, type EdgeRoute, type PageName } from '../proxy/protocol.ts'
import { readTable } from '../proxy/table.ts'
import type { AgentSettings } from '../settings.ts'
import type { Attempt } from './attempt.ts'
import { StepFailure } from './failure.ts'
import { PartKey } from './parts.ts'
import { restoreRoutes } from './restore-routes.ts'

interface Routing {
  readonly edge: EdgeClient
  /** Routes of the version that is being deployed. */
  routes: Route[]
  /** What the edge had when this deployment began. */
  routesBefore: EdgeRoute[]
  /** No version of this environment answers, so its hostnames show pages. */
  showsPages: boolean
  hasSwitched: boolean
  /** When the switch took effect everywhere (monotonic clock). */
  settledAt: number
}

export interface Upstream {
  address: string
  port: number
}

/** A container or process that was replaced and may still answer requests. */
export interface Retired extends Upstream {
  service: string
  /** The deployment that started it. */
  taskId: number
  drainMs: number
}

export const nameUpstream = ({ address, port }: Upstream): string => `${address}:${port}`

const ROUTING = new PartKey<Routing>('routing')

export function routingOf(attempt: Attempt): Routing {
  return attempt.parts.open(ROUTING, () => ({
    edge: openEdge(attempt.settings),
    routes: [],
    routesBefore: [],
    showsPages: false,
    hasSwitched: false,
    settledAt: 0,
  }))
}

export const routeOf = (attempt: Attempt, service: string): Route | undefined =>
  routingOf(attempt).routes.find((route) => route.service === service)

/** By service, without a slash at the end, so that a path can be appended. */
export function addressesOf(attempt: Attempt): Map<string, string> {
  const { routes, edge } = routingOf(attempt)
  return new Map(
    routes.map(({ service, host, path }) => {
      const url = edge.urlOf(host, path) || `http://${host}${path}` // a port that is not open yet
      return [service, url.replace(/\/+$/, '')]
    }),
  )
}

/** How people reach a service. The port of one without an address (`public: false`) is not reported: it is no address. */
export function reportedAddress(
  attempt: Attempt,
  { name, isPublic }: { name: string; isPublic: boolean },
  port: number | null | undefined,
) {
  const route = routeOf(attempt, name)
  return {
    name,
    hosts: route ? [route.host] : [],
    port: isPublic ? (port ?? 0) : 0,
    basicAuth: attempt.secrets.basicAuth !== undefined && (route?.auth ?? false),
    url: route ? routingOf(attempt).edge.urlOf(route.host, route.path) : '',
  }
}

/** Whether the edge has routes for this environment; works without a running edge. */
export const hasRoutes = (settings: AgentSettings, environmentId: number): boolean =>
  (readTable(settings).environments[environmentId]?.routes.length ?? 0) > 0

/** Why services cannot be routed here; undefined when they can. Waits for a proxy that is restarting. */
export async function findProxyProblem(
  attempt: Attempt,
  waitMs: number,
): Promise<string | undefined> {
  const { edge } = routingOf(attempt)
  const until = performance.now() + waitMs
  for (;;) {
    let problem: string
    try {
      const { caddy, mode } = await edge.describe()
      if (mode === 'ports' || caddy.up) return undefined
      problem = caddy.reason
      if (caddy.version === '') return problem // no Caddy is installed, so none will start
    } catch (error) {
      if (!(error instanceof EdgeError)) throw error
      problem = error.message
    }
    if (performance.now() >= until) return problem
    await attempt.interruption.wait(PROXY.probePollMs)
  }
}

/** `names`: the services that need it. */
export async function requireProxy(attempt: Attempt, names: string[]): Promise<void> {
  if (names.length === 0) return
  const problem = await findProxyProblem(attempt, ROUTE_STEPS.proxyWaitMs)
  if (problem === undefined) return
  throw new StepFailure(
    FailureCode.PROXY_UNAVAILABLE,
    `Server ${serverName(attempt.settings)} cannot route ${names.join(', ')}: ${problem}`,
  )
}

/** The same page at every address of the environment. */
const pagesOf = (attempt: Attempt, page: PageName): EdgeRoute[] =>
  routingOf(attempt).routes.map(({ service, host, path, auth }) => ({
    service,
    host,
    path,
    auth,
    target: { kind: 'page', page },
  }))

export async function showPages(attempt: Attempt, page: PageName): Promise<void> {
  const { environmentId, fence } = attempt.assignment
  const pages = pagesOf(attempt, page)
  await routingOf(attempt).edge.setRoutes({ environmentId, fence, routes: pages })
}

/** Waits for an edge that is restarting; calls to it are idempotent. */
async function whileAway<T>(report: () => Promise<T>): Promise<T> {
  const until = performance.now() + PROXY.waitForCaddyMs
  for (;;) {
    try {
      return await report()
    } catch (error) {
      const isAway = error instanceof EdgeError && error.kind === 'unavailable'
      if (!isAway || performance.now() >= until) throw error
    }
    await delay(PROXY.probePollMs)
  }
}

export async function giveAuth(attempt: Attempt): Promise<void> {
  const { basicAuth, edgeRevision } = attempt.secrets
  try {
    await whileAway(() =>
      routingOf(attempt).edge.setAuth({
        environmentId: attempt.assignment.environmentId,
        revision: edgeRevision,
        basicAuth: basicAuth
          ? { username: basicAuth.username, passwordHash: basicAuth.bcryptHash }
          : null,
      }),
    )
  } catch (error) {
    // settings changed after this deployment was requested, and those are the right ones
    if (!(error instanceof EdgeError && error.kind === 'stale')) throw error
  }
}

export async function giveRoutes(attempt: Attempt, routes: EdgeRoute[]): Promise<void> {
  const { environmentId, fence } = attempt.assignment
  await whileAway(() => routingOf(attempt).edge.setRoutes({ environmentId, fence, routes }))
}

/** Restores the routes of the previous version. `upstreams`: addresses of the new version, which is about to end. */
export async function takeBackRoutes(
  attempt: Attempt,
  upstreams: readonly string[],
): Promise<void> {
  const routing = routingOf(attempt)
  if (!routing.hasSwitched) return
  try {
    await giveRoutes(attempt, routing.routesBefore)
  } catch (error) {
    // a later deployment has set the routes, so they no longer lead here
    if (error instanceof EdgeError && error.kind === 'stale') routing.hasSwitched = false
    throw error
  }
  routing.hasSwitched = false
  if (!routing.showsPages) attempt.output.say('The routes are those of the version before again.')
  await letRequestsEnd(routing.edge, upstreams, ROUTE_STEPS.drainMinMs)
}

/** Where no version answers, the hostnames show what happened to the first one. */
export async function takeBackPages(attempt: Attempt): Promise<void> {
  if (!routingOf(attempt).showsPages) return
  await showPages(attempt, attempt.interruption.reason?.kind === 'stop' ? 'stopped' : 'failed')
}

/** No version answers and none will return: the hostnames show that a deployment is under way. */
export async function resetRoutes(attempt: Attempt): Promise<void> {
  const routing = routingOf(attempt)
  routing.routesBefore = pagesOf(attempt, 'deploying')
  routing.showsPages = routing.routes.length > 0
  if (routing.showsPages || hasRoutes(attempt.settings, attempt.assignment.environmentId)) {
    await giveRoutes(attempt, routing.routesBefore)
  }
}

/** The first step of a removal, so that no request reaches what is being removed. */
export async function unroute(attempt: Attempt): Promise<void> {
  const { environmentId, fence } = attempt.assignment
  try {
    await routingOf(attempt).edge.removeRoutes({ environmentId, fence })
  } catch (error) {
    // without an edge nothing is routed; a restarted edge has routes only if its table has an entry
    const isNone = !hasRoutes(attempt.settings, environmentId)
    if (!(error instanceof EdgeError && isNone)) throw error
  }
  attempt.output.say('Its hosts lead nowhere any more.')
}

/** A removal that removed nothing restores the routes, behind the same password, before it reports its failure. */
export async function routeAgain(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, output } = attempt
  const { environmentId, fence } = assignment
  if (!ledger.findPlan(environmentId)) return // it has ended
  const { edge } = routingOf(attempt)
  const notes = await whileAway(() =>
    restoreRoutes({ edge, ledger, settings }, { environmentId, fence }),
  )
  for (const note of notes) output.say(note)
}

/** Nothing of the environment is up, so its password is no longer needed. */
export async function forgetPassword(attempt: Attempt): Promise<void> {
  const { settings, assignment } = attempt
  const { environmentId, fence } = assignment
  if (!readTable(settings).environments[environmentId]?.basicAuth) return
  const { edge } = routingOf(attempt)
  await whileAway(() => edge.removeRoutes({ environmentId, fence, forget: true }))
}
