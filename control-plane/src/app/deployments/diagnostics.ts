// Explains the most recent failed deployment of an environment, or any task in any state: found by key, read from its
// log, explained by domain/. Read-only. If the log is past its retention, only the failure's own sentence is left.
import { DIAGNOSTICS, isFinished } from '@berth/shared'
import type { Failure, Hint } from '@berth/shared/api'
import { StepState } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  composeOutput,
  type DiagnosticsStatus,
  diagnosticsStatus,
  findHints,
  type SinceLastSuccess,
  summarizeTask,
} from '../../domain/deployments/diagnostics.ts'
import { describeFailure } from '../../domain/deployments/failure.ts'
import { type Excerpt, ExcerptBuilder } from '../../domain/deployments/log-excerpt.ts'
import {
  type AttemptStep,
  listNewestAttempts,
  listSteps,
  type ShownAttempt,
} from '../../store/deployments/attempts.ts'
import { LogGone } from '../../store/deployments/log-index.ts'
import { findNewestDeployment } from '../../store/deployments/task-history.ts'
import { findTask, type Task } from '../../store/deployments/tasks.ts'
import { listChangedKeys } from '../../store/environments/variables.ts'
import { loadEnvironment, loadTask } from '../core/access.ts'
import { awaitLog } from './logs.ts'
import { getTask, type TaskView } from './tasks.ts'

type LoggedStep = Pick<AttemptStep, 'stepIndex' | 'firstLogSeq' | 'lastLogSeq'>

export interface DiagnosticsView {
  environmentId: number
  status: DiagnosticsStatus
  /** Undefined if none of its deployments ever failed. */
  failed: FailedDeployment | undefined
}

export interface FailedDeployment {
  task: Task
  failure: Failure
  output: string
  firstLine: number | null
  lastLine: number | null
  isTruncated: boolean
  /** False if the server has not sent all of it yet. */
  isComplete: boolean
  hints: Hint[]
  since: SinceLastSuccess | null
  supersededBy: Task | undefined
}

/** For a failure before the first step, only the earlier output exists. */
const BEFORE_STEPS: LoggedStep = { stepIndex: 0, firstLogSeq: 1, lastLogSeq: null }

const NOTHING: Excerpt = { lines: [], firstLine: null, lastLine: null, isTruncated: false }

export async function diagnoseEnvironment(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: { lines?: number | undefined },
): Promise<DiagnosticsView> {
  await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const task = await findNewestDeployment(ctx.db, environmentId, 'failed')
  if (!task) return { environmentId, status: diagnosticsStatus(undefined, undefined), failed: task }
  const later = await findNewestDeployment(ctx.db, environmentId, 'succeeded', { afterId: task.id })
  const { explained } = await explainFailure(ctx, task, asked.lines ?? DIAGNOSTICS.lines)
  return {
    environmentId,
    status: diagnosticsStatus(task.id, later?.id),
    failed: { task, ...explained, supersededBy: later },
  }
}

type Explained = Omit<FailedDeployment, 'task' | 'supersededBy'>

/** A failed task of any type; `read` is what was searched for causes. */
async function explainFailure(
  ctx: Context,
  task: Task,
  lines: number,
): Promise<{ explained: Explained; read: Excerpt }> {
  const failure = task.failure ?? describeFailure({ code: 'internal', message: 'It failed.' })
  const found = await awaitOutput(ctx, task, failure)
  const { attempt, isComplete } = found
  const step = found.step ?? (failure.code === 'not_started' ? BEFORE_STEPS : undefined)
  // search for causes in the usual number of lines, even if the caller wants fewer
  const read = await readEnd(ctx, attempt, step, Math.max(lines, DIAGNOSTICS.lines)).catch(
    orNothing,
  )
  const shown = lastLines(read, lines)
  const since = task.type === 'deploy' ? await compareWithSuccess(ctx, task, attempt) : null
  const explained = {
    failure: { ...failure, line: read.lastLine },
    output: composeOutput(failure, shown.lines),
    firstLine: shown.firstLine,
    lastLine: shown.lastLine,
    isTruncated: shown.isTruncated,
    isComplete,
    hints: findHints(failure, read.lines, task.commitSha, since),
    since,
  }
  return { explained, read }
}

/** The failed step is known without its log. */
function orNothing(error: unknown): Excerpt {
  if (error instanceof LogGone) return NOTHING
  throw error
}

/** The lines of a failed step, for a notification; empty if there is no such task or output. */
export async function readFailedLines(ctx: Context, taskId: number): Promise<string[]> {
  const task = await findTask(ctx.db, taskId)
  if (task?.status !== 'failed') return []
  return (await explainFailure(ctx, task, DIAGNOSTICS.lines)).read.lines
}

export interface TaskDiagnosticsView extends Omit<Explained, 'failure' | 'output'> {
  view: TaskView
  summary: string
  failure: Failure | null
  /** The step whose output is shown. */
  step: AttemptStep | undefined
  output: string | null
  supersededBy: Task | undefined
}

