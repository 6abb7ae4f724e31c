// Restores the last successful version of a docker environment after a runner died or the machine restarted: starts
// what was paused for a successor or what a killed engine did not restart, gives the edge that version's routes, then
// removes unfinished objects, in this order so that nothing is removed while it gets requests. Idempotent; the caller
// makes sure that no other deployment works in the environment.
import { STEPS } from '@berth/shared'
import type { Ledger } from '../../journal/ledger.ts'
import type { ObjectRow } from '../../journal/objects.ts'
import { ROUTE_STEPS } from '../../limits/proxy.ts'
import {
  inspectOwned,
  setRestartPolicy,
  startContainer,
  stopContainer,
} from '../../machine/docker/containers.ts'
import type { Engine } from '../../machine/docker/engine.ts'
import { EngineError } from '../../machine/docker/engine-error.ts'
import { type EdgeClient, letRequestsEnd } from '../../proxy/client.ts'
import { type CollectRequest, collectEnvironment, readPlan } from '../../resources/garbage.ts'
import type { AgentSettings } from '../../settings.ts'
import { recoverData } from '../backup/recover.ts'
import { isDockerPlan } from '../plan/plan.ts'
import { restoreRoutes } from '../restore-routes.ts'

interface Maintenance {
  engine: Engine
  edge: EdgeClient
  ledger: Ledger
  settings: AgentSettings
}

interface RecoverRequest extends CollectRequest {
  /** The fence of the deployment that asks; the edge gets the highest known fence. */
  fence?: bigint
  /** Services that ran when the engine went down. */
  ran?: readonly string[]
}

/** Returns what was done, as sentences; empty when nothing had to change. */
export async function recoverDocker(
  context: Maintenance,
  request: RecoverRequest,
): Promise<string[]> {
  const { engine, ledger, settings } = context
  const notes = await recoverData(context, request) // before a service starts with data that is put back
  notes.push(...(await resumeStopped(context, request)))
  const moved = await restoreRoutes(context, request)
  notes.push(...moved)
  await awaitRequests(context, request)
  const { removed, problems } = await collectEnvironment(engine, ledger, settings, request)
  return [...notes, ...removed.map((what) => `Left over and removed: ${what}.`), ...problems]
}

/** Waits, up to a bound, until requests to the containers that are removed next are answered. */
async function awaitRequests(context: Maintenance, request: RecoverRequest): Promise<void> {
  const { engine, edge, ledger, settings } = context
  const { environmentId, attemptId } = request
  const leaving: string[] = []
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    const isLeaving = row.state === 'making' || row.state === 'retired'
    if (!isLeaving || row.attemptId === attemptId || ledger.isDraining(row)) continue
    const seen = await inspectOwned(engine, settings, row.name)
    if (seen?.state === 'running') leaving.push(`${seen.address}:${row.facts.port}`)
  }
  await letRequestsEnd(edge, leaving, ROUTE_STEPS.drainMaxMs)
}

/** Two containers of a service without a route never run concurrently, because they may share a volume. */
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
  const isStopped = ledger.listStopped(row.environmentId).has(row.service)
  const isDown = seen !== undefined && seen.state !== 'running' && !isStopped
  if (isDown) {
    await stopSuccessors(context, request, row.service)
    await setRestartPolicy(engine, seen.id, 'unless-stopped')
    await startContainer(engine, seen.id)
  }
  ledger.objects.setState(row, 'serving')
  return isDown
}

/**
 * Starts what a dead runner had stopped to try a successor, and what a restarted engine stopped and failed to start
 * again. A container that cannot start does not block the others.
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
