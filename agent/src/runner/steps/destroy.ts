// The steps of a removal and of a reset (a removal followed by a deployment): the repository's own steps in the running
// release, then every process ends, then every file, at last the account. Each step is idempotent, also across
// attempts. Invariant: once `stop` has begun, no version of the environment is started again, even if a process dies.

import { existsSync } from 'node:fs'
import type { Step } from '@berth/shared/service-file'
import {
  allPaths,
  ensureEnvironmentFolders,
  ensureLogFolder,
  removeTree,
} from '../../machine/files.ts'
import { listGroups, listLeftovers } from '../../machine/process/leftovers.ts'
import { serverName } from '../../machine/server-settings.ts'
import { clearShared } from '../../machine/users/shared-paths.ts'
import { AccountError, isRoot, removeAccount } from '../../machine/users/users.ts'
import { guardServer } from '../../resources/firewall.ts'
import { ensureActivateProgram } from '../activation.ts'
import { type Attempt, accountOf, environmentName } from '../attempt.ts'
import { hasRelease } from '../last-version.ts'
import { whySkipped } from '../plan/destroy.ts'
import { isManualPlan } from '../plan/plan.ts'
import { allRecipes, type Removal } from '../recipe.ts'
import { forgetPassword, resetRoutes } from '../routing.ts'
import { type CommandContext, type CommandResult, lastContext, runListedStep } from './command.ts'
import { belongingOf, emptyFolders, endVersion, failed, lookUpAccount } from './end-version.ts'

/** Runs in the deployed version, as its account. */
export async function runInLast<T>(
  attempt: Attempt,
  run: (context: CommandContext) => Promise<T>,
  advice = 'Deploy it again.',
): Promise<T> {
  await lookUpAccount(attempt)
  if (isRoot() && !accountOf(attempt)) {
    throw failed(
      `Account ${environmentName(attempt)} is gone, so the repository's commands cannot run. ${advice}`,
    )
  }
  return run(lastContext(attempt))
}

/** One entry of `manual.destroy`, while the running version is still up. */
export const runDestroyStep = (
  attempt: Attempt,
  step: Step,
  stepId: string,
): Promise<CommandResult> =>
  runInLast(
    attempt,
    (context) => runListedStep(attempt, step, stepId, context),
    'Remove the environment without them.',
  )

/** Every recipe that may have left something here, because the environment may have had another one before. */
async function findRemovals(attempt: Attempt): Promise<Removal[]> {
  const found: Removal[] = []
  for (const { removal } of allRecipes(attempt)) {
    if (removal && (await removal.owns(attempt))) found.push(removal)
  }
  return found
}

/** Says why the file's steps are not run where a user would expect them. */
function reportSkipped(attempt: Attempt): void {
  const { kind } = attempt.spec
  const { last } = attempt.results
  if (!last) return
  const why = whySkipped(last, {
    skipSteps: kind.case === 'destroy' && kind.value.force,
    hasRelease: hasRelease(attempt.paths, last),
  })
  if (why === 'asked') attempt.output.say("The repository's destroy steps are skipped, as asked.")
  if (why !== 'release_gone') return
  const message = `The destroy steps of deployment ${last.taskId} were not run: its files are gone from this server.`
  attempt.output.say(`Warning: ${message}`)
  attempt.report.warning('destroy_steps_skipped', message, 'stop')
}

export async function stopEverything(attempt: Attempt): Promise<void> {
  reportSkipped(attempt)
  const removals = await findRemovals(attempt)
  await endVersion(attempt)
  for (const removal of removals) await removal.stop(attempt)
  attempt.output.say('Nothing of it runs any more.')
}

/** Removes what the account left in shared temporary folders; a failure is only a warning. */
async function clearTemporary(attempt: Attempt, step: 'remove' | 'reset'): Promise<void> {
  const uid = accountOf(attempt)?.uid
  if (!uid) return
  const problems = await clearShared(attempt.settings, uid)
  if (problems.length === 0) return
  const message = `Not all temporary files of the account could be removed: ${problems.join('; ')}`
  attempt.output.say(`Warning: ${message}`)
  attempt.report.warning('cleanup_failed', message, step)
}

async function dropAccount(attempt: Attempt): Promise<void> {
  const name = environmentName(attempt)
  if (!isRoot()) return
  try {
    const what = await removeAccount(name, attempt.paths.dir)
    if (what === 'removed') attempt.output.say(`Account ${name} was removed.`)
    if (what === 'foreign') {
      attempt.output.say(`Account ${name} is not of Berth (another home) and was left alone.`)
    }
  } catch (error) {
    if (error instanceof AccountError) throw failed(error.message)
    throw error
  }
}

/** Files first: while the account exists they have an owner, and a repeated removal finds both. */
export async function removeEverything(attempt: Attempt): Promise<void> {
  const { settings, assignment, output } = attempt
  await lookUpAccount(attempt)
  await forgetPassword(attempt)
  const hadRows = allRecipes(attempt).some(({ removal }) => removal?.hasRows(attempt))
  for (const removal of await findRemovals(attempt)) await removal.remove(attempt)
  const paths = allPaths(settings, assignment.environmentId)
  const present = paths.filter((place) => existsSync(place))
  for (const place of present) await removeTree(place)
  await clearTemporary(attempt, 'remove')
  await dropAccount(attempt)
  attempt.ledger.forget(assignment.environmentId)
  await guardServer(settings, attempt.ledger)
  const of = await belongingOf(attempt)
  const left = [
    ...paths.filter((place) => existsSync(place)),
    ...listGroups(of).map((name) => `cgroup ${name}`),
    ...listLeftovers({ ...of, uid: undefined }).map(({ name, pid }) => `${name} (pid ${pid})`),
  ]
  if (left.length > 0) throw failed(`Not everything could be removed: ${left.join(', ')}.`)
  const nothing = present.length === 0 && !hadRows && !attempt.results.last
  const identifier = attempt.spec.environment?.identifier
  output.say(
    nothing
      ? `Server ${serverName(attempt.settings)} had nothing of ${identifier}.`
      : `Nothing of ${identifier} is left on server ${serverName(attempt.settings)}.`,
  )
}

/** Recreates the empty folders that the current deployment needs. */
async function renewFolders(attempt: Attempt): Promise<void> {
  const { paths } = attempt
  ensureEnvironmentFolders(paths, accountOf(attempt), attempt.results.webGroup ?? undefined)
  ensureActivateProgram(attempt)
  await ensureLogFolder(paths, accountOf(attempt))
}

/** Keeps variables, ports, settings and logs; removes data. From here on there is no version to fall back to. */
export async function reset(attempt: Attempt): Promise<void> {
  const { output, paths, results } = attempt
  const { last } = results
  if (isManualPlan(last) && hasRelease(paths, last)) {
    for (const [index, step] of last.section.destroy.entries()) {
      output.say(`Destroy step ${index + 1} of deployment ${last.taskId}: ${step.title}`)
      await runListedStep(attempt, step, 'reset', lastContext(attempt))
    }
  }
  output.say('Removing the running version and its data: from here on there is none to return to.')
  await resetRoutes(attempt)
  const removals = await findRemovals(attempt)
  await endVersion(attempt)
  for (const removal of removals) {
    await removal.stop(attempt)
    await removal.empty(attempt)
  }
  await emptyFolders(attempt)
  await clearTemporary(attempt, 'reset')
  await renewFolders(attempt)
  results.last = null
  output.say('The environment is empty.')
}
