// What attempts that are over left behind (their runner died, or the engine was away when they took things back) goes
// before a deployment makes anything of its own: in the engine and the edge as the daemon would do it, then the files.
import { basename, join } from 'node:path'
import { listFolder, readLink, removeTree } from '../../machine/files.ts'
import { EdgeError } from '../../proxy/protocol.ts'
import type { Attempt } from '../attempt.ts'
import { isManualPlan } from '../plan/plan.ts'
import { routingOf } from '../routing.ts'
import { dockerOf, lastDocker } from './docker-context.ts'
import { settleEnvironment } from './recover.ts'

/** Checkouts of attempts that are over. A manual version that still runs is in its own. */
async function settleFiles(attempt: Attempt): Promise<void> {
  const { places, assignment, found } = attempt
  if (isManualPlan(found.last)) return
  const current = basename(readLink(places.current) ?? '')
  for (const name of listFolder(places.releases)) {
    const isOld = /^[0-9]+$/.test(name) && name !== String(assignment.taskId) && name !== current
    if (isOld) await removeTree(join(places.releases, name))
  }
}

export async function settleDocker(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, output } = attempt
  const { environmentId, attemptId, fence } = assignment
  const { engine } = dockerOf(attempt)
  const { edge } = routingOf(attempt)
  try {
    const house = { engine, edge, ledger, settings }
    const notes = await settleEnvironment(house, { environmentId, attemptId, fence })
    for (const note of notes) output.say(note)
  } catch (error) {
    // without routes nobody needs the edge
    const needsEdge = (lastDocker(attempt)?.routes.length ?? 0) > 0
    if (!(error instanceof EdgeError) || needsEdge) throw error
  }
  await settleFiles(attempt)
}
