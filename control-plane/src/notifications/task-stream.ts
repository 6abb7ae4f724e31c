// Streams one task live: its events and its output, resumable to the record. Output comes only from the durable part of
// the stored log, so a slow viewer costs a file position and no memory. A line may arrive in parts (same number:
// append), and a record may replace the previous one of its source (`replaces`).
import { isFinished } from '@berth/shared'
import { logTopic, taskTopic } from '../app/core/transaction.ts'
import { type LiveLine, LogReader } from '../app/deployments/log-reader.ts'
import { type LogView, openTaskLog, refreshLog } from '../app/deployments/logs.ts'
import type { Context } from '../context.ts'
import type { Caller } from '../domain/core/access.ts'
import { LIVE } from '../limits/browser.ts'
import type { LiveEvent } from './states.ts'
import { type Begun, type Reset, type Subscription, streamEvents } from './stream.ts'

export interface LogLines {
  kind: 'log'
  attempt: number
  lines: LiveLine[]
}
/** Another attempt began: its output starts at line 1, and the displayed output is cleared. */
export interface LogReset {
  kind: 'log.reset'
  attempt: number
}
export interface LogEnd {
  kind: 'log.end'
  attempt: number
  lines: number
  truncated: boolean
}
export type TaskMessage = LiveEvent | Begun | Reset | LogLines | LogReset | LogEnd

/** What a viewer has: the last event, and the attempt with its number of records. */
interface TaskPosition {
  seq: number | undefined
  attempt: number
  records: number
}

interface TaskMessageAt {
  message: TaskMessage
  at: TaskPosition
}

export const writePosition = (p: TaskPosition): string => `${p.seq ?? 0}.${p.attempt}.${p.records}`

export function readPosition(text: string): TaskPosition | undefined {
  const match = /^(\d{1,15})\.(\d{1,9})\.(\d{1,15})$/.exec(text)
  if (!match) return undefined
  const [seq = 0, attempt = 0, records = 0] = match.slice(1).map(Number)
  return { seq, attempt, records }
}

/** Yields events and output as they come. It does not end by itself, because a finished task may still get events. */
export async function* streamTask(
  ctx: Context,
  caller: Caller,
  taskId: number,
  from: { position: TaskPosition | undefined; line: number | undefined },
  s: Omit<Subscription, 'filter' | 'after'>,
): AsyncGenerator<TaskMessageAt> {
  const { head } = ctx.feed // before any await, so that nothing is missed
  const isNew = from.position === undefined
  const view = await openTaskLog(ctx, caller, taskId)
  const over = new AbortController()
  const signal = AbortSignal.any([s.signal, over.signal])
  // what was sent, not what is being read; a viewer resumes after it
  const at: TaskPosition = from.position ?? { seq: undefined, attempt: 0, records: 0 }
  at.seq ??= head
  const filter = { organizationId: view.task.organizationId, taskId }
  const events = streamEvents(ctx, { ...s, signal, filter, after: at.seq })
  const log = streamLog(ctx, view, { ...at, line: from.line }, { ...s, signal })
  if (isNew) yield { message: { kind: 'begun', seq: head }, at: { ...at } }
  let nextEvent = events.next()
  let nextLog = log.next()
  let isLogOver = false
  try {
    for (;;) {
      const first = await Promise.race([
        nextEvent.then((event) => ({ event })),
        ...(isLogOver ? [] : [nextLog.then((part) => ({ part }))]),
      ])
      if ('event' in first) {
        if (first.event.done) return
        at.seq = first.event.value.seq
        yield { message: first.event.value, at: { ...at } }
        nextEvent = events.next()
      } else if (first.part.done) {
        isLogOver = true
      } else {
        const { attempt, records, message } = first.part.value
        Object.assign(at, { attempt, records })
        yield { message, at: { ...at } }
        nextLog = log.next()
      }
    }
  } finally {
    over.abort()
    nextEvent.catch(() => {}) // already handled, or no longer of interest
    nextLog.catch(() => {})
    await Promise.allSettled([events.return(undefined), log.return(undefined)])
  }
}

/** A part of the output and the viewer's position after it. */
interface LogPart {
  message: LogLines | LogReset | LogEnd
  attempt: number
  records: number
}

async function* streamLog(
  ctx: Context,
  opened: LogView,
  from: TaskPosition & { line: number | undefined },
  s: Pick<Subscription, 'admit' | 'drained' | 'signal'>,
): AsyncGenerator<LogPart> {
  let view = opened
  let { attempt: number, records } = from
  let reader: LogReader | undefined
  let unwatch = (): void => {}
  try {
    while (!s.signal.aborted) {
      const { attempt, task } = view
      if (attempt && attempt.id !== reader?.attemptId) {
        unwatch()
        unwatch = ctx.watchers.watch(attempt.id)
        const isOther = number !== 0 && number !== attempt.number
        if (isOther || records > attempt.ackedLogSeq) {
          records = 0
          yield part({ kind: 'log.reset', attempt: attempt.number }, attempt.number, 0)
        } else if (number === 0 && from.line !== undefined && from.line > 1) {
          records = await ctx.logs.findLine(attempt.id, from.line, attempt.ackedLogSeq)
        }
        number = attempt.number
        reader = new LogReader(ctx, attempt.id)
      }
      for await (const read of reader?.read(view, records) ?? []) {
        await s.admit(false)
        records = read.records
        yield part({ kind: 'log', attempt: number, lines: read.lines }, number, records)
        await s.drained(s.signal)
      }
      if (isFinished(task.status) && (!attempt || attempt.logCompleteAt !== null)) {
        const truncated = attempt?.logTruncated === 1
        const end = { kind: 'log.end' as const, attempt: number, lines: attempt?.logLines ?? 0 }
        yield part({ ...end, truncated }, number, records)
        return
      }
      view = await nextView(ctx, view, s)
    }
  } finally {
    unwatch()
  }
}

const part = (message: LogPart['message'], attempt: number, records: number): LogPart => ({
  message,
  attempt,
  records,
})

/** Returns the log after a change, or after a timeout. */
async function nextView(
  ctx: Context,
  view: LogView,
  s: Pick<Subscription, 'admit' | 'signal'>,
): Promise<LogView> {
  const { attempt, task } = view
  const topic = !attempt || attempt.logCompleteAt ? taskTopic(task.id) : logTopic(attempt.id)
  const armed = new AbortController()
  const signal = AbortSignal.any([s.signal, armed.signal])
  const woken = ctx.notifier.wait(topic, signal, LIVE.recheckMs) // before the read, or a wake-up is missed
  try {
    const now = await refreshLog(ctx, view)
    if (hasMoved(view, now)) return now
    await woken
  } finally {
    armed.abort()
    await woken
  }
  await s.admit(false)
  return refreshLog(ctx, view)
}

const hasMoved = (a: LogView, b: LogView): boolean =>
  a.attempt?.id !== b.attempt?.id ||
  a.attempt?.ackedLogSeq !== b.attempt?.ackedLogSeq ||
  a.attempt?.logCompleteAt !== b.attempt?.logCompleteAt ||
  a.task.status !== b.task.status
