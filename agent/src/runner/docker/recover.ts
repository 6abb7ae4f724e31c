// Brings one environment of the docker recipe back to its last successful version, after a runner died or the machine
// was restarted: what had been paused for a successor is started again, and so is what an engine that was killed did
// not bring back; the edge gets the version's own routes, and what was being made goes. In this order, so that nothing is removed while requests still go there. Every step may be
// repeated. The caller makes sure that no other deployment works in the environment.
import { setTimeout as delay } from 'node:timers/promises'
import { ROUTE_STEPS, STEPS } from '@berth/shared'
import type { Ledger } from '../../journal/ledger.ts'
import type { ObjectRow } from '../../journal/objects.ts'
import {
  inspectOwned,
  setRestartPolicy,
  startContainer,
  stopContainer,
} from '../../machine/docker/containers.ts'
import { type Engine, EngineError } from '../../machine/docker/engine.ts'
import { type EdgeClient, letRequestsEnd } from '../../proxy/client.ts'
import { type CollectRequest, collectEnvironment, readPlan } from '../../resources/garbage.ts'
import type { AgentSettings } from '../../settings.ts'
import { isDockerPlan } from '../plan/plan.ts'
import { restoreRoutes } from '../restore-routes.ts'

export interface Maintenance {
  engine: Engine
  edge: EdgeClient
  ledger: Ledger
  settings: AgentSettings
}

export interface RecoverRequest extends CollectRequest {
  /** Of the deployment that asks; routes are given with the highest fence there is. */
  fence?: bigint
  /** Services that ran when the engine went away. */
  ran?: readonly string[]
}

/** What was done, as sentences; empty: everything was as it should be. */
export async function recoverDocker(
  context: Maintenance,
  request: RecoverRequest,
): Promise<string[]> {
  const { engine, ledger, settings } = context
  const notes = await resumeStopped(context, request)
  const moved = await restoreRoutes(context, request)
  notes.push(...moved)
  if (moved.length > 0) await delay(context.edge.refreshMs)
  await awaitRequests(context, request)
  const { removed, problems } = await collectEnvironment(engine, ledger, settings, request)
  return [...notes, ...removed.map((what) => `Left over and removed: ${what}.`), ...problems]
}

/** Those on their way to what goes now arrive, and get their answer, up to a bound. */
async function awaitRequests(context: Maintenance, request: RecoverRequest): Promise<void> {
  const { engine, edge, ledger, settings } = context
  const { environmentId, attemptId } = request
  const leaving: string[] = []
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    const isLeaving = row.state === 'making' || row.state === 'retired'
    if (!isLeaving || row.attemptId === attemptId) continue
    const seen = await inspectOwned(engine, settings, row.name)
    if (seen?.state === 'running') leaving.push(`${seen.address}:${row.facts.port}`)
  }
  await letRequestsEnd(edge, leaving, ROUTE_STEPS.drainMaxMs)
}

/** Two containers of a service without a route never run at once: they may share a volume. */
async function stopSuccessors(context: Maintenance, request: RecoverRequest, service: string) {
  const { engine, ledger, settings } = context
  const { environmentId, attemptId } = request
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    const isSuccessor = row.state === 'making' && row.service === service
    if (!isSuccessor || row.attemptId === attemptId) continue
    const seen = await inspectOwned(engine, settings, row.name)
    const timeoutMs = Number(row.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs)
    if (seen) await stopContainer(engine, seen.id, timeoutMs)
  }
}

async function resume(
  context: Maintenance,
  request: RecoverRequest,
  row: ObjectRow,
): Promise<boolean> {
  const { engine, ledger, settings } = context
  const seen = await inspectOwned(engine, settings, row.name)
  const isDown = seen !== undefined && seen.state !== 'running'
  if (isDown) {
    await stopSuccessors(context, request, row.service)
    await setRestartPolicy(engine, seen.id, 'unless-stopped')
    await startContainer(engine, seen.id)
  }
  ledger.objects.setState(row, 'serving')
  return isDown
}

/**
 * Stopped while somebody who is no more tried a successor in its place, or by an engine that ends what its killed
 * predecessor had started and now and then forgets to start it again. One that cannot come back holds up nothing else.
 */
async function resumeStopped(context: Maintenance, request: RecoverRequest): Promise<string[]> {
  const { ledger } = context
  const { environmentId } = request
  const notes: string[] = []
  const plan = readPlan(ledger, environmentId)
  const isOfVersion = (name: string): boolean =>
    !isDockerPlan(plan) || plan.services.some(({ container }) => container === name)
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    const isDue = row.state === 'paused' || request.ran?.includes(row.service)
    if (!isDue || row.attemptId === request.attemptId || !isOfVersion(row.name)) continue
    const what = `${row.service} of deployment ${row.taskId}`
    try {
      if (await resume(context, request, row)) notes.push(`${what} was started again.`)
    } catch (error) {
      if (!(error instanceof EngineError) || error.kind === 'unavailable') throw error
      notes.push(`${what} could not be started again: ${error.message}.`)
    }
  }
  return notes
}
