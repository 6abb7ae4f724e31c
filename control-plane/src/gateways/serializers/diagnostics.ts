// Serializes diagnostics to the documented fields, and for the dashboard comparisons of deployments and the versions that
// can be deployed.
import type { Diagnostics, TaskDiagnostics } from '@berth/shared/api'
import type { CommitChoices, Version } from '../../app/deployments/commits.ts'
import type { Changes, Comparison } from '../../app/deployments/comparison.ts'
import type {
  DiagnosticsView,
  FailedDeployment,
  TaskDiagnosticsView,
} from '../../app/deployments/diagnostics.ts'
import type { Context } from '../../context.ts'
import type { SinceLastSuccess } from '../../domain/deployments/diagnostics.ts'
import { time, timeOrNull } from './fields.ts'

const NONE = {
  task: null,
  failure: null,
  output: null,
  output_first_line: null,
  output_last_line: null,
  output_truncated: false,
  output_complete: true,
  hints: [],
  since_last_success: null,
  log_url: null,
  web_url: null,
  superseded_by: null,
} satisfies Partial<Diagnostics>

export const serializeDiagnostics = (ctx: Context, view: DiagnosticsView): Diagnostics => ({
  environment_id: view.environmentId,
  status: view.status,
  ...(view.failed ? serializeFailed(ctx, view.failed) : NONE),
})

export const serializeSince = (since: SinceLastSuccess | null): Diagnostics['since_last_success'] =>
  since && {
    task_id: since.taskId,
    commit_sha: since.commitSha,
    service_file_changed: since.serviceFileChanged,
    variable_keys_changed: since.variableKeysChanged,
  }

function serializeFailed(ctx: Context, failed: FailedDeployment) {
  const { task, failure, since, supersededBy } = failed
  const url = `${ctx.baseUrl}/tasks/${task.id}`
  return {
    task: {
      id: task.id,
      status: task.status,
      commit_sha: task.commitSha,
      branch: task.branch,
      trigger: task.triggerBy,
      finished_at: timeOrNull(task.finishedAt),
      url,
    },
    failure,
    output: failed.output,
    output_first_line: failed.firstLine,
    output_last_line: failed.lastLine,
    output_truncated: failed.isTruncated,
    output_complete: failed.isComplete,
    hints: failed.hints,
    since_last_success: serializeSince(since),
    log_url: `${ctx.baseUrl}/api/tasks/${task.id}/log`,
    web_url: failure.line === null ? url : `${url}#L${failure.line}`,
    superseded_by: supersededBy ? { id: supersededBy.id, status: supersededBy.status } : null,
  }
}

export function serializeTaskDiagnostics(
  ctx: Context,
  { view, step, ...d }: TaskDiagnosticsView,
): TaskDiagnostics {
  const { task } = view
  const url = `${ctx.baseUrl}/tasks/${task.id}`
  return {
    task_id: task.id,
    environment_id: task.environmentId,
    type: task.type,
    status: task.status,
    summary: d.summary,
    step: step ? { id: step.stepId, title: step.title, phase: step.phase } : null,
    failure: d.failure,
    output: d.output,
    output_first_line: d.firstLine,
    output_last_line: d.lastLine,
    output_truncated: d.isTruncated,
    output_complete: d.isComplete,
    hints: d.hints,
    since_last_success: serializeSince(d.since),
    log_url: `${ctx.baseUrl}/api/tasks/${task.id}/log`,
    web_url: d.lastLine === null ? url : `${url}#L${d.lastLine}`,
    superseded_by: d.supersededBy ? { id: d.supersededBy.id, status: d.supersededBy.status } : null,
  }
}

export function serializeComparison(compared: Comparison | null) {
  const since = serializeSince(compared?.since ?? null)
  if (!compared || !since) return null
  const { success } = compared
  const began = success.startedAt ?? success.createdAt
  return {
    ...since,
    commit_message: success.commitMessage,
    commit_author: success.commitAuthor,
    finished_at: timeOrNull(success.finishedAt),
    duration_ms: success.finishedAt === null ? null : success.finishedAt - began,
    images: compared.images,
    phases: compared.phases.map(({ name, title, beforeMs, afterMs }) => {
      return { name, title, before_ms: beforeMs, after_ms: afterMs }
    }),
  }
}

export const serializeChanges = (changes: Changes | null) =>
  changes && {
    base: changes.base,
    head: changes.head,
    files: changes.kind === 'files' ? changes.files : [],
    is_truncated: changes.kind === 'files' && changes.isTruncated,
    /** Why the repository could not be asked; null: it was. */
    problem: changes.kind === 'files' ? null : changes.reason,
  }

export const serializeChoices = ({
  branches,
  areAllBranches,
  commits,
  problem,
}: CommitChoices) => ({
  branches,
  are_all_branches: areAllBranches,
  commits: commits.map(({ sha, author, at, subject }) => ({ sha, author, at: time(at), subject })),
  problem,
})

export const serializeVersion = ({ task, isKept }: Version) => ({
  task_id: task.id,
  commit_sha: task.commitSha ?? '',
  commit_message: task.commitMessage,
  commit_author: task.commitAuthor,
  branch: task.branch,
  triggered_by: task.triggeredBy,
  trigger: task.triggerBy,
  finished_at: timeOrNull(task.finishedAt),
  is_kept: isKept,
})
