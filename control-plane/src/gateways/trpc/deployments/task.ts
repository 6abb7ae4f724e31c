// Tasks of an environment or a project: list, cancel, parts of the log, and live progress and output.
import { AppError, isFinished, REST, TASK_STATUSES, TASK_TYPES } from '@berth/shared'
import { Id } from '@berth/shared/api'
import { type TrackedEnvelope, tracked } from '@trpc/server'
import { z } from 'zod'
import { loadTask } from '../../../app/core/access.ts'
import { compareTask, listChanges } from '../../../app/deployments/comparison.ts'
import { type LogSearch, readLogLines, searchLog } from '../../../app/deployments/log-pages.ts'
import { type LogView, readFailureLines } from '../../../app/deployments/logs.ts'
import {
  cancelTask,
  getTask,
  listEnvironmentTasks,
  listProjectTasks,
} from '../../../app/deployments/tasks.ts'
import { giveLogTicket } from '../../../app/files/downloads.ts'
import { LOG_PAGES } from '../../../limits/browser.ts'
import type { Begun, Reset } from '../../../notifications/stream.ts'
import {
  type LogEnd,
  type LogLines,
  type LogReset,
  readPosition,
  streamTask,
  type TaskMessage,
  writePosition,
} from '../../../notifications/task-stream.ts'
import { serializeTicket, serializeWholeTask } from '../../serializers/dashboard.ts'
import { serializeChanges, serializeComparison } from '../../serializers/diagnostics.ts'
import { serializeTasks } from '../../serializers/fields.ts'
import { browserCall, call, router, watch } from '../base.ts'
import { counted, type EventMessage, serializeEvent, watcherOf } from '../events.ts'

const History = {
  status: z.array(z.enum(TASK_STATUSES)).min(1).optional(),
  types: z.array(z.enum(TASK_TYPES)).min(1).optional(),
  before: Id.optional(),
  limit: z.int().min(1).max(REST.perPageMax).optional(),
}
/** Of one environment, or of all present and former ones of a project. */
const Page = z.union([
  z.strictObject({ environment_id: Id, ...History }),
  z.strictObject({ project_id: Id, ...History }),
])

const One = z.strictObject({ task_id: Id })
const Line = z.int().min(1).max(1_000_000_000)
const Range = z.strictObject({ task_id: Id, from: Line, to: Line })
const Search = z.strictObject({
  task_id: Id,
  query: z.string().min(1).max(LOG_PAGES.queryChars),
  case_sensitive: z.boolean().optional(),
  from_line: Line.optional(),
})

const Stream = z.strictObject({
  task_id: Id,
  /** The first wanted line, if the page has those before it; a reconnect overrides it. */
  from_line: z.int().positive().optional(),
  lastEventId: z.string().max(50).optional(),
})

type TaskStreamMessage = EventMessage | Begun | Reset | LogLines | LogReset | LogEnd

function present(message: TaskMessage): TaskStreamMessage {
  return 'organizationId' in message ? serializeEvent(message) : message
}

async function* track(
  messages: ReturnType<typeof streamTask>,
): AsyncGenerator<TrackedEnvelope<TaskStreamMessage>, void> {
  for await (const { message, at } of messages) yield tracked(writePosition(at), present(message))
}

const serializeLog = ({ attempt, task }: LogView) => ({
  attempt: attempt?.number ?? 0,
  log_lines: attempt?.logLines ?? 0,
  log_complete: attempt ? attempt.logCompleteAt !== null : isFinished(task.status),
})

const serializeSearch = ({ view, found, texts, nextLine }: LogSearch) => ({
  ...serializeLog(view),
  found: [...found],
  texts: [...texts],
  next_line: nextLine,
})

export const taskRouter = router({
  list: call.input(Page).query(async ({ ctx: { ctx, caller }, input }) => {
    const limit = input.limit ?? REST.perPage
    const { status, types = [...TASK_TYPES], before: beforeId } = input
    const filter = { status, types, beforeId, limit: limit + 1 }
    const views = await ('project_id' in input
      ? listProjectTasks(ctx, caller, input.project_id, filter, false)
      : listEnvironmentTasks(ctx, caller, input.environment_id, filter, false))
    const page = views.slice(0, limit)
    return {
      tasks: serializeTasks(ctx, page, await readFailureLines(ctx, page)),
      next: views.length > limit ? (page.at(-1)?.task.id ?? null) : null,
    }
  }),
  get: call
    .input(One)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeWholeTask(ctx, await getTask(ctx, caller, input.task_id)),
    ),
  cancel: call
    .input(One)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeWholeTask(ctx, await cancelTask(ctx, caller, input.task_id)),
    ),
  /** Compares with the last successful deployment; null if there is none. */
  compare: call
    .input(One)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeComparison(await compareTask(ctx, caller, input.task_id)),
    ),
  /** The files that changed since then, as the repository has them; null if there is nothing to compare. */
  changes: call
    .input(One)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeChanges(await listChanges(ctx, caller, input.task_id)),
    ),
  /** Lines from..to, both included, as the stream has them; at most one range of the viewer per call. */
  log: call.input(Range).query(async ({ ctx: { ctx, caller }, input }) => {
    const { task_id: id, from, to } = input
    const { view, lines, nextLine } = await readLogLines(ctx, caller, id, { from, to })
    return { ...serializeLog(view), lines, next_line: nextLine }
  }),
  /** Numbers of the lines that contain a text, as displayed. */
  search: call.input(Search).query(async ({ ctx: { ctx, caller }, input }) => {
    const { task_id: id, query, case_sensitive: isCaseSensitive, from_line: fromLine } = input
    return serializeSearch(await searchLog(ctx, caller, id, { query, isCaseSensitive, fromLine }))
  }),
  /** Numbers of the lines that look like errors. */
  errors: call
    .input(z.strictObject({ task_id: Id, from_line: Line.optional() }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const { task_id: id, from_line: fromLine } = input
      return serializeSearch(await searchLog(ctx, caller, id, { fromLine }))
    }),
  /** A link to the raw log; `shown` displays it in the browser instead of saving it. */
  logTicket: browserCall
    .input(z.strictObject({ task_id: Id, shown: z.boolean().optional() }))
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeTicket(await giveLogTicket(ctx, caller, input.task_id, input.shown ?? false)),
    ),
  stream: watch
    .input(Stream)
    .subscription(async ({ ctx, input, signal = new AbortController().signal }) => {
      const { task_id: id, from_line: line, lastEventId } = input
      const position = lastEventId === undefined ? undefined : readPosition(lastEventId)
      if (lastEventId !== undefined && !position) {
        throw new AppError('invalid_cursor', 'Resume with the id of the last message.')
      }
      await ctx.admission.check()
      const { caller } = ctx.admission
      const task = await loadTask(ctx.ctx.db, caller, id, 'read')
      const whom = watcherOf(ctx, task.organizationId, signal)
      return counted(ctx.socket, track(streamTask(ctx.ctx, caller, id, { position, line }, whom)))
    }),
})
