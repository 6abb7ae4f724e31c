// Why the most recent failed deployment of an environment failed, and what there is to know about any one task.
import { z } from 'zod'
import { DIAGNOSTICS } from '../limits/limits.ts'
import { TASK_STATUSES, TASK_TYPES, TRIGGERS } from '../task.ts'
import { Id, Time } from './fields.ts'
import { Failure } from './task.ts'

/** Later releases add codes; a client shows the message of an unknown one. */
export const Hint = z.object({ code: z.string(), message: z.string() })
export type Hint = z.infer<typeof Hint>

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
  failure: Failure.nullable(),
  output: z.string().nullable(),
  output_first_line: z.int().nullable(),
  output_last_line: z.int().nullable(),
  output_truncated: z.boolean(),
  /** False if the server has not sent all of it yet; ask again. */
  output_complete: z.boolean(),
  hints: z.array(Hint),
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

const about = <T extends z.ZodType>(schema: T, description: string, example: unknown): T =>
  schema.meta({ description, examples: [example] }) as T

export const TaskDiagnostics = z.object({
  task_id: about(Id, 'The task.', 95),
  environment_id: about(Id, 'Its environment.', 7),
  type: about(z.enum(TASK_TYPES), 'What it does.', 'deploy'),
  status: about(z.enum(TASK_STATUSES), 'Its state.', 'failed'),
  summary: about(
    z.string(),
    'What became of it, or what it waits for.',
    'The build failed (exit code 1).',
  ),
  step: about(
    z.object({ id: z.string(), title: z.string(), phase: z.string() }).nullable(),
    'The step whose output is shown: the failed one, else the last one that wrote something.',
    { id: 'build', title: 'Build the image', phase: 'build' },
  ),
  failure: about(Failure.nullable(), 'Why it failed; null if it did not.', null),
  output: about(
    z.string().nullable(),
    'The end of that step’s output; null if there is none.',
    'ok',
  ),
  output_first_line: about(z.int().nullable(), 'Its first line in the log.', 12),
  output_last_line: about(z.int().nullable(), 'Its last line in the log.', 61),
  output_truncated: about(z.boolean(), 'The step wrote more before.', false),
  output_complete: about(
    z.boolean(),
    'False while it runs, or if the server has not sent all of it yet; ask again.',
    true,
  ),
  hints: about(z.array(Hint), 'Known causes of a failure.', []),
  since_last_success: about(
    Diagnostics.shape.since_last_success,
    'What differs from the last successful deployment before it.',
    null,
  ),
  log_url: about(z.string(), 'The whole log.', 'https://berth.example.com/api/tasks/95/log'),
  web_url: about(z.string(), 'Its page.', 'https://berth.example.com/tasks/95'),
  superseded_by: about(
    Diagnostics.shape.superseded_by,
    'The newest successful deployment after it.',
    null,
  ),
})
export type TaskDiagnostics = z.infer<typeof TaskDiagnostics>

export const DiagnosticsQuery = z.object({
  lines: z.coerce.number().int().min(1).max(DIAGNOSTICS.linesMax).optional(),
})
export type DiagnosticsQuery = z.infer<typeof DiagnosticsQuery>
