// Logs of attempts: how far they are, when they are complete, who may read them. The bytes are in files beside SQLite
// and in blocks of PostgreSQL; the attempt's row says how many of them are final, and only those are shown.
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
  takeLog,
  updateAttempt,
  updateLogPosition,
} from '../../store/deployments/attempts.ts'
import { BlockWriter, type LogBlocks } from '../../store/deployments/log-blocks.ts'
import type { LogFiles } from '../../store/deployments/log-files.ts'
import type { LogPosition } from '../../store/deployments/log-index.ts'
import type { LogStep, LogWriter } from '../../store/deployments/log-store.ts'
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

const NOTHING: LogPosition = { records: 0, bytes: 0, lines: 0 }

export interface OpenLog {
  position: LogPosition
  fence: number
  gap: boolean
  /** Called when the stream takes the log, and not later. */
  start(): LogWriter
}

interface LogRequest {
  agentId: string
  /** The session whose stream will feed it. */
  sessionId: string
  attemptId: string
}

/** Where an agent's log continues; undefined if it is another agent's or no more of it is wanted. */
export async function openLog(ctx: Context, asked: LogRequest): Promise<OpenLog | undefined> {
  const { logs } = ctx
  if (logs.kind === 'blocks') return openBlocks(ctx, logs, asked)
  const attempt = await findAttempt(ctx.db, asked.attemptId)
  if (!attempt || attempt.agentId !== asked.agentId || attempt.releasedAt !== null) return undefined
  const position = positionOf(attempt)
  return {
    position,
    fence: attempt.fence,
    gap: attempt.logGap === 1,
    start: () => logs.writer(attempt.id, position),
  }
}

/**
 * The row names the session that feeds the log, so an earlier one cannot write any more. Rows that were restored
 * without their log start from nothing: the agent sends what it still has and reports the gap.
 */
async function openBlocks(
  ctx: Context,
  logs: LogBlocks,
  asked: LogRequest,
): Promise<OpenLog | undefined> {
  const opened = await change(ctx, async (c) => {
    const attempt = await takeLog(c.db, asked)
    if (!attempt) return undefined
    const at = positionOf(attempt)
    const writer = await logs.resume(c.db, attempt.id, at)
    if (writer || attempt.logCompleteAt !== null) {
      return { attempt, position: at, writer: writer ?? new BlockWriter(false) }
    }
    await logs.remove(c.db, attempt.id)
    await updateAttempt(c.db, attempt.id, { ackedLogSeq: 0, logBytes: 0, logLines: 0 })
    return { attempt, position: NOTHING, writer: new BlockWriter(false) }
  })
  if (!opened) return undefined
  const { attempt, position, writer } = opened
  // the replica that stored its end may have died before it said so
  if (position.records > 0 && isAtEnd(attempt)) await completeLog(ctx, attempt.id)
  return { position, fence: attempt.fence, gap: attempt.logGap === 1, start: () => writer }
}

/** Makes appended records durable and wakes the readers. Returns the logs that no other session took over. */
export async function commitLogs(
  ctx: Context,
  steps: readonly LogStep[],
): Promise<ReadonlySet<string>> {
  const { logs } = ctx
  if (logs.kind === 'files') {
    await commitFiles(ctx, logs, steps)
    for (const { attemptId } of steps) await completeLog(ctx, attemptId)
    return new Set(steps.map(({ attemptId }) => attemptId))
  }
  const written = await logs.write(steps)
  for (const { attemptId } of written) ctx.notifier.notify(logTopic(attemptId))
  for (const { attemptId, isAtEnd: ends } of written) if (ends) await completeLog(ctx, attemptId)
  return new Set(written.map(({ attemptId }) => attemptId))
}

