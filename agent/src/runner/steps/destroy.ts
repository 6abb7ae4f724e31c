// What a removal does, and a reset, which is a removal with a deployment after it: the repository's own steps in the
// release that runs, then the end of every process, then of every file, at last of the account. Each step may be
// repeated, by another attempt as well: what is gone already is no failure. Invariant: once `stop` has begun no
// version of the environment is ever started again, whoever dies meanwhile.
import { existsSync, readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { DAEMON } from '@berth/shared'
import type { Step } from '@berth/shared/service-file'
import { FailureCode, Recipe } from '@berth/shared/wire'
import { isEngineUp, openEngine } from '../../machine/docker/engine.ts'
import {
  allPaths,
  type EnvironmentPaths,
  ensureEnvironmentFolders,
  ensureLogFolder,
  insideFolder,
  listFolder,
  removeLink,
  removeTree,
} from '../../machine/files.ts'
import {
  type Belonging,
  endLeftovers,
  listGroups,
  listLeftovers,
} from '../../machine/process/leftovers.ts'
import { clearShared } from '../../machine/users/shared-paths.ts'
import { AccountError, findAccount, isRoot, removeAccount } from '../../machine/users/users.ts'
import { guardServer } from '../../maintenance/firewall.ts'
import { instructionsOf, stopService } from '../../supervise/control.ts'
import { ensureActivateProgram } from '../activation.ts'
import { type Attempt, accountOf, environmentName } from '../attempt.ts'
import { endContainers, hasObjects, removeObjects, removeVolumes } from '../docker/remove.ts'
import { StepFailure } from '../failure.ts'
import { whySkipped } from '../plan/destroy.ts'
import { isManualPlan, type LastPlan, type ManualPlan } from '../plan/plan.ts'
import { parseShellFile } from '../plan/variable-files.ts'
import { forgetPassword, resetRoutes } from '../routing.ts'
import { type CommandContext, type CommandResult, hasSocket, runListedStep } from './command.ts'

const releaseOf = (paths: EnvironmentPaths, last: ManualPlan): string =>
  join(paths.releases, String(last.taskId))

const variablesOf = (paths: EnvironmentPaths, last: LastPlan): string[] => {
  if (isManualPlan(last)) return [join(paths.variables, `${last.taskId}.sh`)]
  const files = last.services.map(({ service, taskId }) => `${taskId}-${service}.sh`)
  return files.map((name) => join(paths.variables, name))
}

/** Commands can still run in it, with their values. */
export const hasRelease = (paths: EnvironmentPaths, last: LastPlan | null): boolean =>
  isManualPlan(last) &&
  insideFolder(releaseOf(paths, last), '.') !== undefined &&
  variablesOf(paths, last).every((file) => existsSync(file))

/** What must be masked when the steps of the last deployment run: they get the values of its file. */
export function lastSecrets(paths: EnvironmentPaths, last: LastPlan): Buffer[] {
  return variablesOf(paths, last).flatMap((file) => {
    let values: Map<string, string>
    try {
      values = parseShellFile(readFileSync(file, 'utf8'))
    } catch {
      return [] // without the file nobody gets a value
    }
    const keys = last.secretKeys ?? [...values.keys()]
    return keys.map((key) => Buffer.from(values.get(key) ?? '')).filter((value) => value.length > 0)
  })
}

const failed = (message: string): StepFailure =>
  new StepFailure(FailureCode.STEP_FAILED, message, { isCheck: false })

/** The account as it is; none is made for a removal. */
async function lookUpAccount(attempt: Attempt): Promise<void> {
  if (attempt.found.account !== undefined) return
  const found = isRoot() ? await findAccount(environmentName(attempt)) : undefined
  const isOurs = found !== undefined && found.home === attempt.paths.dir && found.uid > 0
  attempt.found.account = isOurs ? found : null
}

function lastContext(attempt: Attempt): CommandContext {
  const { paths, found } = attempt
  const { last } = found
  if (!isManualPlan(last)) throw new Error('nothing with commands was deployed here')
  return {
    releaseDir: releaseOf(paths, last),
    variablesFile: variablesOf(paths, last)[0] as string,
    commit: last.commit,
    strong: new Set(last.strongKeys),
    offersSocket: hasSocket(last.section),
    mayActivate: false,
  }
}

/** In the version that runs, as its account. */
export async function runInLast<T>(
  attempt: Attempt,
  run: (context: CommandContext) => Promise<T>,
  advice = 'Deploy it again.',
): Promise<T> {
  await lookUpAccount(attempt)
  if (isRoot() && !accountOf(attempt)) {
    throw failed(
      `Account ${environmentName(attempt)} is gone, so nobody may run the repository's commands. ${advice}`,
    )
  }
  return run(lastContext(attempt))
}

/** One entry of `manual.destroy`, while everything of the running version is still up. */
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

/** Of the environment's own account, whoever this attempt works as: git's, with the docker recipe, is shared. */
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

/** Everything that runs on the machine itself ends, and nothing of it comes back. */
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
  attempt.cgroup = undefined // gone with the others; the next command makes its own
  if (left.length === 0) return
  const names = left.slice(0, 5).map(({ name, pid }) => `${name} (pid ${pid})`)
  throw failed(`${left.length} processes could not be ended: ${names.join(', ')}.`)
}

