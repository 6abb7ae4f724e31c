// Compares a deployment with the last successful one before it: commit, files, variables by key, images, durations.
// Read-only. The files come from the repository, so they are a request of their own.
import { LOOKS } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  comparePhases,
  type ImageChange,
  imageChanges,
  type PhaseTimes,
  readImages,
} from '../../domain/deployments/comparison.ts'
import type { SinceLastSuccess } from '../../domain/deployments/diagnostics.ts'
import type { ChangedFile } from '../../forges/git-messages.ts'
import { listNewestAttempts, listSteps } from '../../store/deployments/attempts.ts'
import { findNewestDeployment } from '../../store/deployments/task-history.ts'
import { findTask, type Task } from '../../store/deployments/tasks.ts'
import { findProject } from '../../store/projects/projects.ts'
import { loadTask } from '../core/access.ts'
import { compareCommits } from '../forges/repository.ts'
import { compareWithSuccess } from './diagnostics.ts'

export interface Comparison {
  since: SinceLastSuccess
  success: Task
  /** Null if one of the two reported none. */
  images: ImageChange[] | null
  phases: PhaseTimes[]
}

/** Null if no deployment of the environment succeeded before it, or if it is no deployment. */
export async function compareTask(
  ctx: Context,
  caller: Caller,
  taskId: number,
): Promise<Comparison | null> {
  const task = await loadTask(ctx.db, caller, taskId, 'read')
  if (task.type !== 'deploy') return null
  const attempt = (await listNewestAttempts(ctx.db, [task.id])).get(task.id)
  const since = await compareWithSuccess(ctx, task, attempt)
  const success = since && (await findTask(ctx.db, since.taskId))
  if (!since || !success) return null
  const before = (await listNewestAttempts(ctx.db, [success.id])).get(success.id)
  const steps = await listSteps(
    ctx.db,
    [attempt?.id, before?.id].flatMap((id) => id ?? []),
  )
  return {
    since,
    success,
    images: imageChanges(readImages(success.images), readImages(task.images)),
    phases: comparePhases(
      steps.filter((s) => s.attemptId === before?.id),
      steps.filter((s) => s.attemptId === attempt?.id),
    ),
  }
}

export type Changes =
  | { kind: 'files'; base: string; head: string; files: ChangedFile[]; isTruncated: boolean }
  | { kind: 'unreadable'; base: string; head: string; reason: string }

/** Of one installation; a map remembers the order of insertion, so the oldest goes first. */
const remembered = new WeakMap<Context['outbound'], Map<string, Changes>>()

function remember(ctx: Context, key: string, changes: Changes): void {
  const known = remembered.get(ctx.outbound) ?? new Map<string, Changes>()
  remembered.set(ctx.outbound, known)
  known.set(key, changes)
  const [oldest] = known.keys()
  if (known.size > LOOKS.differences && oldest !== undefined) known.delete(oldest)
}

/** The files that changed since the last success; null if there is nothing to compare. Uses the network. */
export async function listChanges(
  ctx: Context,
  caller: Caller,
  taskId: number,
): Promise<Changes | null> {
  const task = await loadTask(ctx.db, caller, taskId, 'read')
  if (task.type !== 'deploy') return null
  const beforeId = task.id
  const success = await findNewestDeployment(ctx.db, task.environmentId, 'succeeded', { beforeId })
  const [base, head] = [success?.commitSha ?? null, task.commitSha]
  if (base === null || head === null || base === head) return null
  const key = `${task.projectId} ${base} ${head}`
  const known = remembered.get(ctx.outbound)?.get(key)
  if (known) return known
  await ctx.quotas.narrow.searches.take(`user ${caller.userId}`)
  const project = await findProject(ctx.db, task.projectId)
  if (!project) return null
  const compared = await compareCommits(ctx, project, base, head)
  if (!compared.ok) return { kind: 'unreadable', base, head, reason: compared.message }
  const { files, isTruncated } = compared
  const changes: Changes = { kind: 'files', base, head, files, isTruncated }
  remember(ctx, key, changes)
  return changes
}
