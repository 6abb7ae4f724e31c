// Restores the last successful version of a manual environment after a runner died: first its routes, then `current`,
// then unreferenced copies of files are removed. Its processes follow (supervise/revival.ts, or the next deployment),
// so that nothing ends while it gets requests. Every step is idempotent.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ROUTE_STEPS } from '../../limits/proxy.ts'
import {
  environmentPaths,
  listFolder,
  moveLink,
  readLink,
  removeLink,
  removeTree,
} from '../../machine/files.ts'
import { letRequestsEnd } from '../../proxy/client.ts'
import { collectVariables, readPlan } from '../../resources/garbage.ts'
import { recoverData } from '../backup/recover.ts'
import { isDockerPlan, type ManualPlan, releaseIdOf } from '../plan/plan.ts'
import { type RouteContext, type RouteRequest, restoreRoutes } from '../restore-routes.ts'

interface ManualRequest extends RouteRequest {
  /** The attempt that asks: what it creates is not a leftover. */
  attemptId?: string
}

/** Returns what was done, as sentences; empty when nothing had to change or the environment is not a manual one. */
export async function recoverManual(
  context: RouteContext,
  request: ManualRequest,
): Promise<string[]> {
  const plan = readPlan(context.ledger, request.environmentId)
  if (isDockerPlan(plan)) return []
  const notes = await recoverData(context, request)
  notes.push(...(await restoreRoutes(context, request)))
  await awaitRequests(context, request)
  notes.push(...restoreCurrent(context, request, plan))
  await collectCopies(context, request, plan)
  collectVariables(context.settings, context.ledger, request.environmentId)
  return notes
}

/** Waits, up to a bound, until requests to the processes that end next are answered. */
async function awaitRequests(
  { edge, ledger }: RouteContext,
  { environmentId, attemptId }: ManualRequest,
): Promise<void> {
  const rows = ledger.listProcesses(environmentId)
  const isLeaving = (state: string): boolean => state === 'starting' || state === 'retired'
  const staying = new Set(rows.filter(({ state }) => !isLeaving(state)).map(({ port }) => port))
  const leaving = rows.flatMap((row) => {
    // the daemon waits for these elsewhere, so that deployments need not; a deployment may need their port
    if (attemptId === undefined && ledger.isDraining(row)) return []
    const goes = isLeaving(row.state) && row.attemptId !== attemptId && !staying.has(row.port)
    return goes && row.port !== undefined ? [`127.0.0.1:${row.port}`] : []
  })
  await letRequestsEnd(edge, leaving, ROUTE_STEPS.drainMaxMs)
}

function restoreCurrent(
  { settings }: RouteContext,
  { environmentId }: ManualRequest,
  plan: ManualPlan | null,
): string[] {
  const { current } = environmentPaths(settings, environmentId)
  const found = readLink(current)
  const wanted = plan ? join('releases', String(releaseIdOf(plan))) : undefined
  if (found === wanted || (!found && !existsSync(dirname(current)))) return []
  if (wanted) moveLink(current, wanted)
  else removeLink(current)
  return [wanted ? `current is ${wanted} again.` : 'current was removed again.']
}

async function collectCopies(
  { settings }: RouteContext,
  { environmentId }: ManualRequest,
  plan: ManualPlan | null,
): Promise<void> {
  const { statics } = environmentPaths(settings, environmentId)
  const routes = plan?.routes ?? []
  const kept = new Set(
    routes.flatMap(({ target }) => (target.kind === 'static' ? [target.root] : [])),
  )
  for (const service of listFolder(statics)) {
    for (const task of listFolder(join(statics, service))) {
      const copy = join(statics, service, task)
      if (!kept.has(copy)) await removeTree(copy)
    }
  }
}
