// The detached process that owns one attempt (`berth-agent runner <folder>`): claims it, drives its plan, writes its
// verdict. Daemon, network and control plane may all vanish meanwhile. Invariants: nothing has an effect before the
// claim; after the claim a terminal event is always written, unless the process is killed; secrets are written
// only to the variable files and the key file of a fetch.
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { LOGS, TASKS } from '@berth/shared'
import {
  type Assignment,
  AssignmentSchema,
  type AttemptChanged,
  AttemptState,
  FailureCode,
  LifecycleVerb,
  Recipe,
  type TaskSecrets,
  type TaskSpec,
} from '@berth/shared/wire'
import { fromBinary } from '@bufbuild/protobuf'
import { type Duration, durationMs } from '@bufbuild/protobuf/wkt'
import { attemptPaths, takeClaim } from '../journal/attempt-files.ts'
import { EventFileWriter } from '../journal/event-file.ts'
import { Ledger } from '../journal/ledger.ts'
import { readSecretsFrame } from '../journal/secrets-pipe.ts'
import { PROCESSES } from '../limits/machine.ts'
import { type EnvironmentPaths, environmentPaths, removeTree } from '../machine/files.ts'
import { loadPty } from '../machine/process/commands.ts'
import { readBootId } from '../machine/process/processes.ts'
import { type AgentSettings, scratchDir } from '../settings.ts'
import { SpoolWriter } from '../spool/writer.ts'
import type { Attempt } from './attempt.ts'
import { planBackup, planRestore } from './backup/plan.ts'
import { isInBucket } from './backup/stored.ts'
import { drive, type Verdict } from './drive.ts'
import { asFailure, StepFailure } from './failure.ts'
import { Interruption } from './interruption.ts'
import { hasRelease, lastSecrets } from './last-version.ts'
import { Output } from './output.ts'
import { Parts } from './parts.ts'
import { planAction } from './plan/action.ts'
import { planDestroy } from './plan/destroy.ts'
import {
  isDockerPlan,
  type LastPlan,
  type Plan,
  type LifecycleVerb as PlannedVerb,
} from './plan/plan.ts'
import { openRecipes } from './recipe.ts'
import { findRecipe, RECIPES } from './recipes.ts'
import { Reporter } from './report.ts'
import { hasRoutes } from './routing.ts'
import { stopFetch } from './steps/fetch.ts'
import { planLifecycle } from './steps/lifecycle-plan.ts'

/** Reads one complete TaskSecrets message from stdin (secrets-pipe.ts); without it no attempt runs. */
async function readSecrets(): Promise<TaskSecrets> {
  const late = () => process.stdin.destroy(new Error('the secrets on stdin did not end'))
  const timer = setTimeout(late, PROCESSES.secretsMs)
  try {
    return await readSecretsFrame(process.stdin)
  } finally {
    clearTimeout(timer)
  }
}

const toMs = (duration: Duration | undefined, otherwise: number, most: number): number => {
  const ms = duration ? durationMs(duration) : 0
  return Math.min(most, ms > 0 ? ms : otherwise)
}

/** Everything that must not reach a log: custom values, passwords and keys of registries, storage and repository. */
const secretValues = (secrets: TaskSecrets): Buffer[] =>
  [
    ...secrets.variables.map(({ value }) => value),
    ...secrets.registries.map(({ password }) => password),
    secrets.deployKey,
    secrets.backupStorage?.secretAccessKey ?? new Uint8Array(),
    secrets.backupStorage?.identity ?? new Uint8Array(),
  ]
    .filter((value) => value.length > 0)
    .map((value) => Buffer.from(value))

function readLastPlan(ledger: Ledger, environmentId: number): LastPlan | null {
  const stored = ledger.findPlan(environmentId)
  if (!stored) return null
  const plan = JSON.parse(stored.body) as LastPlan
  if (plan.format === 1 || plan.format === 2) return plan
  throw new StepFailure(
    FailureCode.AGENT_OUTDATED,
    `What runs here was deployed by a newer agent (task ${stored.taskId}), which this one cannot replace or remove. Update the agent.`,
  )
}

