// Serializes events for the dashboard, each with the number after which a client resumes.
import { type TrackedEnvelope, tracked } from '@trpc/server'
import { z } from 'zod'
import type { Context } from '../../context.ts'
import type { Admission } from '../../notifications/admission.ts'
import type { LiveEvent } from '../../notifications/states.ts'
import { type Begun, type Reset, streamEvents } from '../../notifications/stream.ts'
import type { EventFilter } from '../../store/core/events.ts'
import type { SocketContext } from './base.ts'

/** Where a subscriber resumes: tRPC adds it on reconnect, a page may pass it at first. */
export const Resume = {
  lastEventId: z
    .string()
    .regex(/^\d{1,15}$/)
    .optional(),
}

export interface EventMessage {
  seq: number
  kind: string
  at: string
  organization_id: number
  project_id: number | null
  environment_id: number | null
  task_id: number | null
  body: object
  /** The current state; null if the event concerns none or it was deleted. */
  environment: LiveEvent['environment']
  task: LiveEvent['task']
}

export const serializeEvent = (e: LiveEvent): EventMessage => ({
  seq: e.seq,
  kind: e.kind,
  at: new Date(e.at).toISOString(),
  organization_id: e.organizationId,
  project_id: e.projectId,
  environment_id: e.environmentId,
  task_id: e.taskId,
  body: e.body,
  environment: e.environment,
  task: e.task,
})

interface Watcher {
  ctx: Context
  admission: Admission
  socket: SocketContext
}

/** What one subscription passes to the streams of notifications/. */
export const watcherOf = (
  { admission, socket }: Watcher,
  organizationId: number,
  signal: AbortSignal,
) => ({
  admit: (again: boolean) => admission.require(organizationId, again),
  drained: (until: AbortSignal) => socket.drained(until),
  signal,
})

/** Counts inside the generator, because one that never starts also never ends. */
export async function* counted<T>(
  socket: SocketContext,
  messages: AsyncGenerator<T>,
): AsyncGenerator<T, void> {
  socket.subscriptions += 1
  try {
    yield* messages
  } finally {
    socket.subscriptions -= 1
  }
}

export async function* watchEvents(
  watcher: Watcher,
  filter: EventFilter,
  lastEventId: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<TrackedEnvelope<EventMessage | Begun | Reset>, void> {
  const after = lastEventId === undefined ? undefined : Number(lastEventId)
  const whom = watcherOf(watcher, filter.organizationId, signal)
  for await (const message of streamEvents(watcher.ctx, { ...whom, filter, after })) {
    yield tracked(
      String(message.seq),
      'organizationId' in message ? serializeEvent(message) : message,
    )
  }
}
