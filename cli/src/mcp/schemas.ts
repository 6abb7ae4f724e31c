// Inputs and outputs of the tools, as a model sees them. Inputs are strict: unknown ones are refused, not dropped.
// Outputs are lean copies of the contract, because MCP hosts put schemas into the model's context; each is the shape of
// a success or of a refusal, so that clients that also validate errors accept them.
import { TASK_STATUSES } from '@berth/shared'
import { z } from 'zod'
import { MCP } from '../limits/client.ts'

/** Without the bounds of safe integers, which are long and useless here. */
const Whole = z.number()
/** An object whose members are described elsewhere. */
const Described = z.looseObject({})
const Text = z.string()
const Texts = z.array(Text)
const Status = z.enum(TASK_STATUSES)

const Word = z.union([z.string().min(1).max(MCP.wordChars), z.int().positive()])
type Word = z.infer<typeof Word>

/** The inputs that name the target, without those that the server is fixed to. */
export interface Where {
  project?: Word
  environment?: Word
}
export const PROJECT = Word.describe('Project: name or id')
export const ENVIRONMENT = Word.describe(
  'Environment: identifier such as staging or pr-42, or id:N. A wrong name is answered with those there are',
)

const DRY_RUN = z
  .boolean()
  .default(false)
  .describe('Change nothing; answer what would happen, with its plan_hash')
const PLAN_HASH = z
  .string()
  .max(MCP.wordChars)
  .optional()
  .describe('From a dry_run: refuse when what it showed is no longer so')

export const DiagnosticsInput = {
  max_lines: z
    .int()
    .min(1)
    .max(MCP.linesMax)
    .default(MCP.lines)
    .describe("Last lines of the failed step's output"),
}
export const DeployInput = {
  commit_sha: z
    .string()
    .regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/)
    .optional()
    .describe("Full SHA, instead of the branch's head"),
  wait: z.boolean().default(true).describe('Wait for the result'),
  timeout_seconds: z
    .int()
    .min(1)
    .max(MCP.waitMaxSeconds)
    .default(MCP.waitSeconds)
    .describe('Stop waiting then; the deployment continues'),
  dry_run: DRY_RUN,
  plan_hash: PLAN_HASH,
}
export const SetInput = {
  variables: z.record(z.string(), z.string()).describe('Key to value; all or nothing'),
  dry_run: DRY_RUN,
  plan_hash: PLAN_HASH,
}
export const UnsetInput = {
  keys: z.array(z.string()).min(1).describe('Keys to remove'),
  dry_run: DRY_RUN,
  plan_hash: PLAN_HASH,
}

/** Lists or texts were shortened to keep the answer small. */
const truncated = z.boolean().optional()

const Failure = z.object({
  code: Text,
  phase: Text.nullable(),
  step: Text.nullable(),
  step_title: Text.nullable(),
  message: Text,
  exit_code: Whole.nullable(),
  line: Whole.nullable(),
  is_platform_check: z.boolean(),
})

export const DiagnosticsOut = z.object({
  environment_id: Whole,
  status: z.enum(['failed', 'recovered', 'none']),
  task: z
    .object({
      id: Whole,
      status: Status,
      commit_sha: Text.nullable(),
      branch: Text,
      trigger: Text,
      finished_at: Text.nullable(),
      url: Text,
    })
    .nullable(),
  failure: Failure.nullable(),
  output: Text.nullable(),
  output_first_line: Whole.nullable(),
  output_last_line: Whole.nullable(),
  output_truncated: z.boolean(),
  output_complete: z.boolean(),
  hints: z.array(z.object({ code: Text, message: Text })),
  since_last_success: z
    .object({
      task_id: Whole,
      commit_sha: Text.nullable(),
      service_file_changed: z.boolean().nullable(),
      variable_keys_changed: Texts,
    })
    .nullable(),
  log_url: Text.nullable(),
  web_url: Text.nullable(),
  superseded_by: z.object({ id: Whole, status: Status }).nullable(),
  truncated,
})
export type DiagnosticsOut = z.infer<typeof DiagnosticsOut>

const LatestTask = z.object({ id: Whole, status: Status, phase: Text.nullable() })
export type LatestTask = z.infer<typeof LatestTask>

const TaskOut = z.object({
  id: Whole,
  status: Status,
  trigger: Text,
  branch: Text,
  commit_sha: Text.nullable(),
  commit_message: Text.nullable(),
  started_at: Text.nullable(),
  finished_at: Text.nullable(),
  duration_ms: Whole.nullable(),
  waiting_for: Text.nullable(),
  cancel_reason: Text.nullable(),
  superseded_by: Whole.nullable(),
  failure: Described.nullable(),
  warnings: Texts,
  phases: z.array(z.object({ name: Text, status: Text, duration_ms: Whole.nullable() })),
  url: Text,
})
export type TaskOut = z.infer<typeof TaskOut>

export const DeployPlan = z.object({
  action: z.literal('deploy_environment'),
  target: Text,
  environment_id: Whole,
  branch: Text,
  /** null: the head of the branch at the start. */
  commit_sha: Text.nullable(),
  previous_commit_sha: Text.nullable(),
  variable_keys_changed: Texts,
  services: Texts,
  server: Text,
  protected: z.boolean(),
  refused_because: Text.nullable(),
})
export type DeployPlan = z.infer<typeof DeployPlan>

export const VariablesPlan = z.object({
  action: z.enum(['set_variables', 'unset_variables']),
  target: Text,
  environment_id: Whole,
  added: Texts,
  replaced: Texts,
  removed: Texts,
  missing: Texts,
  protected: z.boolean(),
  refused_because: Text.nullable(),
})
export type VariablesPlan = z.infer<typeof VariablesPlan>

const Refusal = z.object({
  code: Text,
  message: Text,
  hint: Text.optional(),
  task_id: Whole.optional(),
  request_id: Text.optional(),
  problems: z.array(z.object({ field: Text, code: Text, message: Text })).optional(),
  truncated,
})
/** With plan_outdated: what changed, and the current plan. */
const RefusedChange = Refusal.extend({
  changed: Texts.optional(),
  plan: Described.optional(),
  plan_hash: Text.optional(),
})
export type Refused = z.infer<typeof RefusedChange>

const Planned = z.object({ plan: VariablesPlan, plan_hash: Text, truncated })
const Patched = z.object({
  set: Texts,
  unset: Texts,
  unchanged: Texts,
  missing: Texts,
  keys: Texts,
  variables_changed: z.boolean(),
  hint: Text.nullable(),
  truncated,
})

export const DiagnosticsResult = z.union([
  DiagnosticsOut.extend({ latest_task: LatestTask.nullable() }),
  Refusal,
])
export const VariablesResult = z.union([
  z.object({
    environment_id: Whole,
    keys: Texts,
    system_keys: Texts,
    variables_changed: z.boolean(),
    truncated,
  }),
  Refusal,
])
export const DeployResult = z.union([
  z.object({
    outcome: z.enum(['succeeded', 'failed', 'canceled', 'running', 'planned']),
    task: TaskOut.nullable(),
    diagnostics: Described.optional().describe('As of get_deploy_diagnostics'),
    plan: DeployPlan.optional(),
    plan_hash: Text.optional(),
    truncated,
  }),
  RefusedChange,
])
export const PatchResult = z.union([Patched, Planned, RefusedChange])
