// Ends a version on this server, for removals and resets of both recipes: its processes, then its files.
import { join } from 'node:path'
import { FailureCode } from '@berth/shared/wire'
import { listFolder, removeLink, removeTree } from '../../machine/files.ts'
import { type Belonging, endLeftovers, listLeftovers } from '../../machine/process/leftovers.ts'
import { findAccount, isRoot } from '../../machine/users/users.ts'
import { instructionsOf, stopService } from '../../supervise/control.ts'
import { type Attempt, environmentName } from '../attempt.ts'
import { StepFailure } from '../failure.ts'

export const failed = (message: string): StepFailure =>
  new StepFailure(FailureCode.STEP_FAILED, message, { isCheck: false })

/** Uses the existing account; a removal creates none. */
export async function lookUpAccount(attempt: Attempt): Promise<void> {
  if (attempt.results.account !== undefined) return
  const found = isRoot() ? await findAccount(environmentName(attempt)) : undefined
  const isOurs = found !== undefined && found.home === attempt.paths.dir && found.uid > 0
  attempt.results.account = isOurs ? found : null
}

/**
 * The environment's own account, even when this attempt works as git's, which environments share with the docker
 * recipe.
 */
export async function belongingOf(attempt: Attempt): Promise<Belonging> {
  const name = environmentName(attempt)
  const found = isRoot() ? await findAccount(name) : undefined
  const isOurs = found !== undefined && found.home === attempt.paths.dir && found.uid > 0
  return {
    name,
    uid: isOurs ? found.uid : undefined,
    marker: `BERTH_SHARED_DIR=${attempt.paths.shared}`,
  }
}

/** Ends everything that runs on the machine itself, and keeps it from restarting. */
export async function endVersion(attempt: Attempt): Promise<void> {
  const { ledger, settings, output, assignment, limits } = attempt
  await lookUpAccount(attempt)
  ledger.endVersion(assignment.environmentId)
  for (const row of ledger.listProcesses(assignment.environmentId)) {
    const tookMs = await stopService(settings, instructionsOf(row))
    ledger.removeProcess(row)
    output.say(`${row.service} of deployment ${row.taskId} stopped in ${Math.round(tookMs)} ms.`)
  }
  const of = await belongingOf(attempt)
  const more = listLeftovers(of).length
  if (more > 0) output.say(`${more} other processes of it are being ended.`)
  const left = await endLeftovers(of, limits.killGraceMs)
  attempt.results.cgroup = undefined // removed with the others; the next command creates its own
  if (left.length === 0) return
  const names = left.slice(0, 5).map(({ name, pid }) => `${name} (pid ${pid})`)
  throw failed(`${left.length} processes could not be ended: ${names.join(', ')}.`)
}

/** Removes everything but the files of the current deployment. */
export async function emptyFolders(attempt: Attempt): Promise<void> {
  const { paths, assignment } = attempt
  removeLink(paths.current)
  const own = String(assignment.taskId)
  for (const name of listFolder(paths.releases)) {
    if (name !== own) await removeTree(join(paths.releases, name))
  }
  for (const name of listFolder(paths.variables)) {
    const isOwn = name.startsWith(`${own}.`) || name.startsWith(`${own}-`)
    if (!isOwn) await removeTree(join(paths.variables, name))
  }
  const others = [paths.shared, paths.home, paths.temporary, paths.sockets, paths.statics]
  for (const folder of others) await removeTree(folder)
}