/** The task runs commands of the deployed version, with its values. */
const runsLast = ({ kind }: TaskSpec): boolean =>
  kind.case === 'destroy' ||
  kind.case === 'action' ||
  kind.case === 'lifecycle' ||
  kind.case === 'backup' ||
  kind.case === 'restore' ||
  (kind.case === 'deploy' && kind.value.fresh)

function lifecycleVerb(verb: LifecycleVerb): PlannedVerb {
  switch (verb) {
    case LifecycleVerb.RESTART:
      return 'restart'
    case LifecycleVerb.STOP:
      return 'stop'
    case LifecycleVerb.START:
      return 'start'
    default:
      throw new StepFailure(
        FailureCode.AGENT_OUTDATED,
        'The agent on this server does not know what this task asks for. Update berth-agent there.',
      )
  }
}

/** A removal is planned from what exists here; a deployment from the repository's service file. */
function firstPlan(
  settings: AgentSettings,
  { spec, environmentId }: Assignment,
  paths: EnvironmentPaths,
  last: LastPlan | null,
): Plan {
  if (spec?.kind.case === 'action') return planAction(last, spec.kind.value.name)
  if (spec?.kind.case === 'lifecycle') {
    const { verb, service } = spec.kind.value
    return planLifecycle(last, lifecycleVerb(verb), service)
  }
  if (spec?.kind.case === 'backup') {
    const { place, expired } = spec.kind.value
    return planBackup(last, { isBucket: isInBucket(place), expired: expired.length })
  }
  if (spec?.kind.case === 'restore') return planRestore()
  if (spec?.kind.case !== 'destroy') return findRecipe(spec?.recipe).planCheckout()
  return planDestroy(last ?? undefined, {
    skipSteps: spec.kind.value.force,
    hasRelease: hasRelease(paths, last),
    hasRoutes:
      spec.recipe === Recipe.DOCKER || isDockerPlan(last) || hasRoutes(settings, environmentId),
  })
}

async function openAttempt(
  settings: AgentSettings,
  dir: string,
  assignment: Assignment,
  secrets: TaskSecrets,
  log: { output: Output; report: Reporter },
): Promise<Attempt> {
  const { spec, environmentId, taskId, attemptId } = assignment
  if (!spec) throw new Error('the assignment has no specification')
  const paths = environmentPaths(settings, environmentId)
  const onStopSeen = (why: string): void =>
    log.report.attempt({ state: AttemptState.CANCELING, message: why })
  const timeoutMs = toMs(spec.limits?.timeout, TASKS.timeoutMs, TASKS.timeoutMaxMs)
  const interruption = new Interruption(dir, timeoutMs, onStopSeen)
  mkdirSync(settings.stateDir, { recursive: true, mode: 0o711 })
  const ledger = new Ledger(settings)
  const last = readLastPlan(ledger, environmentId)
  // its steps run with the values of its own deployment, which may differ from the current ones
  if (last && runsLast(spec))
    log.output.setValues([...secretValues(secrets), ...lastSecrets(paths, last)])
  const attempt: Attempt = {
    settings,
    assignment,
    spec,
    secrets,
    limits: {
      killGraceMs: toMs(spec.limits?.killGrace, TASKS.killGraceMs, TASKS.timeoutMaxMs),
      cleanupMs: toMs(spec.limits?.cleanup, TASKS.cleanupMs, TASKS.timeoutMaxMs),
    },
    paths,
    get releaseDir() {
      return join(paths.releases, String(this.results.reused ?? taskId))
    },
    variablesFile: join(paths.variables, `${taskId}.sh`),
    scratch: scratchDir(settings, attemptId),
    ...log,
    ledger,
    interruption,
    pty: await loadPty(),
    spared: new Set(),
    awaySince: new Map(),
    parts: new Parts(),
    results: { last, plan: firstPlan(settings, assignment, paths, last) },
  }
  openRecipes(attempt, { own: findRecipe(spec.recipe), all: RECIPES })
  return attempt
}

