// Logs of attempts: how far they are, when they are complete, who may read them. The bytes are in files
// (store/deployments/log-files.ts); the attempt's row says how many of them are final, and only those are shown.
import { AppError, DIAGNOSTICS, isTerminal, LOGS } from '@berth/shared'
import { Desired } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  type Attempt,
  type AttemptStep,
  findAttempt,
  listNewestAttempts,
  listSteps,
  listUncertainLogs,
  listWithLogsBefore,
  type ShownAttempt,
  updateAttempt,
  updateLogPosition,
} from '../../store/deployments/attempts.ts'
import type { LogPosition } from '../../store/deployments/log-files.ts'
import { findTask, type Task } from '../../store/deployments/tasks.ts'
import { loadTask } from '../core/access.ts'
import { logGone } from '../core/store-refusals.ts'
import { agentTopic, change, logTopic, taskTopic } from '../core/transaction.ts'
import type { TaskView } from './tasks.ts'

const positionOf = (a: Attempt): LogPosition => ({
  records: a.ackedLogSeq,
  bytes: a.logBytes,
  lines: a.logLines,
})

/** Where an agent's log continues; undefined if it is another agent's or no more of it is wanted. */
export async function findLogPosition(
  ctx: Context,
  agentId: string,
  attemptId: string,
): Promise<{ position: LogPosition; fence: number; gap: boolean } | undefined> {
  const attempt = await findAttempt(ctx.db, attemptId)
  if (!attempt || attempt.agentId !== agentId || attempt.releasedAt !== null) return undefined
  return { position: positionOf(attempt), fence: attempt.fence, gap: attempt.logGap === 1 }
}

/** After the files were synced, updates the rows and wakes the readers. */
export async function commitLogs(
  ctx: Context,
  logs: { attemptId: string; position: LogPosition; gap: boolean }[],
): Promise<void> {
  await change(ctx, async (c) => {
    for (const { attemptId, position, gap } of logs) {
      await updateLogPosition(c.db, attemptId, {
        ackedLogSeq: position.records,
        logBytes: position.bytes,
        logLines: position.lines,
        logGap: gap ? 1 : 0,
      })
      c.notify(logTopic(attemptId))
    }
  })
  for (const { attemptId } of logs) await completeLog(ctx, attemptId)
}

/**
 * A log is complete when its last record is stored and its digest agrees; only then may the agent forget the attempt.
 * Called whenever either may have become true, otherwise a no-op.
 */
export async function completeLog(ctx: Context, attemptId: string): Promise<void> {
  const attempt = await findAttempt(ctx.db, attemptId)
  if (!attempt || attempt.finalLogSeq === null || attempt.logCompleteAt !== null) return
  if (!isTerminal(attempt.state) || attempt.ackedLogSeq < attempt.finalLogSeq) return
  const comparable = attempt.logGap === 0 && attempt.logSha256 !== null
  const digest = comparable ? await ctx.logs.hash(attemptId, attempt.logBytes) : attempt.logSha256
  const agrees = digest === attempt.logSha256
  if (!agrees) ctx.log.error({ attemptId, digest, wanted: attempt.logSha256 }, 'a log is damaged')
  await change(ctx, async (c) => {
    await updateAttempt(c.db, attemptId, {
      logCompleteAt: c.now,
      logTruncated: agrees && attempt.logGap === 0 ? 0 : 1,
      desired: Desired.FORGOTTEN,
    })
    c.notify(logTopic(attemptId))
    c.notify(taskTopic(attempt.taskId))
    c.notify(agentTopic(attempt.agentId))
  })
}

/** The agent keeps only tombstones of these. */
export async function releaseAttempts(
  ctx: Context,
  agentId: string,
  attemptIds: string[],
): Promise<void> {
  await change(ctx, async (c) => {
    for (const id of attemptIds) {
      const attempt = await findAttempt(c.db, id)
      if (attempt?.agentId === agentId) await updateAttempt(c.db, id, { releasedAt: c.now })
    }
  })
}

const NOTHING: LogPosition = { records: 0, bytes: 0, lines: 0 }

/**
 * At start, cuts files back to their rows: the rest was never acknowledged and comes again. A file shorter than its
 * row (only the database was restored) starts from nothing: the agent sends what it still has and reports the gap.
 */
export async function recoverLogs(ctx: Context): Promise<void> {
  for (const attempt of await listUncertainLogs(ctx.db)) {
    const isWhole = ctx.logs.holds(attempt.id, positionOf(attempt))
    if (!isWhole) {
      await updateAttempt(ctx.db, attempt.id, { ackedLogSeq: 0, logBytes: 0, logLines: 0 })
    }
    ctx.logs.truncate(attempt.id, isWhole ? positionOf(attempt) : NOTHING)
    await completeLog(ctx, attempt.id)
  }
}

export interface LogView {
  task: Task
  /** Undefined if nothing ran, so there is no output. */
  attempt: ShownAttempt | undefined
  steps: AttemptStep[]
}