/** The rows follow the files, so they never say more than is durable. */
async function commitFiles(ctx: Context, logs: LogFiles, steps: readonly LogStep[]): Promise<void> {
  await logs.sync(steps.map(({ attemptId }) => attemptId))
  await change(ctx, async (c) => {
    for (const { attemptId, to, gap } of steps) {
      await updateLogPosition(c.db, attemptId, {
        ackedLogSeq: to.records,
        logBytes: to.bytes,
        logLines: to.lines,
        logGap: gap ? 1 : 0,
      })
      c.notify(logTopic(attemptId))
    }
  })
}

/** Its last record is stored, and nothing says so yet. */
const isAtEnd = (a: Attempt): boolean =>
  a.finalLogSeq !== null && a.logCompleteAt === null && a.ackedLogSeq >= a.finalLogSeq

/**
 * A log is complete when its last record is stored and its digest agrees; only then may the agent forget the attempt.
 * Called whenever either may have become true, otherwise a no-op.
 */
export async function completeLog(ctx: Context, attemptId: string): Promise<void> {
  const attempt = await findAttempt(ctx.db, attemptId)
  if (!attempt || !isAtEnd(attempt) || !isTerminal(attempt.state)) return
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

/** At start. Blocks that other replicas write now stay as they are: a stream that opens a log looks at its end. */
export async function openLogs(ctx: Context): Promise<void> {
  if (ctx.logs.kind === 'files') await recoverFiles(ctx, ctx.logs)
  else await ctx.logs.partitions.makeAhead(ctx.clock.now())
}

/**
 * Cuts files back to their rows: the rest was never acknowledged and comes again. A file shorter than its
 * row (only the database was restored) starts from nothing: the agent sends what it still has and reports the gap.
 */
async function recoverFiles(ctx: Context, logs: LogFiles): Promise<void> {
  for (const attempt of await listUncertainLogs(ctx.db)) {
    const isWhole = logs.holds(attempt.id, positionOf(attempt))
    if (!isWhole) {
      await updateAttempt(ctx.db, attempt.id, { ackedLogSeq: 0, logBytes: 0, logLines: 0 })
    }
    logs.truncate(attempt.id, isWhole ? positionOf(attempt) : NOTHING)
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
  const shown = view.steps.flatMap(({ stepIndex, firstLogSeq, lastLogSeq }) => {
    if (firstLogSeq === null || firstLogSeq > attempt.ackedLogSeq) return []
    const isEnded = lastLogSeq !== null && lastLogSeq <= attempt.ackedLogSeq
    return [
      {
        stepIndex,
        seqs: [firstLogSeq, ...(isEnded && lastLogSeq >= firstLogSeq ? [lastLogSeq] : [])],
      },
    ]
  })
  const found = await ctx.logs.linesOf(
    attempt.id,
    shown.flatMap(({ seqs }) => seqs),
  )
  let at = 0
  for (const { stepIndex, seqs } of shown) {
    const [first = 0, last = null] = found.slice(at, at + seqs.length)
    lines.set(stepIndex, { first, last })
    at += seqs.length
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

/** Deletes logs past their retention and marks their rows. Handles all batches; a busy hour has more than one. */
export async function expireLogs(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  const { logs } = ctx
  for (;;) {
    const batch = await listWithLogsBefore(ctx.db, now - LOGS.retentionMs)
    if (batch.length === 0) break
    for (const { id } of batch) {
      if (logs.kind === 'files') await logs.remove(id)
      await updateAttempt(ctx.db, id, { logExpiredAt: now }) // so that the next query returns the next batch
    }
  }
  if (logs.kind === 'blocks') await turnPartitions(ctx, logs)
}

/** Makes the days to come, and drops those of which every log has expired. */
async function turnPartitions(ctx: Context, { partitions }: LogBlocks): Promise<void> {
  const now = ctx.clock.now()
  await partitions.makeAhead(now)
  const dropped = await partitions.dropBefore(now - LOGS.retentionMs)
  if (dropped.length > 0) ctx.log.info({ dropped }, 'logs past their retention were dropped')
}
