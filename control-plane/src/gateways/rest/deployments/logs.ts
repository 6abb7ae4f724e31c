// Serves the raw log of any task within retention: whole, in ranges, by lines, by phase or step, as JSON lines, or
// followed until it is complete. Bytes are as the agent masked and sent them.
import { Readable } from 'node:stream'
import { AppError, isFinished } from '@berth/shared'
import { IdParams, LogLine, LogQuery } from '@berth/shared/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { logTopic, taskTopic } from '../../../app/core/transaction.ts'
import { awaitLog, type LogView, openTaskLog, refreshLog } from '../../../app/deployments/logs.ts'
import type { Context } from '../../../context.ts'
import { parseRange } from '../../../domain/core/byte-range.ts'
import type { Admission } from '../../../notifications/admission.ts'
import { type Api, callerOf } from '../http/api.ts'
import { admissionOf, admitFollower, sendStream } from '../http/streams.ts'
import { stripAnsi, writeNdjson } from './log-text.ts'

const LOG_TEXT = {
  content: {
    'text/plain': { schema: z.string() },
    'application/x-ndjson': { schema: LogLine },
  },
}

export function logRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/tasks/:id/log',
    {
      config: {
        needs: 'read',
        errors: ['log_expired', 'log_gone', 'range_not_satisfiable'],
        headers: {
          'Berth-Log-Lines': 'Lines stored so far.',
          'Berth-Log-Complete': '"true" when nothing will be added.',
          'Accept-Ranges': 'Bytes, unless the answer is filtered or followed.',
          'Content-Range': 'With 206: which bytes.',
        },
      },
      schema: {
        summary: 'The raw log: whole, in ranges, by lines, by phase or step, followed',
        params: IdParams,
        querystring: LogQuery,
        response: { 200: LOG_TEXT, 206: LOG_TEXT },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const opened = await openTaskLog(ctx, caller, request.params.id)
      const view = request.query.follow === 'true' ? opened : await settled(ctx, opened)
      const selection = select(ctx, view, request.query)
      const ndjson = String(request.headers.accept ?? '').includes('application/x-ndjson')
      reply.header('berth-log-lines', view.attempt?.logLines ?? 0)
      reply.header('berth-log-complete', String(isComplete(view)))
      reply.header('x-content-type-options', 'nosniff')
      reply.type(ndjson ? 'application/x-ndjson' : 'text/plain; charset=utf-8')
      if (request.query.follow === 'true') {
        const gone = admitFollower(reply, caller.userId)
        const admission = admissionOf(ctx, request)
        return sendStream(reply, follow(ctx, view, selection, ndjson, admission, gone))
      }
      if (!ndjson && isPlain(request.query)) return sendRange(ctx, view, request, reply)
      return sendStream(reply, read(ctx, view, await selection.start(), selection, ndjson))
    },
  )
}

/** The last lines of a task that just ended may still be in transit; waits for them. */
async function settled(ctx: Context, view: LogView): Promise<LogView> {
  if (!view.attempt || !isFinished(view.task.status)) return view
  const attempt = await awaitLog(ctx, view.attempt, () => false)
  return attempt === view.attempt ? view : refreshLog(ctx, view)
}

/** A refused attempt has a complete log, but the task continues with another attempt. */
const isComplete = ({ task, attempt }: LogView): boolean =>
  isFinished(task.status) && (attempt === undefined || attempt.logCompleteAt !== null)

const isPlain = (q: LogQuery): boolean =>
  q.from_line === undefined &&
  q.lines === undefined &&
  q.ansi !== 'strip' &&
  q.phase === undefined &&
  q.step === undefined

// ------------------------------------------------------------------------------------------- byte ranges