/** Without a row nothing was made there; the engine is asked all the same where it is there to be asked. */
async function ownsObjects({
  ledger,
  assignment,
  found,
  spec,
  settings,
}: Attempt): Promise<boolean> {
  if (hasObjects(ledger, assignment.environmentId, found.last ?? null)) return true
  return spec.recipe === Recipe.DOCKER && isEngineUp(openEngine(settings), DAEMON.probeMs)
}

/** Why the file's steps are not run, where a person would have expected them. */
function reportSkipped(attempt: Attempt): void {
  const { kind } = attempt.spec
  const { last } = attempt.found
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
  const isDocker = await ownsObjects(attempt)
  await endVersion(attempt)
  if (isDocker) await endContainers(attempt)
  attempt.output.say('Nothing of it runs any more.')
}

/** What the account left in folders that everybody shares. It matters less than the rest: a warning is enough. */
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
  const hadObjects = hasObjects(attempt.ledger, assignment.environmentId, null)
  if (await ownsObjects(attempt)) await removeObjects(attempt)
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
  const nothing = present.length === 0 && !hadObjects && !attempt.found.last
  const identifier = attempt.spec.environment?.identifier
  output.say(
    nothing
      ? `Server ${hostname()} had nothing of ${identifier}.`
      : `Nothing of ${identifier} is left on server ${hostname()}.`,
  )
}

/** All but the files of the deployment at hand. */
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

/** What the deployment at hand needs, empty. */
async function renewFolders(attempt: Attempt): Promise<void> {
  const { paths } = attempt
  ensureEnvironmentFolders(paths, accountOf(attempt), attempt.found.webGroup ?? undefined)
  ensureActivateProgram(attempt)
  await ensureLogFolder(paths, accountOf(attempt))
}

/** Variables, ports, settings and logs stay; data goes. From here on there is no version to fall back to. */
export async function reset(attempt: Attempt): Promise<void> {
  const { output, paths, found } = attempt
  const { last } = found
  if (isManualPlan(last) && hasRelease(paths, last)) {
    for (const [index, step] of last.section.destroy.entries()) {
      output.say(`Destroy step ${index + 1} of deployment ${last.taskId}: ${step.title}`)
      await runListedStep(attempt, step, 'reset', lastContext(attempt))
    }
  }
  output.say('Removing the running version and its data: from here on there is none to return to.')
  await resetRoutes(attempt)
  const isDocker = await ownsObjects(attempt)
  await endVersion(attempt)
  if (isDocker) {
    await endContainers(attempt)
    await removeVolumes(attempt)
  }
  await emptyFolders(attempt)
  await clearTemporary(attempt, 'reset')
  await renewFolders(attempt)
  found.last = null
  output.say('The environment is empty.')
}
