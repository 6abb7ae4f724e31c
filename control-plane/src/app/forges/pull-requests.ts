// Pull requests: their records, the effects of events, and the approval of a fork's commit. The record follows the
// forge; only decisions create, redeploy or remove the environment. No payload can approve a commit.
import { AppError, never, type Trigger, WEBHOOKS } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import type { Decision } from '../../domain/forges/intent.ts'
import type { PullRequestEvent } from '../../domain/forges/payloads/event.ts'
import { decidePullRequest } from '../../domain/forges/pull-request.ts'
import { type Environment, updateEnvironment } from '../../store/environments/environments.ts'
import {
  type Approval,
  findPullRequest,
  insertApproval,
  insertPullRequest,
  isApproved,
  listApprovals,
  listLine,
  listOpenPullRequests,
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
import {
  admit,
  emitPullRequest,
  findPullRequestEnvironment,
  identifierOf,
  performWaiting,
} from './admissions.ts'
import {
  commitNews,
  decideFor,
  type EventOrigin,
  type EventResult,
  performFor,
} from './redeployments.ts'

/** The forge's time, bounded: a time in the future would make every later event stale. */
export function happenedAt(event: PullRequestEvent, now: number): number | null {
  if (event.happened_at === null) return null
  return Math.min(Date.parse(event.happened_at), now + WEBHOOKS.aheadMs)
}

/** Applies one event about one pull request. The caller has locked the project. */
export async function applyPullRequest(
  ctx: Context,
  c: Change,
  project: Project,
  event: PullRequestEvent,
  o: EventOrigin,
): Promise<EventResult> {
  const { number } = event.pull_request
  const record = await findPullRequest(c.db, project.id, number)
  const found = await findPullRequestEnvironment(c, project, number)
  const news = commitNews(event.pull_request.head_sha, event.pull_request.message)
  const again =
    found &&
    (await decideFor(ctx, c, project, found.id, news, {
      origin: o.origin,
      pullRequest: record,
      fromFork: event.pull_request.from_fork,
    }))
  // read under its lock, so that a concurrent protection counts
  const environment = again?.environment
  const line = record ? await listLine(c.db, project.id, WEBHOOKS.line) : []
  const place = record ? line.indexOf(record.id) : -1
  let admitting = false
  const decision = decidePullRequest({
    news: {
      number,
      action: event.action,
      draft: event.pull_request.draft,
      baseBranch: event.pull_request.base_branch,
      headSha: event.pull_request.head_sha,
      happenedAt: happenedAt(event, c.now),
    },
    record,
    environment: environment && {
      removing: environment.removingAt !== null,
      protected: environment.protected,
    },
    identifier: identifierOf(number),
    position: place < 0 ? null : place + 1,
    admit: () => {
      admitting = true
      return RECORD_FIRST
    },
    redeploy: () => again?.decision ?? RECORD_FIRST,
  })
  const recorded = decision.intents.some((intent) => intent.kind === 'record')
    ? await writeRecord(c, project, record, environment, event)
    : record
  if (admitting && recorded) return admit(ctx, c, project, recorded, o, news.message)
  if (again && decision === again.decision) {
    if (recorded) await performWaiting(c, recorded, decision)
    return performFor(c, project, again.environment, decision, news, o)
  }
  return finish(ctx, c, decision, environment, o)
}

/** Admission reads the record, so the record is written first; admission's decision replaces this one. */
const RECORD_FIRST: Decision = {
  intents: [{ kind: 'record' }],
  outcome: 'applied',
  rule: 'recorded',
  reason: 'It was noted.',
}

/** Performs the rest of the decision: at most a removal, which also frees the place. */
async function finish(
  ctx: Context,
  c: Change,
  { intents, outcome, rule, reason }: Decision,
  environment: Environment | undefined,
  o: EventOrigin,
): Promise<EventResult> {
  const { id: environmentId = null, identifier = null } = environment ?? {}
  const removes = environment && intents.some((intent) => intent.kind === 'remove')
  const taskId = removes
    ? await beginRemoval(ctx, c, environment, o.by, { trigger: o.trigger })
    : null
  return { environmentId, identifier, outcome, rule, reason, taskId }
}

async function writeRecord(
  c: Change,
  project: Project,
  record: PullRequest | undefined,
  environment: Environment | undefined,
  event: PullRequestEvent,
): Promise<PullRequest> {
  const reported = event.pull_request
  const state = stateAfter(event)
  const over = state !== 'open'
  const happened = happenedAt(event, c.now)
  const facts = {
    title: reported.title,
    url: reported.url,
    author: reported.author ?? record?.author ?? '',
    state,
    draft: reported.draft ? (1 as const) : (0 as const),
    headBranch: reported.head_branch,
    baseBranch: reported.base_branch,
    fromFork: reported.from_fork ? (1 as const) : (0 as const),
    headSha: reported.head_sha ?? record?.headSha ?? '',
    headRef: reported.head_ref,
    branchMissingSince: null,
    presumedClosedAt: null,
    happenedAt: Math.max(record?.happenedAt ?? 0, happened ?? record?.happenedAt ?? c.now),
    updatedAt: c.now,
    ...(over ? { waitingFor: null, waitingSince: null } : {}),
  }
  // a pull request that may come from a fork is treated as one from now on
  if (reported.from_fork && environment && !environment.fromFork) {
    await updateEnvironment(c.db, environment.id, { fromFork: 1 })
  }
  const written = record
    ? await updatePullRequest(c.db, record.id, facts)
    : await insertPullRequest(c.db, {
        ...facts,
        organizationId: project.organizationId,
        projectId: project.id,
        number: reported.number,
        environmentId: environment?.id ?? null,
        createdAt: c.now,
      })
  emitPullRequest(c, written)
  return written
}

function stateAfter({ action }: PullRequestEvent): 'open' | 'merged' | 'closed' {
  switch (action) {
    case 'merged':
    case 'closed':
      return action
    case 'opened':
    case 'reopened':
    case 'updated':
    case 'edited':
      return 'open'
    default:
      return never(action)
  }
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
  const line = await listLine(ctx.db, projectId, WEBHOOKS.line)
  return pulls.map((pullRequest): PullRequestView => {
    const approval = approvals.get(pullRequest.number)
    const place = line.indexOf(pullRequest.id)
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
  return view(ctx, projectId, await listOpenPullRequests(ctx.db, projectId, WEBHOOKS.line))
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
