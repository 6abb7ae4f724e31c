// Brings one environment of the docker recipe back to its last successful version, after a runner died or the machine
// was restarted: what had been paused for a successor is started again, the edge gets the version's own routes, and
// what was being made goes. In this order, so that nothing is removed while requests still go there. Every step may be
// repeated. The caller makes sure that no other deployment works in the environment.
import { setTimeout as delay } from 'node:timers/promises'
import { DOCKER_STEPS, STEPS } from '@berth/shared'
import {
  inspectOwned,
  setRestartPolicy,
  startContainer,
  stopContainer,
} from '../exec/docker/containers.ts'
import { type Engine, EngineError } from '../exec/docker/engine.ts'
import type { EdgeClient } from '../exec/proxy/client.ts'
import type { EdgeRoute } from '../exec/proxy/protocol.ts'
import type { Ledger } from '../journal/ledger.ts'
import type { ObjectRow } from '../journal/objects.ts'
import { isDockerPlan, isManualPlan } from '../recipes/plan.ts'
import type { AgentSettings } from '../settings.ts'
import { type CollectRequest, collectEnvironment, readPlan } from './collect.ts'

export interface House {
  engine: Engine
  edge: EdgeClient
  ledger: Ledger
  settings: AgentSettings
}

export interface SettleRequest extends CollectRequest {
  /** Of the deployment that asks; routes are given with the highest fence there is. */
  fence?: bigint
}

/** What was done, as sentences; empty: everything was as it should be. */
export async function settleEnvironment(house: House, request: SettleRequest): Promise<string[]> {
  const { engine, ledger, settings } = house
  const notes = await resumePaused(house, request)
  const hasMoved = await restoreRoutes(house, request, notes)
  if (hasMoved) await delay(house.edge.refreshMs)
  await letRequestsEnd(house, request)
  const { removed, problems } = await collectEnvironment(engine, ledger, settings, request)
  return [...notes, ...removed.map((what) => `Left over and removed: ${what}.`), ...problems]
}

/** Those on their way to what goes now arrive, and get their answer, up to a bound. */
async function letRequestsEnd(house: House, request: SettleRequest): Promise<void> {
  const { engine, edge, ledger, settings } = house
  const { environmentId, attemptId } = request
  const leaving: string[] = []
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    const isLeaving = row.state === 'making' || row.state === 'retired'
    if (!isLeaving || row.attemptId === attemptId) continue
    const seen = await inspectOwned(engine, settings, row.name)
    if (seen?.state === 'running') leaving.push(`${seen.address}:${row.facts.port}`)
  }
  if (leaving.length === 0) return
  const until = performance.now() + DOCKER_STEPS.drainMaxMs
  while ((await edge.countRequests(leaving)) && performance.now() < until) {
    await delay(DOCKER_STEPS.drainPollMs)
  }
}

/** Two containers of a service without a route never run at once: they may share a volume. */
async function stopSuccessors(house: House, request: SettleRequest, service: string) {
  const { engine, ledger, settings } = house
  const { environmentId, attemptId } = request
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    const isSuccessor = row.state === 'making' && row.service === service
    if (!isSuccessor || row.attemptId === attemptId) continue
    const seen = await inspectOwned(engine, settings, row.name)
    const timeoutMs = Number(row.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs)
    if (seen) await stopContainer(engine, seen.id, timeoutMs)
  }
}

async function resume(house: House, request: SettleRequest, row: ObjectRow): Promise<boolean> {
  const { engine, ledger, settings } = house
  const seen = await inspectOwned(engine, settings, row.name)
  const isDown = seen !== undefined && seen.state !== 'running'
  if (isDown) {
    await stopSuccessors(house, request, row.service)
    await setRestartPolicy(engine, seen.id, 'unless-stopped')
    await startContainer(engine, seen.id)
  }
  ledger.objects.setState(row, 'serving')
  return isDown
}

/** Stopped while somebody who is no more tried a successor in its place. One that cannot come back holds up nothing else. */
async function resumePaused(house: House, request: SettleRequest): Promise<string[]> {
  const { ledger } = house
  const { environmentId } = request
  const notes: string[] = []
  const plan = readPlan(ledger, environmentId)
  const isOfVersion = (name: string): boolean =>
    !isDockerPlan(plan) || plan.services.some(({ container }) => container === name)
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    if (row.state !== 'paused' || row.attemptId === request.attemptId) continue
    if (!isOfVersion(row.name)) continue
    const what = `${row.service} of deployment ${row.taskId}`
    try {
      if (await resume(house, request, row)) notes.push(`${what} was started again.`)
    } catch (error) {
      if (!(error instanceof EngineError) || error.kind === 'unavailable') throw error
      notes.push(`${what} could not be started again: ${error.message}.`)
    }
  }
  return notes
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

/** What the edge should have; undefined: what it has is nobody's left-over. */
function wantedRoutes(
  { ledger }: House,
  environmentId: number,
  present: readonly EdgeRoute[],
): EdgeRoute[] | undefined {
  const plan = readPlan(ledger, environmentId)
  if (isDockerPlan(plan)) return plan.routes
  if (isManualPlan(plan)) return undefined
  const rows = ledger.objects.list({ environmentId, kind: 'container' })
  // a lost ledger: what serves goes on
  if (rows.some(({ state }) => state === 'serving')) return undefined
  const isWaiting = ({ target }: EdgeRoute): boolean =>
    target.kind === 'container' || (target.kind === 'page' && target.page === 'deploying')
  if (!present.some(isWaiting)) return undefined
  // its first deployment died: whoever waits for it is told
  return present.map((route) => ({ ...route, target: { kind: 'page', page: 'failed' } }))
}

/** Requests may go to what is about to be removed: without an answer of the edge nothing is. */
function mayBeRouted({ ledger }: House, environmentId: number): boolean {
  const plan = readPlan(ledger, environmentId)
  const rows = ledger.objects.list({ environmentId, kind: 'container' })
  if (isDockerPlan(plan) && plan.routes.length > 0) return true
  return rows.some(({ state }) => state === 'making' || state === 'retired')
}

/** True when requests go somewhere else from now on. */
async function restoreRoutes(
  house: House,
  { environmentId, fence = 0n }: SettleRequest,
  notes: string[],
): Promise<boolean> {
  const { edge, ledger } = house
  const plan = ledger.findPlan(environmentId)
  const present = await edge.getRoutes(environmentId).catch((error: unknown) => {
    if (mayBeRouted(house, environmentId)) throw error
    return undefined
  })
  const wanted = wantedRoutes(house, environmentId, present?.routes ?? [])
  if (!wanted || textOf(wanted) === textOf(present?.routes ?? [])) return false
  const highest = [fence, plan?.fence ?? 0n, present?.fence ?? 0n].reduce((a, b) => (a > b ? a : b))
  await edge.setRoutes({ environmentId, fence: highest, routes: wanted })
  notes.push(
    plan
      ? `The routes of deployment ${plan.taskId} were put back.`
      : 'Nothing answers: the pages say that the deployment failed.',
  )
  return true
}
