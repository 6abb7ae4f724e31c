// Runs one plan step by step, until the end or the first failure, and decides the verdict. Invariants: every step that
// began is reported as ended; exactly one verdict comes out in every case; once the deployment is the running version,
// success is final.
import { never } from '@berth/shared'
import { AttemptState, FailureCode, NO_STEP, StepState } from '@berth/shared/wire'
import type { Attempt } from './attempt.ts'
import { asFailure, Interrupted, StepFailure } from './failure.ts'
import { flattenPlan, isAfterSuccess, isShielded, type PlacedStep, type Work } from './plan/plan.ts'
import { recipeOf, type StepResult } from './recipe.ts'
import { toDuration } from './report.ts'
import { SHARED_STEPS } from './steps/shared.ts'
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

async function perform(attempt: Attempt, step: PlacedStep): Promise<StepResult | undefined> {
  const { work } = step
  const { steps } = recipeOf(attempt)
  const act = (steps[work.kind] ?? SHARED_STEPS[work.kind]) as
    | ((attempt: Attempt, work: Work, stepId: string) => Promise<StepResult | undefined>)
    | undefined
  if (!act) throw new Error(`nothing performs ${work.kind}`)
  return act(attempt, work, step.id)
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

const KINDS = {
  deploy: 'deployment',
  destroy: 'removal',
  action: 'action',
  lifecycle: 'task',
  backup: 'backup',
  restore: 'restore',
} as const

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
      const message = `The runner was told to end in step ${stepId}: the server is shutting down, or an operator ended it.`
      return failed(new StepFailure(FailureCode.RUNNER_DIED, message, { isCheck: false }), stepId)
    }
    case 'fault':
      return failed(
        asFailure(reason.error, stepId, attempt.assignment.attemptId, attempt.settings),
        stepId,
      )
    case undefined:
      throw new Error('interrupted without a reason')
    default:
      return never(reason)
  }
}

const STEP_STATES: Partial<Record<AttemptState, StepState>> = {
  [AttemptState.CANCELED]: StepState.CANCELED,
}

/** For debugging, in runner.log, masked like all other output. */
const noteDefect = (attempt: Attempt, error: unknown): void =>
  console.error(
    attempt.output.maskText(error instanceof Error ? (error.stack ?? '') : String(error)),
  )

/** Undefined: the step succeeded, or its failure no longer matters. */
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
      : failed(asFailure(error, step.id, attempt.assignment.attemptId, attempt.settings), step.id)
    if (verdict.code === FailureCode.INTERNAL) noteDefect(attempt, error)
    output.say(verdict.message ? `✗ ${verdict.message}` : '✗ Canceled.')
    reportStep(STEP_STATES[verdict.state] ?? StepState.FAILED, verdict)
    return verdict
  }
}

interface Progress {
  /** Every step that was started. */
  begun: PlacedStep[]
  /** It is the running version, so nothing of it may be undone. */
  isComplete: boolean
}

/** Runs the plan as far as possible. */
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
      const recipe = recipeOf(attempt)
      recipe.complete(attempt)
      progress.isComplete = true
      interruption.close()
      recipe.report(attempt)
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
    verdict = failed(
      asFailure(error, stepId, attempt.assignment.attemptId, attempt.settings),
      stepId,
    )
  }
  attempt.interruption.close()
  if (verdict.state === AttemptState.SUCCEEDED) return verdict
  if (begun.length > 0) {
    for (const step of flattenPlan(attempt.results.plan).slice(begun.length)) {
      attempt.report.step({ stepId: step.id, state: StepState.SKIPPED })
    }
    attempt.output.setStep(NO_STEP)
    await undo(attempt, begun)
    const more = await recipeOf(attempt)
      .explainFailure(attempt, begun)
      .catch((error: unknown) => noteDefect(attempt, error)) // the verdict stays true without it
    if (more) return { ...verdict, message: `${verdict.message} ${more}`.trim() }
  }
  return verdict
}
