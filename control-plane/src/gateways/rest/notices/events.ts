// The public events: a stream (Server-Sent Events) that continues after any recent id, and the same as pages. Every
// reader sees only what its token may read, also after the token, the login or the membership ends.
import { Readable } from 'node:stream'
import { AppError, PUBLIC_EVENTS } from '@berth/shared'
import { EVENT_TYPES, EventsQuery, type EventType, PublicEvent } from '@berth/shared/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import {
  loadEnvironment,
  loadProject,
  loadTask,
  organizationForCreation,
} from '../../../app/core/access.ts'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { LIVE } from '../../../limits/browser.ts'
import { EVENT_STREAMS } from '../../../limits/notices.ts'
import type { Admission } from '../../../notifications/admission.ts'
import { describeEvents, type LiveEvent } from '../../../notifications/states.ts'
import {
  type Begun,
  isOutOfReach,
  type Reset,
  streamEvents,
} from '../../../notifications/stream.ts'
import {
  type EventFilter,
  type EventRow,
  listEventsBetween,
  listNewestEvents,
} from '../../../store/core/events.ts'
import { time } from '../../serializers/fields.ts'
import { type Api, callerOf } from '../http/api.ts'
import { admissionOf, OpenStreams, onceClosed } from '../http/streams.ts'

/** The names of the bus that the public ones differ from. */
const RENAMED: Record<string, EventType> = { 'task.running': 'task.started' }

/** Undefined for events that are not public. */
function typeOf({ kind }: EventRow): EventType | undefined {
  const type = RENAMED[kind] ?? kind
  return type in EVENT_TYPES ? (type as EventType) : undefined
}

const serializePublicEvent = (event: LiveEvent): PublicEvent | undefined => {
  const type = typeOf(event)
  return (
    type && {
      id: event.seq,
      type,
      at: time(event.at),
      organization_id: event.organizationId,
      project_id: event.projectId,
      environment_id: event.environmentId,
      task_id: event.taskId,
      data: event.body as Record<string, unknown>,
      environment: event.environment,
      task: event.task && { id: event.task.id, status: event.task.status },
    }
  )
}

export function eventRoutes(api: Api, ctx: Context): void {
  const streams = new OpenStreams(EVENT_STREAMS, 'event streams')
  api.get(
    '/api/events',
    {
      config: {
        needs: 'read',
        errors: ['organization_required', 'events_gone'],
        headers: {
          'Berth-Last-Event-Id': 'Of a page: continue after this id, also if the page is empty.',
        },
      },
      schema: {
        summary: 'What happens, as a stream of Server-Sent Events or, for JSON, as a page',
        querystring: EventsQuery,
        response: {
          200: {
            content: {
              'application/json': { schema: z.array(PublicEvent) },
              'text/event-stream': { schema: z.string() },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const filter = await filterOf(ctx, caller, request.query)
      const after = afterOf(request)
      const wantsStream = String(request.headers.accept ?? '').includes('text/event-stream')
      const most = wantsStream ? LIVE.backfillEvents : Number.POSITIVE_INFINITY
      if (after !== undefined && (await isOutOfReach(ctx, after, most))) throw gone(ctx)
      return wantsStream
        ? sendStream(ctx, request, reply, streams, filter, after)
        : sendPage(ctx, reply, filter, after, request.query.limit ?? PUBLIC_EVENTS.page)
    },
  )
}

const gone = (ctx: Context): AppError =>
  new AppError(
    'events_gone',
    'The events after this id are no longer there. Read the present state, then continue without an id.',
    { newest: ctx.feed.head },
  )

/** A browser's EventSource and most libraries repeat the last id in the header when they connect again. */
function afterOf(request: FastifyRequest): number | undefined {
  const header = request.headers['last-event-id']
  if (header === undefined) return (request.query as EventsQuery).after
  if (typeof header === 'string' && /^\d{1,15}$/.test(header)) return Number(header)
  throw new AppError('invalid_header', 'Last-Event-ID must be the id of an event.')
}

/** The organization follows from what is asked for, else from the header or the only membership. */
async function filterOf(ctx: Context, caller: Caller, query: EventsQuery): Promise<EventFilter> {
  const { project_id: projectId, environment_id: environmentId, task_id: taskId } = query
  const owners = [
    taskId === undefined ? undefined : await loadTask(ctx.db, caller, taskId, 'read'),
    environmentId === undefined
      ? undefined
      : await loadEnvironment(ctx.db, caller, environmentId, 'read'),
    projectId === undefined ? undefined : await loadProject(ctx.db, caller, projectId, 'read'),
  ]
  const owner = owners.find((one) => one !== undefined)
  const organizationId = owner?.organizationId ?? organizationForCreation(caller, 'read')
  return { organizationId, projectId, environmentId, taskId }
}

async function sendPage(
  ctx: Context,
  reply: FastifyReply,
  filter: EventFilter,
  after: number | undefined,
  limit: number,
): Promise<PublicEvent[]> {
  const { head } = ctx.feed
  const rows =
    after === undefined
      ? await listNewestEvents(ctx.db, filter, head, limit)
      : await listEventsBetween(ctx.db, filter, after, head, limit)
  const isFull = after !== undefined && rows.length === limit
  reply.header(
    'berth-last-event-id',
    isFull ? (rows.at(-1)?.seq ?? head) : Math.max(head, after ?? 0),
  )
  const events = await describeEvents(ctx.db, rows)
  return events.flatMap((event) => serializePublicEvent(event) ?? [])
}

function sendStream(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  streams: OpenStreams,
  filter: EventFilter,
  after: number | undefined,
): FastifyReply {
  const release = streams.admit(callerOf(request).userId)
  const over = new AbortController()
  onceClosed(reply.raw, () => {
    over.abort()
    release()
  })
  reply.type('text/event-stream; charset=utf-8')
  reply.header('cache-control', 'no-store')
  reply.header('x-accel-buffering', 'no') // nginx would hold events back
  const admission = admissionOf(ctx, request)
  return reply.send(Readable.from(writeEvents(ctx, filter, after, admission, over.signal)))
}

async function* writeEvents(
  ctx: Context,
  filter: EventFilter,
  after: number | undefined,
  admission: Admission,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const events = streamEvents(ctx, {
    filter,
    after,
    admit: (again) => admission.require(filter.organizationId, again),
    drained: () => Promise.resolve(), // this generator runs only when the reader takes more
    signal,
  })
  const take = () => {
    const next = events.next()
    next.catch(() => {}) // it is awaited later, when the reader took what is before it
    return next
  }
  try {
    let next = take()
    for (;;) {
      const first = await orHeartbeat(next)
      if (first === 'heartbeat') {
        yield ': still here\n\n'
        continue
      }
      // a reader that connects again with its id learns that the events after it are gone
      if (first.done || first.value.kind === 'reset') return
      yield writeMessage(first.value)
      next = take()
    }
  } finally {
    await events.return(undefined).catch(() => {})
  }
}

/** A stream that begins or skips what is not public still tells its reader where to continue. */
function writeMessage(message: LiveEvent | Begun | Reset): string {
  const event = 'organizationId' in message ? serializePublicEvent(message) : undefined
  if (!event) return `id: ${message.seq}\n\n`
  return `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

async function orHeartbeat<T>(next: Promise<T>): Promise<T | 'heartbeat'> {
  let timer: NodeJS.Timeout | undefined
  const beat = new Promise<'heartbeat'>((resolve) => {
    timer = setTimeout(() => resolve('heartbeat'), EVENT_STREAMS.heartbeatMs)
  })
  try {
    return await Promise.race([next, beat])
  } finally {
    clearTimeout(timer)
  }
}
