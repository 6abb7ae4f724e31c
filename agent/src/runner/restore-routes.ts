// Restores the routes of an environment after a runner died: sends those of the last successful version, of either
// recipe, to the edge. Idempotent. The caller makes sure that no other deployment works in the environment.

import type { Ledger } from '../journal/ledger.ts'
import type { EdgeClient } from '../proxy/client.ts'
import type { EdgeRoute } from '../proxy/protocol.ts'
import { readTable } from '../proxy/table.ts'
import { readPlan } from '../resources/garbage.ts'
import type { AgentSettings } from '../settings.ts'
import { isDockerPlan, type LastPlan } from './plan/plan.ts'

export interface RouteContext {
  edge: EdgeClient
  ledger: Ledger
  settings: AgentSettings
}

export interface RouteRequest {
  environmentId: number
  /** The fence of the deployment that asks; the edge gets the highest known fence. */
  fence?: bigint
}

const textOf = (routes: readonly EdgeRoute[]): string =>
  JSON.stringify(
    routes
      .map(({ service, host, path, auth, target }) => {
        const place = Object.entries(target).toSorted(([a], [b]) => (a < b ? -1 : 1))
        return [host, path, service, auth, place]
      })
      .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)),
  )

/** The routes of a version; those of stopped services show a page. Undefined: written when manual services had none. */
export const routesNow = (
  { routes }: Pick<LastPlan, 'routes'>,
  stopped: ReadonlySet<string>,
): EdgeRoute[] | undefined =>
  routes?.map((route) =>
    stopped.has(route.service) ? { ...route, target: { kind: 'page', page: 'off' } } : route,
  )

/** The routes the edge should have; undefined: its current routes are not a leftover. */
function wantedRoutes(
  { ledger }: RouteContext,
  environmentId: number,
  present: readonly EdgeRoute[],
): EdgeRoute[] | undefined {
  const plan = readPlan(ledger, environmentId)
  if (plan) return routesNow(plan, ledger.listStopped(environmentId))
  const rows = ledger.objects.list({ environmentId, kind: 'container' })
  // the ledger was lost: what serves continues
  if (rows.some(({ state }) => state === 'serving')) return undefined
  const isWaiting = ({ target }: EdgeRoute): boolean =>
    target.kind !== 'page' || target.page === 'deploying'
  if (!present.some(isWaiting)) return undefined
  // its first deployment died: visitors who wait see the failure page
  return present.map((route) => ({ ...route, target: { kind: 'page', page: 'failed' } }))
}

/** Requests may go to what is about to be removed, so nothing is removed until the edge has answered. */
function mayBeRouted({ ledger, settings }: RouteContext, environmentId: number): boolean {
  const plan = readPlan(ledger, environmentId)
  if ((plan?.routes?.length ?? 0) > 0) return true
  const rows = ledger.objects.list({ environmentId, kind: 'container' })
  if (rows.some(({ state }) => state === 'making' || state === 'retired')) return true
  const isDocker = isDockerPlan(plan) || rows.length > 0
  // without containers, the edge's own table says whether the environment has routes
  return !isDocker && (readTable(settings).environments[environmentId]?.routes.length ?? 0) > 0
}

/** Returns what was done, as sentences; if there are any, requests now go elsewhere. */
export async function restoreRoutes(
  context: RouteContext,
  { environmentId, fence = 0n }: RouteRequest,
): Promise<string[]> {
  const { edge, ledger } = context
  const plan = ledger.findPlan(environmentId)
  const present = await edge.getRoutes(environmentId).catch((error: unknown) => {
    if (mayBeRouted(context, environmentId)) throw error
    return undefined
  })
  const wanted = wantedRoutes(context, environmentId, present?.routes ?? [])
  if (!wanted || textOf(wanted) === textOf(present?.routes ?? [])) return []
  const highest = [fence, plan?.fence ?? 0n, present?.fence ?? 0n].reduce((a, b) => (a > b ? a : b))
  await edge.setRoutes({ environmentId, fence: highest, routes: wanted })
  return [
    plan
      ? `The routes of deployment ${plan.taskId} were put back.`
      : 'Nothing answers: the pages say that the deployment failed.',
  ]
}