type LogField = 'finalLogSeq' | 'logBytesTotal' | 'logBytesDropped' | 'logSha256'
type LogEnd = Partial<Pick<AttemptChanged, LogField>>

/** Writes the last record; once it is on disk, the attempt is over. */
function writeVerdict(verdict: Verdict, output: Output, report: Reporter): void {
  let log: LogEnd
  try {
    const end = output.finish()
    log = {
      finalLogSeq: BigInt(end.finalSeq),
      logBytesTotal: BigInt(end.bytesTotal),
      logBytesDropped: BigInt(end.bytesDropped),
      logSha256: end.sha256,
    }
  } catch (error) {
    console.error(`the log could not be finished: ${(error as Error).message}`)
    log = { finalLogSeq: BigInt(output.lastSeq) }
  }
  const { state, code, message, failedStepId, signal, isCheck } = verdict
  const exitCode = verdict.exitCode === undefined ? {} : { exitCode: verdict.exitCode }
  report.attempt({
    state,
    code,
    message,
    failedStepId,
    signal,
    platformCheck: isCheck,
    ...exitCode,
    ...log,
  })
}

const internal = (error: unknown, attemptId: string, settings: AgentSettings): Verdict => {
  const failure = asFailure(error, 'admit', attemptId, settings)
  return {
    state: AttemptState.FAILED,
    code: failure.code,
    message: failure.message,
    failedStepId: '',
    exitCode: undefined,
    signal: '',
    isCheck: failure.code !== FailureCode.INTERNAL,
  }
}

async function close(attempt: Attempt | undefined): Promise<void> {
  if (!attempt) return
  await stopFetch(attempt)
  attempt.results.cgroup?.remove()
  attempt.ledger.close()
  await removeTree(attempt.scratch)
}

/**
 * What `berth-agent runner` does. Returns when the verdict is written, or immediately if another process holds the
 * claim.
 */
export async function runAttempt(
  dir: string,
  settings: AgentSettings,
  given?: TaskSecrets,
): Promise<void> {
  // SIGUSR2 is the daemon's poke; it must not kill the process before a handler is installed
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGPIPE', 'SIGUSR2'] as const) {
    process.on(signal, () => undefined)
  }
  const paths = attemptPaths(dir)
  const assignment = fromBinary(AssignmentSchema, readFileSync(paths.spec))
  const secrets = given ?? (await readSecrets())
  if (!takeClaim(dir, 'runner', readBootId())) return
  const events = EventFileWriter.create(paths.events)
  const output = new Output({
    spool: SpoolWriter.create(paths.log),
    now: () => performance.now(),
    nowUs: () => Date.now() * 1_000,
  })
  output.setValues(secretValues(secrets))
  const report = new Reporter(events, assignment, (text) => output.maskText(text))
  let attempt: Attempt | undefined
  const beat = setInterval(() => {
    try {
      output.tick()
    } catch (error) {
      attempt?.interruption.fail(error)
    }
  }, LOGS.tickMs)
  let verdict: Verdict
  try {
    const opened = await openAttempt(settings, dir, assignment, secrets, { output, report })
    attempt = opened
    // a defect in a callback must not cost the verdict: the current step ends, and the attempt is undone
    process.on('uncaughtException', (error) => opened.interruption.fail(error))
    verdict = await drive(opened)
  } catch (error) {
    console.error(output.maskText(String((error as Error).stack ?? error)))
    verdict = internal(error, assignment.attemptId, settings)
  }
  await close(attempt).catch((error) => console.error(`clean-up: ${(error as Error).message}`))
  clearInterval(beat)
  writeVerdict(verdict, output, report)
  events.close()
}
