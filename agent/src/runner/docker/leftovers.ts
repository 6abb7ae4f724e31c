// Removes what earlier attempts left behind (their runner died, or the engine was unavailable during their undo) before
// a deployment creates anything: first in the engine and the edge, as the daemon would, then the files.
import { basename, join } from 'node:path'
import { listFolder, readLink, removeTree } from '../../machine/files.ts'
import { EdgeError } from '../../proxy/protocol.ts'
import type { Attempt } from '../attempt.ts'
import { isManualPlan } from '../plan/plan.ts'
import { routingOf } from '../routing.ts'
import { dockerOf, lastDocker } from './docker-context.ts'
import { recoverDocker } from './recover.ts'

/** Removes checkouts of finished attempts, except the checkout that a manual version still runs in. */
async function removeLeftoverFiles(attempt: Attempt): Promise<void> {
  const { paths, assignment, results } = attempt
  if (isManualPlan(results.last)) return
  const current = basename(readLink(paths.current) ?? '')
  for (const name of listFolder(paths.releases)) {
    const isOld = /^[0-9]+$/.test(name) && name !== String(assignment.taskId) && name !== current
    if (isOld) await removeTree(join(paths.releases, name))
  }
}

export async function recoverDockerLeftovers(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, output } = attempt
  const { environmentId, attemptId, fence } = assignment
  const { engine } = dockerOf(attempt)
  const { edge } = routingOf(attempt)
  try {
    const context = { engine, edge, ledger, settings }
    const notes = await recoverDocker(context, { environmentId, attemptId, fence })
    for (const note of notes) output.say(note)
  } catch (error) {
    // the edge is needed only for routes
    const needsEdge = (lastDocker(attempt)?.routes.length ?? 0) > 0
    if (!(error instanceof EdgeError) || needsEdge) throw error
  }
  await removeLeftoverFiles(attempt)
}
