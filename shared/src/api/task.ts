// Tasks: one deployment, removal or action of an environment, with its phases and steps.
import { z } from 'zod'
import { SERVICE_LOGS } from '../limits/service-logs.ts'
import { RECIPES, STEP_STATUSES, TASK_STATUSES, TASK_TYPES, TRIGGERS } from '../task.ts'
import { Id, Paging, Person, Time } from './fields.ts'

export const Step = z.object({
  name: z.string(),
  title: z.string(),
  status: z.enum(STEP_STATUSES),
  message: z.string().nullable(),
  started_at: Time.nullable(),
  duration_ms: z.int().nullable(),
  first_line: z.int().nullable(),
  last_line: z.int().nullable(),
  exit_code: z.int().nullable(),
})
export type Step = z.infer<typeof Step>

export const Phase = z.object({
  name: z.string(),
  title: z.string(),
  status: z.enum(STEP_STATUSES),
  started_at: Time.nullable(),
  duration_ms: z.int().nullable(),
  steps: z.array(Step),
})
export type Phase = z.infer<typeof Phase>

export const Failure = z.object({
  code: z.string(),
  phase: z.string().nullable(),
  step: z.string().nullable(),
  step_title: z.string().nullable(),
  message: z.string(),
  exit_code: z.int().nullable(),
  line: z.int().nullable(),
  is_platform_check: z.boolean(),
})
export type Failure = z.infer<typeof Failure>

const WaitingFor = z.object({
  code: z.enum(['server', 'environment', 'dispatch', 'build_slot']),
  message: z.string(),
  since: Time,
  deadline: Time.nullable(),
  task_id: Id.nullable(),
  position: z.int().nullable(),
})

export const Task = z.object({
  id: Id,
  environment_id: Id,
  project_id: Id,
  type: z.enum(TASK_TYPES),
  reset: z.boolean(),
  status: z.enum(TASK_STATUSES),
  trigger: z.enum(TRIGGERS),
  triggered_by: Person,
  delivery_id: Id.nullable(),
  message: z.string().nullable(),
  branch: z.string(),
  commit_sha: z.string().nullable(),
  commit_message: z.string().nullable(),
  commit_author: z.string().nullable().default(null),
  recipe: z.enum(RECIPES),
  action: z.string().nullable(),
  /** The service that a restart, stop or start is about; null: all of them. */
  service: z.string().nullable().default(null),
  waiting_for: WaitingFor.nullable(),
  cancel_requested_at: Time.nullable(),
  cancel_reason: z.enum(['user', 'superseded', 'environment_removed']).nullable(),
  /** The user or the event that canceled it, by name. */
  canceled_by: z.string().nullable().default(null),
  superseded_by: Id.nullable(),
  failure: Failure.nullable(),
  warnings: z.array(
    z.object({ code: z.string(), message: z.string(), step: z.string().nullable() }),
  ),
  unreachable_since: Time.nullable(),
  late_outcome: z.string().nullable(),
  created_at: Time,
  started_at: Time.nullable(),
  live_at: Time.nullable(),
  finished_at: Time.nullable(),
  duration_ms: z.int().nullable(),
  url: z.string(),
  log_url: z.string(),
  log_lines: z.int(),
  log_complete: z.boolean(),
  /** Absent in lists unless requested with ?include=phases. */
  phases: z.array(Phase).optional(),
})
export type Task = z.infer<typeof Task>

export const TaskQuery = Paging.extend({
  status: z.union([z.enum(TASK_STATUSES), z.array(z.enum(TASK_STATUSES))]).optional(),
  type: z.enum([...TASK_TYPES, 'all']).optional(),
  trigger: z.enum(TRIGGERS).optional(),
  since: z.iso.datetime({ offset: true }).optional(),
  until: z.iso.datetime({ offset: true }).optional(),
  include: z.enum(['phases']).optional(),
})
export type TaskQuery = z.infer<typeof TaskQuery>

export const LogQuery = z.object({
  from_line: z.coerce.number().int().min(1).optional(),
  lines: z.coerce.number().int().min(1).max(1_000_000).optional(),
  ansi: z.enum(['strip', 'keep']).optional(),
  phase: z.string().max(100).optional(),
  step: z.string().max(100).optional(),
  follow: z.enum(['true', 'false']).optional(),
})
export type LogQuery = z.infer<typeof LogQuery>

const ServiceName = z.string().min(1).max(64)

/** Which output of services; every filter is optional. */
export const ServiceLogQuery = z.object({
  service: z.union([ServiceName, z.array(ServiceName).max(50)]).optional(),
  tail: z.coerce.number().int().min(1).max(SERVICE_LOGS.tailLines).optional(),
  since: z.iso.datetime({ offset: true }).optional(),
  until: z.iso.datetime({ offset: true }).optional(),
  follow: z.enum(['true', 'false']).optional(),
})
export type ServiceLogQuery = z.infer<typeof ServiceLogQuery>

/** One line that a service wrote, or the days of the time span that are no longer stored. */
export const ServiceLogRecord = z.union([
  z.object({
    t: z.string(),
    s: z.enum(['out', 'err']),
    service: z.string(),
    task: z.int(),
    text: z.string(),
  }),
  z.object({
    kind: z.literal('gone'),
    service: z.string(),
    days: z.string(),
  }),
])

/** One line of a log as application/x-ndjson. */
export const LogLine = z.object({
  n: z.int(),
  t: z.string(),
  s: z.enum(['out', 'err', 'pty', 'system', 'gap']),
  phase: z.string().nullable(),
  step: z.string().nullable(),
  text: z.string(),
})
export type LogLine = z.infer<typeof LogLine>