/** What there is to know about one task of any type and state. */
export async function diagnoseTask(
  ctx: Context,
  caller: Caller,
  taskId: number,
  asked: { lines?: number | undefined },
): Promise<TaskDiagnosticsView> {
  const task = await loadTask(ctx.db, caller, taskId, 'read')
  const view = await getTask(ctx, caller, taskId)
  const lines = asked.lines ?? DIAGNOSTICS.lines
  const summary = summarizeTask(task, view.waiting?.message)
  const supersededBy =
    task.type === 'deploy'
      ? await findNewestDeployment(ctx.db, task.environmentId, 'succeeded', { afterId: task.id })
      : undefined
  if (task.status === 'failed') {
    const { explained } = await explainFailure(ctx, task, lines)
    const step = view.steps.find(({ stepId }) => stepId === explained.failure.step)
    return { view, summary, step, ...explained, supersededBy }
  }
  const open = view.steps.findLast(({ state }) => state === StepState.RUNNING)
  const step = open ?? view.steps.findLast(({ firstLogSeq }) => firstLogSeq !== null)
  // a step says only at its end where its output is
  const logged = open ? { ...open, firstLogSeq: open.firstLogSeq ?? 1, lastLogSeq: null } : step
  const attempt =
    view.attempt && isFinished(task.status)
      ? await awaitLog(ctx, view.attempt, () => false)
      : view.attempt
  const shown = await readEnd(ctx, attempt, logged, lines).catch(orNothing)
  return {
    view,
    summary,
    step,
    failure: null,
    output: shown.lines.length > 0 ? shown.lines.join('\n') : null,
    firstLine: shown.firstLine,
    lastLine: shown.lastLine,
    isTruncated: shown.isTruncated,
    isComplete: isFinished(task.status) && (!attempt || attempt.logCompleteAt !== null),
    hints: [],
    since: task.type === 'deploy' ? await compareWithSuccess(ctx, task, attempt) : null,
    supersededBy,
  }
}

/** Returns the failed step and its attempt when the output has arrived, or after a timeout. */
async function awaitOutput(ctx: Context, task: Task, failure: Failure) {
  const found = (await listNewestAttempts(ctx.db, [task.id])).get(task.id)
  const steps = found ? await listSteps(ctx.db, [found.id]) : []
  const step = steps.find(({ stepId }) => stepId === failure.step)
  if (!found || !step) return { attempt: found, step, isComplete: true }
  const isThere = (a: ShownAttempt): boolean =>
    a.logCompleteAt !== null || (step.lastLogSeq !== null && step.lastLogSeq <= a.ackedLogSeq)
  const attempt = await awaitLog(ctx, found, isThere)
  return { attempt, step, isComplete: attempt.logExpiredAt !== null || isThere(attempt) }
}

function lastLines(excerpt: Excerpt, lines: number): Excerpt {
  const { firstLine, lastLine } = excerpt
  const dropped = excerpt.lines.length - lines
  if (dropped <= 0 || firstLine === null || lastLine === null) return excerpt
  // a step's line numbers have no holes unless concurrent steps mix their lines
  const first = Math.max(firstLine, lastLine - lines + 1)
  return { lines: excerpt.lines.slice(dropped), firstLine: first, lastLine, isTruncated: true }
}

/** The last lines of a step, by its records in the log. */
async function readEnd(
  ctx: Context,
  attempt: ShownAttempt | undefined,
  step: LoggedStep | undefined,
  lines: number,
): Promise<Excerpt> {
  if (!attempt || attempt.logExpiredAt !== null || !step?.firstLogSeq) return NOTHING
  const last = Math.min(step.lastLogSeq ?? attempt.ackedLogSeq, attempt.ackedLogSeq)
  if (last < step.firstLogSeq) return NOTHING
  const seqs = [step.firstLogSeq, last]
  const [firstLine = 0, lastLine = 0] = await ctx.logs.linesOf(attempt.id, seqs)
  const bounds = { lines, bytes: DIAGNOSTICS.bytes * Math.max(1, lines / DIAGNOSTICS.lines) }
  for (let window = lines; ; window *= 8) {
    const fromLine = Math.max(firstLine, lastLine - Math.min(window, DIAGNOSTICS.scanLines) + 1)
    const builder = new ExcerptBuilder(bounds)
    const query = {
      from: await ctx.logs.findLine(attempt.id, fromLine, attempt.ackedLogSeq),
      to: attempt.ackedLogSeq,
      bytes: attempt.logBytes,
      fromLine,
      untilLine: lastLine + 1,
      steps: new Set([step.stepIndex]),
    }
    for await (const { line, data } of ctx.logs.records(attempt.id, query)) builder.add(line, data)
    const excerpt = builder.finish(fromLine === firstLine)
    const isEnough = excerpt.lines.length >= lines || fromLine === firstLine
    if (isEnough || window >= DIAGNOSTICS.scanLines) return excerpt
  }
}

/** Compares it with the last successful deployment before it; null if there is none. */
export async function compareWithSuccess(
  ctx: Context,
  failed: Task,
  attempt: ShownAttempt | undefined,
): Promise<SinceLastSuccess | null> {
  const { environmentId } = failed
  const success = await findNewestDeployment(ctx.db, environmentId, 'succeeded', {
    beforeId: failed.id,
  })
  if (!success) return null
  const before = (await listNewestAttempts(ctx.db, [success.id])).get(success.id)
  const areKnown = failed.serviceFileSha !== null && success.serviceFileSha !== null
  return {
    taskId: success.id,
    commitSha: success.commitSha,
    serviceFileChanged: areKnown ? failed.serviceFileSha !== success.serviceFileSha : null,
    variableKeysChanged:
      before && attempt
        ? await listChangedKeys(
            ctx.db,
            environmentId,
            { after: before.variablesRevision, until: attempt.variablesRevision },
            DIAGNOSTICS.keys,
          )
        : [],
  }
}
