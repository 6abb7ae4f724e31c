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

const about = <T extends z.ZodType>(schema: T, description: string, example: unknown): T =>
  schema.meta({ description, examples: [example] }) as T

export const PublicEvent = z.object({
  id: about(z.int(), 'Its number; higher is later. Continue after it with `after`.', 8231),
  type: about(z.enum(EVENT_TYPE_NAMES), 'What happened.', 'task.succeeded'),
  at: about(Time, 'When it was committed.', '2026-11-17T09:12:33Z'),
  organization_id: about(Id, 'The organization.', 1),
  project_id: about(Id.nullable(), 'The project, if it is about one.', 3),
  environment_id: about(Id.nullable(), 'The environment, if it is about one.', 7),
  task_id: about(Id.nullable(), 'The task, if it is about one.', 95),
  data: about(z.record(z.string(), z.unknown()), 'A few words and numbers; depends on the type.', {
    trigger: 'webhook',
  }),
  environment: about(
    z.object({ id: Id, status: z.string(), locked: z.boolean() }).nullable(),
    'The environment as it is now, which may be later than the event.',
    { id: 7, status: 'running', locked: false },
  ),
  task: about(
    z.object({ id: Id, status: z.enum(TASK_STATUSES) }).nullable(),
    'The task as it is now, which may be later than the event.',
    { id: 95, status: 'succeeded' },
  ),
})
export type PublicEvent = z.infer<typeof PublicEvent>

const number = z
  .string()
  .regex(/^\d{1,15}$/, 'must be the id of an event')
  .transform(Number)

export const EventsQuery = z.object({
  after: about(
    number.optional(),
    'Continue after the event with this id. The header Last-Event-ID wins. Default: only new events; for a page: the newest ones.',
    '8231',
  ),
  project_id: about(IdParams.shape.id.optional(), 'Only events of this project.', '3'),
  environment_id: about(IdParams.shape.id.optional(), 'Only events of this environment.', '7'),
  task_id: about(IdParams.shape.id.optional(), 'Only events of this task.', '95'),
  limit: about(
    z.coerce.number().int().min(1).max(PUBLIC_EVENTS.pageMost).optional(),
    'Events of one page; without meaning for a stream.',
    '100',
  ),
})
export type EventsQuery = z.infer<typeof EventsQuery>
