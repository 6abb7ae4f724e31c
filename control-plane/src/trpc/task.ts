// Tasks of an environment, cancelling one, and its progress and output as they come.
import { AppError, REST, TASK_TYPES } from '@berth/shared'
import { Id } from '@berth/shared/rest'
import { type TrackedEnvelope, tracked } from '@trpc/server'
import { z } from 'zod'
import { loadTask } from '../app/access.ts'
import { readStepLines } from '../app/logs.ts'
import { cancelTask, getTask, listEnvironmentTasks, type TaskView } from '../app/tasks.ts'
import type { Context } from '../context.ts'
import type { Begun, Reset } from '../live/stream.ts'
import {
  type LogEnd,
  type LogLines,
  type LogReset,
  readPosition,
  streamTask,
  type TaskMessage,
  writePosition,
} from '../live/task-stream.ts'
import { presentTask } from '../rest/present.ts'
import { call, router, watch } from './base.ts'
import { counted, type EventMessage, presentEvent, watcherOf } from './messages.ts'

const whole = async (ctx: Context, view: TaskView) =>
  presentTask(ctx, view, { lines: await readStepLines(ctx, view) })

const Page = z.strictObject({
  environment_id: Id,
  before: Id.optional(),
  limit: z.int().min(1).max(REST.perPageMax).optional(),
})

const Stream = z.strictObject({
  task_id: Id,
  /** The first line wanted, when the page has those before it; a reconnect knows better. */
  from_line: z.int().positive().optional(),
  lastEventId: z.string().max(50).optional(),
})

type TaskStreamMessage = EventMessage | Begun | Reset | LogLines | LogReset | LogEnd

function present(message: TaskMessage): TaskStreamMessage {
  return 'organizationId' in message ? presentEvent(message) : message
}

async function* track(
  messages: ReturnType<typeof streamTask>,
): AsyncGenerator<TrackedEnvelope<TaskStreamMessage>, void> {
  for await (const { message, at } of messages) yield tracked(writePosition(at), present(message))
}

export const taskRouter = router({
  list: call.input(Page).query(async ({ ctx: { ctx, caller }, input }) => {
    const limit = input.limit ?? REST.perPage
    const filter = { types: [...TASK_TYPES], beforeId: input.before, limit: limit + 1 }
    const views = await listEnvironmentTasks(ctx, caller, input.environment_id, filter, false)
    const page = views.slice(0, limit)
    return {
      tasks: page.map((view) => presentTask(ctx, view)),
      next: views.length > limit ? (page.at(-1)?.task.id ?? null) : null,
    }
  }),
  get: call
    .input(z.strictObject({ task_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) =>
      whole(ctx, await getTask(ctx, caller, input.task_id)),
    ),
  cancel: call
    .input(z.strictObject({ task_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      whole(ctx, await cancelTask(ctx, caller, input.task_id)),
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