const isLogWhole = (ctx: Context, { id, ackedLogSeq, logBytes }: ShownAttempt): Promise<boolean> =>
  ctx.logs.isWhole(id, { records: ackedLogSeq, bytes: logBytes })

export async function openTaskLog(ctx: Context, caller: Caller, taskId: number): Promise<LogView> {
  const task = await loadTask(ctx.db, caller, taskId, 'read')
  const attempt = (await listNewestAttempts(ctx.db, [taskId])).get(taskId)
  if (attempt && attempt.logExpiredAt !== null) {
    const days = Math.round(LOGS.retentionMs / 86_400_000)
    throw new AppError('log_expired', `Logs are kept ${days} days; this one is gone.`)
  }
  if (attempt && !(await isLogWhole(ctx, attempt))) throw logGone()
  return { task, attempt, steps: attempt ? await listSteps(ctx.db, [attempt.id]) : [] }
}

/** Re-reads the log; a follower repeats this until it is complete. */
export async function refreshLog(ctx: Context, view: LogView): Promise<LogView> {
  const task = (await findTask(ctx.db, view.task.id)) ?? view.task
  const attempt = (await listNewestAttempts(ctx.db, [task.id])).get(task.id)
  return { task, attempt, steps: attempt ? await listSteps(ctx.db, [attempt.id]) : [] }
}

const LOOK_MS = 250 // a lost wake-up costs this much

/**
 * A task's end can be reported before its last output arrives: waits for it briefly, unless the server is offline.
 * Returns the attempt in its state after the wait.
 */
export async function awaitLog(
  ctx: Context,
  attempt: ShownAttempt,
  isEnough: (attempt: ShownAttempt) => boolean,
): Promise<ShownAttempt> {
  const isOver = (a: ShownAttempt): boolean =>
    a.id !== attempt.id || a.logCompleteAt !== null || a.logExpiredAt !== null || isEnough(a)
  if (attempt.unreachableSince !== null || isOver(attempt)) return attempt
  const deadline = performance.now() + DIAGNOSTICS.settleMs
  const done = new AbortController()
  const unwatch = ctx.watchers.watch(attempt.id) // makes the server send immediately
  try {
    for (let now = attempt; ; ) {
      const left = deadline - performance.now()
      if (left <= 0) return now
      const woken = ctx.notifier.wait(logTopic(attempt.id), done.signal, Math.min(left, LOOK_MS))
      now = (await listNewestAttempts(ctx.db, [attempt.taskId])).get(attempt.taskId) ?? now
      if (isOver(now)) return now
      await woken
    }
  } finally {
    done.abort()
    unwatch()
  }
}

/** First and last line of each step, by its index in the plan. */
export type StepLines = Map<number, { first: number; last: number | null }>

export async function readStepLines(ctx: Context, view: TaskView): Promise<StepLines> {
  const lines: StepLines = new Map()
  const { attempt } = view
  if (!attempt || attempt.logExpiredAt !== null) return lines
  if (!(await isLogWhole(ctx, attempt))) return lines // the steps' results are known without it
  for (const step of view.steps) {
    const { firstLogSeq, lastLogSeq } = step
    if (firstLogSeq === null || firstLogSeq > attempt.ackedLogSeq) continue
    const first = await ctx.logs.lineOf(attempt.id, firstLogSeq)
    const stored = lastLogSeq !== null && lastLogSeq <= attempt.ackedLogSeq
    const last =
      stored && lastLogSeq >= firstLogSeq ? await ctx.logs.lineOf(attempt.id, lastLogSeq) : null
    lines.set(step.stepIndex, { first, last })
  }
  return lines
}

/** The line of each failure in a list, the same as in the view of a single task. */
export async function readFailureLines(
  ctx: Context,
  views: readonly TaskView[],
): Promise<Map<number, number>> {
  const failed = views.filter(({ task, attempt }) => task.failure?.step && attempt)
  const steps = await listSteps(
    ctx.db,
    failed.flatMap(({ attempt }) => attempt?.id ?? []),
  )
  const found = new Map<number, number>()
  for (const view of failed) {
    const { task, attempt } = view
    const own = steps.filter((s) => s.attemptId === attempt?.id && s.stepId === task.failure?.step)
    const [lines] = (await readStepLines(ctx, { ...view, steps: own.slice(0, 1) })).values()
    if (lines?.last) found.set(task.id, lines.last)
  }
  return found
}

/** Deletes files past their retention and marks their rows. Handles all batches; a busy hour has more than one. */
export async function expireLogs(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  for (;;) {
    const batch = await listWithLogsBefore(ctx.db, now - LOGS.retentionMs)
    if (batch.length === 0) return
    for (const { id } of batch) {
      await ctx.logs.remove(id)
      await updateAttempt(ctx.db, id, { logExpiredAt: now }) // so that the next query returns the next batch
    }
  }
}
