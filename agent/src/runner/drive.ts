// Drives one plan: step by step, until the end or the first failure, and decides the verdict. Invariants: every step
// that began is reported as ended; whatever happens, exactly one verdict comes out; once the deployment is the
// running version, success stands.
import { never } from '@berth/shared'
import { AttemptState, FailureCode, NO_STEP, Recipe, StepState } from '@berth/shared/wire'
import type { Attempt } from './attempt.ts'
import { completeDocker, reportDocker } from './docker/finish.ts'
import { retireDocker } from './docker/remove.ts'
import { performDocker } from './docker/steps.ts'
import { asFailure, Interrupted, StepFailure } from './failure.ts'
import {
  activate,
  collect,
  completeDeployment,
  reportDeployment,
  stopOld,
  verify,
} from './manual/finish.ts'
import { reportUnmanaged, switchManual } from './manual/routes.ts'
import { awaitHealth, startProcess } from './manual/service-processes.ts'
import { copyStatic } from './manual/static.ts'
import { flattenPlan, isAfterSuccess, isShielded, type PlacedStep } from './plan/plan.ts'
import { toDuration } from './report.ts'
import { unroute } from './routing.ts'
import { runAction } from './steps/action.ts'
import { collectArtifacts } from './steps/artifacts.ts'
import { admit, prepareAccount, unpack } from './steps/checkout.ts'
import { newCommandContext, runListedStep } from './steps/command.ts'
import { choosePorts, readConfig, writeVariables } from './steps/configure.ts'
import { removeEverything, reset, runDestroyStep, stopEverything } from './steps/destroy.ts'
import { drainOld } from './steps/drain.ts'
import { fetchRepository } from './steps/fetch.ts'
import { claimRoutes } from './steps/route.ts'
import { undo } from './undo.ts'

export interface Verdict {
  state: AttemptState
  code: FailureCode
  message: string
  failedStepId: string
  exitCode: number | undefined
  signal: string
  isCheck: boolean
}

interface StepResult {
  exitCode?: number | undefined
  message?: string
}

async function perform(attempt: Attempt, step: PlacedStep): Promise<StepResult | undefined> {
  const { work } = step
  switch (work.kind) {
    case 'command':
      return runListedStep(attempt, work.step, step.id, newCommandContext(attempt))
    case 'destroy-command':
      return runDestroyStep(attempt, work.step, step.id)
    case 'start':
      return void (await startProcess(attempt, work.service))
    case 'health':
      return void (await awaitHealth(attempt, work.service))
    case 'static':
      return void (await copyStatic(attempt, work.service))
    case 'verify':
      return void (await verify(attempt, work.service))
    case 'docker':
      return void (await performDocker(attempt, work))
    case 'admit':
      return void (await admit(attempt))
    case 'account':
      return void (await prepareAccount(attempt))
    case 'fetch':
      return void (await fetchRepository(attempt))
    case 'unpack':
      return void (await unpack(attempt))
    case 'read-config':
      return void (await readConfig(attempt))
    case 'claim-hosts':
      return void (await claimRoutes(attempt, 'manual'))
    case 'ports':
      return void (await choosePorts(attempt))
    case 'variables':
      return void (await writeVariables(attempt))
    case 'activate':
      return void (await activate(attempt))
    case 'switch':
      return void (await switchManual(attempt))
    case 'drain':
      return void (await drainOld(attempt))
    case 'stop-old':
      await retireDocker(attempt)
      return void (await stopOld(attempt))
    case 'collect':
      return void (await collect(attempt))
    case 'reset':
      return void (await reset(attempt))
    case 'unroute':
      return void (await unroute(attempt))
    case 'stop':
      return void (await stopEverything(attempt))
    case 'action':
      return runAction(attempt)
    case 'artifacts':
      return void (await collectArtifacts(attempt))
    case 'remove':
      return void (await removeEverything(attempt))
    default:
      return never(work)
  }
}

const SUCCESS: Verdict = {
  state: AttemptState.SUCCEEDED,
  code: FailureCode.UNSPECIFIED,
  message: '',
  failedStepId: '',
  exitCode: undefined,
  signal: '',
  isCheck: false,
}

const failed = (failure: StepFailure, stepId: string): Verdict => ({
  ...SUCCESS,
  state: AttemptState.FAILED,
  code: failure.code,
  message: failure.message,
  failedStepId: stepId,
  exitCode: failure.exitCode,
  signal: failure.signal ?? '',
  isCheck: failure.isCheck,
})

const KINDS = { deploy: 'deployment', destroy: 'removal', action: 'action' } as const

/** What an interruption means for the attempt. */
function interrupted(attempt: Attempt, stepId: string): Verdict {
  const { reason } = attempt.interruption
  switch (reason?.kind) {
    case 'stop':
      return { ...SUCCESS, state: AttemptState.CANCELED, message: reason.why }
    case 'timeout': {
      const what = KINDS[attempt.results.plan.kind]
      const message = `The ${what} took longer than it may; it was in step ${stepId || 'admit'}.`
      const code = FailureCode.TIMEOUT
      return { ...SUCCESS, state: AttemptState.TIMED_OUT, code, message, failedStepId: stepId }
    }
    case 'terminated': {
      const message = `The runner was told to end in step ${stepId}: the server is shutting down, or somebody ended it.`
      return failed(new StepFailure(FailureCode.RUNNER_DIED, message, { isCheck: false }), stepId)
    }
    case 'fault':
      return failed(asFailure(reason.error, stepId, attempt.assignment.attemptId), stepId)
    case undefined:
      throw new Error('interrupted without a reason')
    default:
      return never(reason)
  }
}

