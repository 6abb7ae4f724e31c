// Runs one command of the repository, from its start to the certain end of everything it started. It ends in exactly
// one way: with its exit code, a timeout of the step, or an interruption of the attempt; the last two leave no process
// behind.
import { setTimeout as delay } from 'node:timers/promises'
import type { ManualSection, Step } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { PROCESSES } from '../../limits/machine.ts'
import { measureDiskSpace } from '../../machine/disk-space.ts'
import { insideFolder } from '../../machine/files.ts'
import { type MemoryCause, memoryCause } from '../../machine/memory.ts'
import { Cgroup, type CgroupBounds, detectCgroups } from '../../machine/process/cgroups.ts'
import {
  type CommandStart,
  type Exit,
  type RunningCommand,
  startUnderTerminal,
  startWithPipes,
} from '../../machine/process/commands.ts'
import {
  baseEnvironment,
  type CommandPaths,
  confineCommand,
  toolPath,
} from '../../machine/process/confinement.ts'
import {
  endTree,
  listTree,
  memberKey,
  type ProcessTree,
  signalMembers,
} from '../../machine/process/process-tree.ts'
import { readServerSettings } from '../../machine/server-settings.ts'
import { sharedPaths } from '../../machine/users/shared-paths.ts'
import { listenForActivation } from '../activation.ts'
import { type Attempt, accountOf, environmentName, hasMarkerOf, need } from '../attempt.ts'
import { buildCeilingOf, describeMemory, describeTime } from '../ceiling.ts'
import { Interrupted, StepFailure } from '../failure.ts'
import { releaseOf, variablesOf } from '../last-version.ts'
import { sectionOf } from '../manual/configure.ts'
import { isManualPlan } from '../plan/plan.ts'
import { weakerAdditions } from '../plan/variables.ts'

const MARKER_NAME = 'BERTH_ATTEMPT_ID'

export function stepBounds(attempt: Attempt): CgroupBounds {
  const { memory, cpus, pids } = buildCeilingOf(attempt)
  return { memoryBytes: memory.bytes, cpus, pids: Math.min(PROCESSES.pids, pids) }
}

/** Of all commands of this attempt. */
export function commandCgroup(attempt: Attempt): Cgroup | undefined {
  attempt.results.cgroup ??= Cgroup.create(
    detectCgroups(),
    `${environmentName(attempt)}-${attempt.assignment.taskId}`,
    stepBounds(attempt),
  )
  return attempt.results.cgroup
}

/** The version a command belongs to: where it runs and which values it gets. */
export interface CommandContext {
  releaseDir: string
  variablesFile: string
  commit: string
  /** Names that the `env` of a step may not override. */
  strong: ReadonlySet<string>
  /** Folders of tools, before the others in PATH. */
  toolPaths: readonly string[]
  /** A service has a socket, to which the proxy connects. */
  offersSocket: boolean
  /** Only the version that is being deployed can become the current one. */
  mayActivate: boolean
}

/** The repository's commands may start such a service. */
export const hasSocket = ({ services }: ManualSection): boolean =>
  services.some(({ target }) => target?.kind === 'socket')

/** The version that this attempt deploys. */
export const newCommandContext = (attempt: Attempt): CommandContext => ({
  releaseDir: attempt.releaseDir,
  variablesFile: attempt.variablesFile,
  commit: need(attempt, 'commit').sha,
  strong: need(attempt, 'variables').strong,
  toolPaths: attempt.results.toolPaths ?? [],
  offersSocket: hasSocket(sectionOf(attempt)),
  mayActivate: true,
})

/** The version that the last deployment left here. */
export function lastContext({ paths, results }: Attempt): CommandContext {
  const { last } = results
  if (!isManualPlan(last)) throw new Error('nothing with commands was deployed here')
  return {
    releaseDir: releaseOf(paths, last),
    variablesFile: variablesOf(paths, last)[0] as string,
    commit: last.commit,
    strong: new Set(last.strongKeys),
    toolPaths: last.toolPaths ?? [],
    offersSocket: hasSocket(last.section),
    mayActivate: false,
  }
}

/** The version whose processes the steps look at. */
export const versionContext = (attempt: Attempt): CommandContext =>
  attempt.results.processesOf === undefined ? newCommandContext(attempt) : lastContext(attempt)

