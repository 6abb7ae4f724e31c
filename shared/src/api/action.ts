// Actions of an environment: commands of its `.service.yml` that users or their schedule start, and the files that they
// leave.
import { z } from 'zod'
import { ARTIFACT_BATCH } from '../limits/limits.ts'
import { TASK_STATUSES } from '../task.ts'
import { Id, IdParams, Time } from './fields.ts'

export const SCHEDULED_OUTCOMES = ['started', 'skipped', 'missed'] as const

/** One run of a schedule, or several in a row that did not start for the same reason. */
export const ScheduledRun = z.object({
  outcome: z.enum(SCHEDULED_OUTCOMES),
  /** Why it did not start. */
  reason: z.string().nullable(),
  due_at: Time,
  /** The last one of several; else the same as `due_at`. */
  last_due_at: Time,
  runs: z.int(),
  task_id: Id.nullable(),
  task_status: z.enum(TASK_STATUSES).nullable(),
})
export type ScheduledRun = z.infer<typeof ScheduledRun>

const ActionSchedule = z.object({
  /** Minute, hour, day of the month, month, day of the week. */
  cron: z.string(),
  timezone: z.string(),
  /** Null while it is paused. */
  next_run_at: Time.nullable(),
  paused_reason: z.string().nullable(),
  last_run: ScheduledRun.nullable(),
})

export const Action = z.object({
  name: z.string(),
  title: z.string(),
  description: z.string().nullable(),
  /** docker: the service whose container runs it. */
  service: z.string().nullable(),
  /** The question to ask first; the action is then started with `confirm: true`. */
  confirm: z.string().nullable(),
  timeout_seconds: z.int(),
  artifact_paths: z.array(z.string()),
  enabled: z.boolean(),
  disabled_reason: z.string().nullable(),
  /** Null: only users start it, or the control plane is an earlier version. */
  schedule: ActionSchedule.nullable().default(null),
  synced_at: Time,
})
export type Action = z.infer<typeof Action>

export const ActionParams = IdParams.extend({ name: z.string().max(64) })

export const ActionStart = z.strictObject({
  confirm: z.boolean().optional(),
  message: z.string().trim().max(500).nullable().optional(),
})
export type ActionStart = z.infer<typeof ActionStart>

/** A file that an action left on its server. */
export const Artifact = z.object({
  id: Id,
  /** Its name on the server; the SSH command asks for it. */
  file_id: z.uuid(),
  task_id: Id,
  /** Relative to the action's folder. */
  path: z.string(),
  name: z.string(),
  size_bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  collected_at: Time,
  /** From then on the link answers `artifact_expired`. */
  expires_at: Time,
  url: z.url(),
})
export type Artifact = z.infer<typeof Artifact>

/** `ids=3301,3302`: files of one task, in the wanted order. */
export const ArtifactBatchQuery = z.object({
  ids: z
    .string()
    .max(ARTIFACT_BATCH.queryChars)
    .regex(/^[1-9]\d*(?:,[1-9]\d*)*$/)
    .transform((text) => text.split(',').map(Number))
    .refine((ids) => ids.every(Number.isSafeInteger) && new Set(ids).size === ids.length),
})
