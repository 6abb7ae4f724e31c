// Why the most recent failed deployment of an environment failed, and what there is to know about any one task.
import { z } from 'zod'
import { DIAGNOSTICS } from '../limits/limits.ts'
import { TASK_STATUSES, TASK_TYPES, TRIGGERS } from '../task.ts'
import { Id, Time } from './fields.ts'
import { Failure } from './task.ts'

/** Later releases add codes; a client shows the message of an unknown one. */
export const Hint = z.object({ code: z.string(), message: z.string() })
export type Hint = z.infer<typeof Hint>

/** What a step wrote, and what it means. */
const OUTPUT = {
  failure: Failure.nullable(),
  output: z.string().nullable(),
  output_first_line: z.int().nullable(),
  output_last_line: z.int().nullable(),
  output_truncated: z.boolean(),
  /** False if the server has not sent all of it yet; ask again. */
  output_complete: z.boolean(),
  hints: z.array(Hint),
}

export const Diagnostics = z.object({
  environment_id: Id,
  status: z.enum(['failed', 'recovered', 'none']),
  task: z
    .object({
      id: Id,
      status: z.enum(TASK_STATUSES),
      commit_sha: z.string().nullable(),
      branch: z.string(),
      trigger: z.enum(TRIGGERS),
      finished_at: Time.nullable(),
      url: z.string(),
    })
    .nullable(),
  ...OUTPUT,
  since_last_success: z
    .object({
      task_id: Id,
      commit_sha: z.string().nullable(),
      service_file_changed: z.boolean().nullable(),
      variable_keys_changed: z.array(z.string()),
    })
    .nullable(),
  log_url: z.string().nullable(),
  web_url: z.string().nullable(),
  superseded_by: z.object({ id: Id, status: z.enum(TASK_STATUSES) }).nullable(),
})
export type Diagnostics = z.infer<typeof Diagnostics>

export const TaskDiagnostics = z.object({
  task_id: Id,
  environment_id: Id,
  type: z.enum(TASK_TYPES),
  status: z.enum(TASK_STATUSES),
  summary: z.string(),
  step: z.object({ id: z.string(), title: z.string(), phase: z.string() }).nullable(),
  ...OUTPUT,
  since_last_success: Diagnostics.shape.since_last_success,
  log_url: z.string(),
  web_url: z.string(),
  superseded_by: Diagnostics.shape.superseded_by,
})
export type TaskDiagnostics = z.infer<typeof TaskDiagnostics>

export const DiagnosticsQuery = z.object({
  lines: z.coerce.number().int().min(1).max(DIAGNOSTICS.linesMax).optional(),
})
export type DiagnosticsQuery = z.infer<typeof DiagnosticsQuery>