const STEP_STATES: Partial<Record<AttemptState, StepState>> = {
  [AttemptState.CANCELED]: StepState.CANCELED,
}

/** For whoever repairs it: runner.log, masked like everything else. */
const noteDefect = (attempt: Attempt, error: unknown): void =>
  console.error(
    attempt.output.maskText(error instanceof Error ? (error.stack ?? '') : String(error)),
  )

/** Undefined: the step succeeded, or its failure does not matter any more. */
async function runStep(
  attempt: Attempt,
  step: PlacedStep,
  index: number,
): Promise<Verdict | undefined> {
  const { output, report } = attempt
  const startedAt = performance.now()
  output.setStep(index)
  const firstLogSeq = BigInt(output.lastSeq + 1)
  const reportStep = (state: StepState, result: StepResult): void => {
    output.endStep()
    const exitCode = result.exitCode === undefined ? {} : { exitCode: result.exitCode }
    const message = result.message ?? ''
    const range = { firstLogSeq, lastLogSeq: BigInt(output.lastSeq) }
    const duration = toDuration(performance.now() - startedAt)
    report.step({ stepId: step.id, state, message, ...exitCode, ...range, duration })
  }
  report.step({ stepId: step.id, state: StepState.RUNNING, firstLogSeq })
  try {
    const result = await perform(attempt, step)
    reportStep(StepState.SUCCEEDED, result ?? {})
    return undefined
  } catch (error) {
    if (isAfterSuccess(attempt.results.plan.kind, step.phase)) {
      const message = `${step.title} did not finish: ${(error as Error).message}`
      output.say(`Warning: ${message}`)
      report.warning('cleanup_failed', message, step.id)
      reportStep(StepState.SKIPPED, { message })
      return undefined
    }
    const isInterrupted = error instanceof Interrupted || attempt.interruption.reason !== undefined
    const verdict = isInterrupted
      ? interrupted(attempt, step.id)
      : failed(asFailure(error, step.id, attempt.assignment.attemptId), step.id)
    if (verdict.code === FailureCode.INTERNAL) noteDefect(attempt, error)
    output.say(verdict.message ? `✗ ${verdict.message}` : '✗ Canceled.')
    reportStep(STEP_STATES[verdict.state] ?? StepState.FAILED, verdict)
    return verdict
  }
}

interface Progress {
  /** Every step that was started. */
  begun: PlacedStep[]
  /** It is the running version: whatever happens now, nothing of it may be taken back. */
  isComplete: boolean
}

/** Runs the plan as far as it goes. */
async function runPlan(attempt: Attempt, progress: Progress): Promise<Verdict> {
  const { interruption, report } = attempt
  const { begun } = progress
  for (let index = 0; ; index += 1) {
    const step = flattenPlan(attempt.results.plan)[index]
    if (!step) return SUCCESS
    if (isShielded(attempt.results.plan.kind, step.phase)) interruption.shield()
    if (isAfterSuccess(attempt.results.plan.kind, step.phase) && !progress.isComplete) {
      interruption.unshield()
      if (interruption.reason) return interrupted(attempt, '')
      const isDocker = attempt.spec.recipe === Recipe.DOCKER
      if (isDocker) completeDocker(attempt)
      else completeDeployment(attempt)
      progress.isComplete = true
      interruption.close()
      if (isDocker) reportDocker(attempt)
      else reportDeployment(attempt)
    }
    if (!progress.isComplete && interruption.reason) return interrupted(attempt, step.id)
    if (begun.length === 0) report.attempt({ state: AttemptState.RUNNING })
    begun.push(step)
    const verdict = await runStep(attempt, step, index)
    if (verdict) return verdict
  }
}

export async function drive(attempt: Attempt): Promise<Verdict> {
  const progress: Progress = { begun: [], isComplete: false }
  const { begun } = progress
  attempt.interruption.look()
  let verdict: Verdict
  try {
    if (!attempt.interruption.reason) attempt.report.plan(attempt.results.plan)
    verdict = await runPlan(attempt, progress)
  } catch (error) {
    const stepId = begun.at(-1)?.id ?? 'admit'
    noteDefect(attempt, error)
    if (progress.isComplete) return SUCCESS
    verdict = failed(asFailure(error, stepId, attempt.assignment.attemptId), stepId)
  }
  attempt.interruption.close()
  if (verdict.state === AttemptState.SUCCEEDED) return verdict
  if (begun.length > 0) {
    for (const step of flattenPlan(attempt.results.plan).slice(begun.length)) {
      attempt.report.step({ stepId: step.id, state: StepState.SKIPPED })
    }
    attempt.output.setStep(NO_STEP)
    await undo(attempt, begun)
    const more = await reportUnmanaged(attempt, begun)
    if (more) return { ...verdict, message: `${verdict.message} ${more}`.trim() }
  }
  return verdict
}