export const pathsOf = (attempt: Attempt, context: CommandContext): CommandPaths => ({
  environmentDir: attempt.paths.dir,
  releaseDir: context.releaseDir,
  socketDir: attempt.paths.sockets,
  variablesFile: context.variablesFile,
  commit: context.commit,
})

type TakeOutput = CommandStart['onOutput']

function startCommand(
  attempt: Attempt,
  step: Step,
  context: CommandContext,
  cgroup: Cgroup | undefined,
  takeOutput: TakeOutput,
): RunningCommand {
  const directory = insideFolder(context.releaseDir, step.dir ?? '.')
  if (!directory) {
    throw new StepFailure(
      FailureCode.STEP_FAILED,
      `The folder ${step.dir} of this step is not in the checkout.`,
      { isCheck: false },
    )
  }
  const base = baseEnvironment(pathsOf(attempt, context))
  const start: CommandStart = {
    argv: confineCommand(step.run, {
      account: accountOf(attempt),
      cgroupFiles: cgroup?.joinFiles() ?? [],
      directory,
      paths: {
        temporary: attempt.paths.temporary,
        instead: sharedPaths(attempt.settings),
      },
      variablesFile: context.variablesFile,
      hasTerminal: attempt.pty !== undefined,
      offersSocket: context.offersSocket,
      additions: {
        ...toolPath(base, context.toolPaths),
        ...weakerAdditions(step.env, context.strong),
      },
    }),
    env: {
      ...base,
      CI: '1',
      [MARKER_NAME]: attempt.assignment.attemptId,
    },
    onOutput: (source, chunk) => {
      try {
        takeOutput(source, chunk)
      } catch (error) {
        attempt.interruption.fail(error)
      }
    },
  }
  return attempt.pty ? startUnderTerminal(attempt.pty, start) : startWithPipes(start)
}

type Ending<T> = { kind: 'exit'; exit: T } | { kind: 'timeout' } | { kind: 'interrupted' }

/** Resolves with the first of the possible endings. */
export async function awaitEnding<T>(
  attempt: Attempt,
  exited: Promise<T>,
  timeoutMs: number | null,
): Promise<Ending<T>> {
  const { signal } = attempt.interruption
  const clear = new AbortController()
  const interrupted = new Promise<Ending<T>>((resolve) => {
    const say = (): void => resolve({ kind: 'interrupted' })
    if (signal.aborted) say()
    signal.addEventListener('abort', say, { once: true, signal: clear.signal })
  })
  const timedOut = new Promise<Ending<T>>((resolve) => {
    if (timeoutMs === null) return
    const timer = setTimeout(() => resolve({ kind: 'timeout' }), timeoutMs)
    clear.signal.addEventListener('abort', () => clearTimeout(timer))
  })
  try {
    const ended = exited.then((exit): Ending<T> => ({ kind: 'exit', exit }))
    return await Promise.race([ended, interrupted, timedOut])
  } finally {
    clear.abort()
  }
}

/** What a finished command left running (an application it started) continues after this attempt. */
function releaseLeftovers(attempt: Attempt, tree: ProcessTree): void {
  const left = listTree(tree)
  if (left.length === 0) return
  for (const member of left) attempt.spared.add(memberKey(member))
  const home = Cgroup.create(detectCgroups(), `${environmentName(attempt)}-app`)
  if (home) tree.cgroup?.moveMembers(home)
  attempt.output.say(`${left.length} processes of this step keep running.`)
}

/** Ends every process of the command; returns when none is left, or names those that could not be ended. */
async function endCommand(
  attempt: Attempt,
  tree: ProcessTree,
  running: RunningCommand,
  ask: () => void,
): Promise<void> {
  const left = await endTree(tree, attempt.limits.killGraceMs, ask)
  await Promise.race([
    running.exited.catch(() => undefined),
    delay(PROCESSES.supervisorMs, undefined, { ref: false }),
  ])
  if (left > 0) attempt.output.say(`Warning: ${left} processes of this step could not be ended.`)
}

