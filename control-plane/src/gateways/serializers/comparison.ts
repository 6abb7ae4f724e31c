// Serializes comparisons of deployments and the versions that can be deployed, for the dashboard.
import type { Changes, Comparison } from '../../app/deployments/comparison.ts'
import type { CommitChoices, Version } from '../../app/deployments/versions.ts'
import { serializeSince } from './diagnostics.ts'
import { time, timeOrNull } from './fields.ts'

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
