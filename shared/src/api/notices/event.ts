// The public stream of events: what integrations read instead of polling.
import { z } from 'zod'
import { PUBLIC_EVENTS } from '../../limits/notices.ts'
import { TASK_STATUSES } from '../../task.ts'
import { Id, IdParams, Time } from '../fields.ts'

/** Every type of event with its meaning. Other types of the bus are not public. */
export const EVENT_TYPES = {
  'task.queued': 'A task was asked for: a deployment, an action, a backup, a removal …',
  'task.started': 'Its server began to perform it.',
  'task.commit': 'The commit that it deploys is known.',
  'task.step': 'A step of its plan began or ended.',
  'task.live': 'What it deployed serves requests.',
  'task.artifacts': 'It kept files.',
  'task.updated': 'Something else about it changed, for example what it waits for.',
  'task.succeeded': 'It ended successfully.',
  'task.failed': 'It failed; `GET /api/tasks/{id}/diagnostics` says why.',
  'task.canceled': 'It was canceled, or a newer one replaced it.',
  'task.late_outcome': 'A task that was given up reported its end after all.',
  'environment.created': 'There is a new environment.',
  'environment.updated': 'Its settings, variables or condition changed.',
  'environment.removed': 'It was removed.',
  'environment.backup': 'One of its backups changed.',
  'environment.schedule': 'One of its scheduled actions ran or was skipped.',
  'project.created': 'There is a new project.',
  'project.updated': 'Its settings changed.',
  'project.removed': 'It was deleted.',
  'pull_request.updated': 'A pull request changed, or what it waits for.',
  'delivery.created': 'A webhook of a forge was decided.',
  'server.created': 'There is a new server, or one was shared with the organization.',
  'server.updated': 'It connected, disconnected, was changed, or has a problem.',
  'server.removed': 'It was removed, or is no longer shared.',
} as const
export type EventType = keyof typeof EVENT_TYPES
const EVENT_TYPE_NAMES = Object.keys(EVENT_TYPES) as [EventType, ...EventType[]]

export const PublicEvent = z.object({
  id: z.int(),
  type: z.enum(EVENT_TYPE_NAMES),
  at: Time,
  organization_id: Id,
  project_id: Id.nullable(),
  environment_id: Id.nullable(),
  task_id: Id.nullable(),
  data: z.record(z.string(), z.unknown()),
  environment: z.object({ id: Id, status: z.string(), locked: z.boolean() }).nullable(),
  task: z.object({ id: Id, status: z.enum(TASK_STATUSES) }).nullable(),
})
export type PublicEvent = z.infer<typeof PublicEvent>

const number = z
  .string()
  .regex(/^\d{1,15}$/, 'must be the id of an event')
  .transform(Number)

export const EventsQuery = z.object({
  after: number.optional(),
  project_id: IdParams.shape.id.optional(),
  environment_id: IdParams.shape.id.optional(),
  task_id: IdParams.shape.id.optional(),
  limit: z.coerce.number().int().min(1).max(PUBLIC_EVENTS.pageMost).optional(),
})
export type EventsQuery = z.infer<typeof EventsQuery>