/** Resolves with how the command ended by itself; throws on timeout and interruption. */
export async function runCommand(
  attempt: Attempt,
  step: Step,
  context: CommandContext,
  takeOutput: TakeOutput = (source, chunk) => attempt.output.write(source, chunk),
): Promise<{ exit: Exit; memoryCause: MemoryCause | undefined }> {
  attempt.interruption.throwIfFired()
  const cgroup = commandCgroup(attempt)
  const before = cgroup?.memoryCounters()
  const time = timeOf(attempt, step)
  const running = startCommand(attempt, step, context, cgroup, takeOutput)
  const tree: ProcessTree = {
    root: running.pid,
    marker: hasMarkerOf(attempt),
    cgroup,
    spared: attempt.spared,
  }
  const stopListening = context.mayActivate ? listenForActivation(attempt) : () => undefined
  const ending = await awaitEnding(attempt, running.exited, time.ms).finally(stopListening)
  if (ending.kind === 'exit') {
    if (ending.exit.code === 0) releaseLeftovers(attempt, tree)
    else await endCommand(attempt, tree, running, () => signalMembers(listTree(tree), 'SIGTERM'))
    const cause = cgroup && before && memoryCause(before, cgroup.memoryCounters())
    return { exit: ending.exit, memoryCause: cause }
  }
  await endCommand(attempt, tree, running, () => running.interrupt())
  if (ending.kind === 'interrupted') throw new Interrupted('The step was interrupted.')
  const message = time.isOfServer
    ? describeTime(attempt, `Step '${step.title}'`, time.ms ?? 0)
    : `Step '${step.title}' took longer than ${formatMs(time.ms ?? 0)}.`
  throw new StepFailure(FailureCode.TIMEOUT, message, { isCheck: false })
}

/** The time that the service file gives the step; of a deployment's step, at most what the server's setting allows. */
function timeOf(attempt: Attempt, step: Step): { ms: number | null; isOfServer: boolean } {
  const { buildTimeoutMs } = readServerSettings(attempt.settings)
  const own = step.timeoutMs
  const isBuild = attempt.results.plan.kind === 'deploy'
  if (!isBuild || buildTimeoutMs === null || (own !== null && own <= buildTimeoutMs)) {
    return { ms: own, isOfServer: false }
  }
  return { ms: buildTimeoutMs, isOfServer: true }
}

const formatMs = (ms: number): string => {
  if (ms >= 60_000 && ms % 60_000 === 0) return `${ms / 60_000} min`
  return ms >= 1_000 && ms % 1_000 === 0 ? `${ms / 1_000} s` : `${ms} ms`
}

/** The command on one line, truncated for a message. */
export const shown = (command: string): string => {
  const line = command.trim().replaceAll(/\s+/g, ' ')
  return line.length > 80 ? `${line.slice(0, 79)}…` : line
}

export interface CommandResult {
  exitCode: number | undefined
  message: string
}

/** One entry of `manual.deploy` or `manual.destroy`. */
export async function runListedStep(
  attempt: Attempt,
  step: Step,
  stepId: string,
  context: CommandContext,
): Promise<CommandResult> {
  const { exit, memoryCause: cause } = await runCommand(attempt, step, context)
  if (exit.code === 0) return { exitCode: 0, message: '' }
  const how = exit.signal ? `was ended by ${exit.signal}` : `exited with ${exit.code}`
  const facts = {
    exitCode: exit.code ?? undefined,
    signal: exit.signal ?? undefined,
    isCheck: false,
  }
  if (cause) {
    const { memory } = buildCeilingOf(attempt)
    const message = describeMemory(attempt, `\`${shown(step.run)}\``, memory, cause)
    throw new StepFailure(FailureCode.OUT_OF_MEMORY, message, facts)
  }
  const message = `\`${shown(step.run)}\` ${how}.`
  const [room] = measureDiskSpace([attempt.settings.stateDir])
  if (room && room.freeBytes < PROCESSES.fullBytes) {
    const full = `The disk of this server became full while \`${shown(step.run)}\` ran.`
    throw new StepFailure(FailureCode.DISK_FULL, full, facts)
  }
  if (!step.allowFailure) throw new StepFailure(FailureCode.STEP_FAILED, message, facts)
  attempt.output.say(`Warning: ${message} The step allows it.`)
  attempt.report.warning('step_failed_allowed', message, stepId)
  return { exitCode: exit.code ?? undefined, message: `${message} The step allows it.` }
}