function sendRange(
  ctx: Context,
  view: LogView,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const total = view.attempt?.logBytes ?? 0
  const size = isComplete(view) ? String(total) : '*'
  reply.header('accept-ranges', 'bytes')
  const range = parseRange(request.headers.range, total)
  if (range === 'unsatisfiable') {
    reply.header('content-range', `bytes */${total}`)
    throw new AppError('range_not_satisfiable', `The log has ${total} bytes so far.`)
  }
  const { from, to } = range ?? { from: 0, to: total }
  if (range) reply.code(206).header('content-range', `bytes ${from}-${to - 1}/${size}`)
  reply.header('content-length', to - from)
  if (!view.attempt || to === from) return reply.send('')
  return reply.send(Readable.from(ctx.logs.read(view.attempt.id, from, to)))
}

// ------------------------------------------------------------------------------------- lines, steps, follow

interface Selection {
  /** Index of the first wanted record, from 0. */
  start(): Promise<number>
  steps(view: LogView): ReadonlySet<number> | undefined
  fromLine: number
  untilLine: number
  strip: boolean
}

function select(ctx: Context, view: LogView, query: LogQuery): Selection {
  const fromLine = query.from_line ?? 1
  return {
    fromLine,
    untilLine: query.lines === undefined ? Number.POSITIVE_INFINITY : fromLine + query.lines,
    strip: query.ansi === 'strip',
    async start() {
      if (!view.attempt || fromLine === 1) return 0
      return ctx.logs.findLine(view.attempt.id, fromLine, view.attempt.ackedLogSeq)
    },
    steps(now) {
      if (query.phase === undefined && query.step === undefined) return undefined
      const wanted = now.steps.filter(
        (s) =>
          (query.phase === undefined || s.phase === query.phase) &&
          (query.step === undefined || s.stepId === query.step),
      )
      return new Set(wanted.map((s) => s.stepIndex))
    },
  }
}

async function* read(
  ctx: Context,
  view: LogView,
  from: number,
  selection: Selection,
  ndjson: boolean,
): AsyncGenerator<Buffer | string> {
  const { attempt } = view
  if (!attempt || from >= attempt.ackedLogSeq) return
  const query = {
    from,
    to: attempt.ackedLogSeq,
    bytes: attempt.logBytes,
    fromLine: selection.fromLine,
    untilLine: selection.untilLine,
    steps: selection.steps(view),
  }
  if (ndjson) {
    yield* writeNdjson(ctx.logs.records(attempt.id, query), view.steps)
  } else if (selection.strip) {
    // by record: an escape sequence never spans two lines
    for await (const { data } of ctx.logs.records(attempt.id, query)) yield stripAnsi(data)
  } else {
    yield* ctx.logs.runs(attempt.id, query)
  }
}

async function* follow(
  ctx: Context,
  opened: LogView,
  selection: Selection,
  ndjson: boolean,
  admission: Admission,
  gone: AbortSignal,
): AsyncGenerator<Buffer | string> {
  let view = opened
  let from = await selection.start()
  let watched: string | undefined
  let unwatch = (): void => {}
  yield Buffer.alloc(0) // sends the head, so that a follower does not wait for the first line
  try {
    while (!gone.aborted) {
      const id = view.attempt?.id
      if (id !== undefined && id !== watched) {
        unwatch()
        unwatch = ctx.watchers.watch(id)
        if (watched !== undefined) from = 0 // another attempt, another log
        watched = id
      }
      const complete = isComplete(view)
      const { organizationId } = view.task
      // if refused, the stream breaks off, which differs from the normal end of a log
      await admission.require(organizationId, false)
      for await (const text of read(ctx, view, from, selection, ndjson)) {
        await admission.require(organizationId, false)
        yield text
      }
      from = Math.max(from, view.attempt?.ackedLogSeq ?? 0)
      if (complete) return
      const ended = view.attempt === undefined || view.attempt.logCompleteAt !== null
      const topic = id === undefined || ended ? taskTopic(view.task.id) : logTopic(id)
      const before = view
      view = await refreshLog(ctx, view)
      const moved =
        view.attempt?.id !== before.attempt?.id ||
        view.attempt?.ackedLogSeq !== before.attempt?.ackedLogSeq ||
        isComplete(view) !== complete
      if (moved) continue
      await ctx.notifier.wait(topic, gone, admission.trustedMs)
      view = await refreshLog(ctx, view)
    }
  } finally {
    unwatch()
  }
}
