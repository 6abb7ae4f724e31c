// Pull requests: their records, the effects of events, and the approval of a fork's commit. The record follows the
// forge; only decisions create, redeploy or remove the environment. No payload can approve a commit.
import { AppError, type Trigger } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import type { PullRequestEvent } from '../../domain/forges/payloads/event.ts'
import { decidePullRequest, reportPullRequest } from '../../domain/forges/pull-request.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import {
  type Approval,
  findPullRequest,
  insertApproval,
  isApproved,
  listApprovals,
  listOpenPullRequests,
  listWaiting,
  type PullRequest,
  updatePullRequest,
} from '../../store/forges/pull-requests.ts'
import { listUserNames } from '../../store/people/people.ts'
import { findProject, lockProject, type Project } from '../../store/projects/projects.ts'
import { asReader, loadProject } from '../core/access.ts'
import { auditCaller, byCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { getTask, type TaskView } from '../deployments/tasks.ts'
import { beginRemoval } from '../environments/removal.ts'
import { readAdmission } from './event-facts.ts'
import { type EventOrigin, type EventResult, emitPullRequest, perform } from './intents.ts'
import { admit } from './waiting-list.ts'

/** Applies one event about one pull request. The caller has locked the project. */
export async function applyPullRequest(
  ctx: Context,
  c: Change,
  project: Project,
  event: PullRequestEvent,
  o: EventOrigin,
): Promise<EventResult> {
  const { number, message } = event.pull_request
  const record = await findPullRequest(c.db, project.id, number)
  const reported = { ...reportPullRequest(event, record, c.now), id: record?.id }
  const read = await readAdmission(ctx, c, project, reported, { origin: o.origin, message })
  const { environment, facts: admission } = read
  const decision = decidePullRequest({ event, now: c.now, record, admission })
  const result = await perform(ctx, c, { project, pull: record, environment }, decision, o)
  if (!environment || !decision.intents.some(({ kind }) => kind === 'remove')) return result
  const taskId = await beginRemoval(ctx, c, environment, o.by, { trigger: o.trigger })
  return { ...result, taskId }
}

/**
 * Applies a push that arrived before the pull request's own event: only if it follows the known head, or the branch
 * itself was checked.
 */
export async function followPush(
  c: Change,
  pull: PullRequest,
  change: { sha: string | null; before: string | null },
  looked: boolean,
): Promise<void> {
  if (change.sha === null || pull.headSha === change.sha) return
  if (!looked && pull.headSha !== '' && pull.headSha !== change.before) return
  const changed = await updatePullRequest(c.db, pull.id, { headSha: change.sha, updatedAt: c.now })
  emitPullRequest(c, changed)
}

export interface PullRequestView {
  pullRequest: PullRequest
  approval: Approval | undefined
  approvedBy: string | null
  /** Place in line, from 1. */
  position: number | null
}

async function view(ctx: Context, projectId: number, pulls: PullRequest[]) {
  const numbers = pulls.filter((p) => p.fromFork).map((p) => p.number)
  const approvals = await listApprovals(ctx.db, projectId, numbers)
  const names = await listUserNames(ctx.db, [
    ...new Set([...approvals.values()].map((a) => a.userId)),
  ])
  const waiting = await listWaiting(ctx.db, projectId, WEBHOOKS.waiting)
  return pulls.map((pullRequest): PullRequestView => {
    const approval = approvals.get(pullRequest.number)
    const place = waiting.indexOf(pullRequest.id)
    return {
      pullRequest,
      approval,
      approvedBy: approval ? (names.get(approval.userId) ?? '') : null,
      position: place < 0 ? null : place + 1,
    }
  })
}

/** Lists open, waiting and unapproved ones. */
export async function listProjectPullRequests(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<PullRequestView[]> {
  await loadProject(ctx.db, caller, projectId, 'read')
  return view(ctx, projectId, await listOpenPullRequests(ctx.db, projectId, WEBHOOKS.waiting))
}

export interface Approved {
  view: PullRequestView
  /** Its deployment, if one was created. */
  task: TaskView | null
}

/** Approves exactly this commit of a fork. A later commit needs its own approval. */
export async function approvePullRequest(
  ctx: Context,
  caller: Caller,
  projectId: number,
  number: number,
  asked: { headSha: string; trigger: Trigger },
): Promise<Approved> {
  await loadProject(ctx.db, caller, projectId, 'deploy')
  const { headSha: sha, trigger } = asked
  const taskId = await change(ctx, async (c) => {
    const project = await lockProject(c.db, projectId)
    const pull = project && (await findPullRequest(c.db, projectId, number))
    if (!project || !pull) {
      throw new AppError('not_found', "Not found, or you don't have access.")
    }
    refuseApproval(project, pull, sha)
    if (await isApproved(c.db, projectId, number, sha)) return null
    await insertApproval(c.db, { projectId, number, sha, userId: caller.userId, at: c.now })
    const details = { number, head_sha: sha }
    const { organizationId } = project
    const subject: [string, string] = ['pull_request', `${projectId}/${number}`]
    await auditCaller(c, caller, organizationId, 'pull_request.approve', subject, details)
    const o: EventOrigin = { by: byCaller(caller), trigger, origin: 'event' }
    return (await admit(ctx, c, project, pull, o)).taskId
  })
  const project = await findProject(ctx.db, projectId)
  const pull = project && (await findPullRequest(ctx.db, projectId, number))
  const [one] = pull ? await view(ctx, projectId, [pull]) : []
  if (!one) throw new AppError('not_found', 'It was just removed.')
  return { view: one, task: taskId === null ? null : await getTask(ctx, asReader(caller), taskId) }
}

function refuseApproval(project: Project, pull: PullRequest, sha: string): void {
  const named = `Pull request ${pull.number}`
  if (project.status === 'deleting') {
    throw new AppError('project_deleting', `${project.name} is being deleted.`)
  }
  if (pull.state === 'merged' || pull.state === 'closed') {
    throw new AppError('pull_request_closed', `${named} is ${pull.state}.`)
  }
  if (!pull.fromFork) {
    throw new AppError('approval_not_needed', `${named} does not come from a fork.`)
  }
  if (project.forkPullRequests === 'never' || project.defaultRecipe === 'manual') {
    throw new AppError('approval_not_needed', `${project.name} deploys no commits of forks.`)
  }
  if (pull.headSha === sha) return
  throw new AppError(
    'approval_outdated',
    `${named} has a newer commit than the one you looked at. Look at ${pull.headSha.slice(0, 12)}.`,
    { head_sha: pull.headSha },
  )
}
