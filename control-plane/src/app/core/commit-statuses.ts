// Commit statuses and comments for forges. Each transaction that changed a task or a pull request derives them from its
// events as its last step, so a forge hears of exactly what was committed. This file does no network work;
// app/forges/commit-status-sending.ts empties the outbox. A project without a forge token costs one read per task.

import type { Failure } from '@berth/shared/api'
import { type DeployedService, environmentUrl } from '../../domain/environments/environment.ts'
import {
  describeMoment,
  type Moment,
  type ReportedStatus,
} from '../../domain/forges/commit-status.ts'
import { COMMIT_STATUSES } from '../../limits/forges.ts'
import {
  dropOldestReports,
  findNewestReport,
  findTaskFacts,
  replaceReport,
} from '../../store/forges/commit-statuses.ts'
import { listWaitingHeads } from '../../store/forges/pull-request-heads.ts'
import type { Change } from './change.ts'

export const COMMIT_STATUSES_TOPIC = 'host-reports'

const TASK_MOMENTS = new Set([
  'task.queued',
  'task.running',
  'task.commit',
  'task.succeeded',
  'task.failed',
  'task.canceled',
])
const WAITING_KINDS = new Set([
  'pull_request.updated',
  'environment.created',
  'environment.removed',
])

export interface StatusBody extends ReportedStatus {
  context: string
  /** Null for a pull request without a task. */
  taskId: number | null
}

export interface CommentBody {
  state: 'succeeded' | 'failed' | 'removed'
  number: number
  environmentId: number
  project: string
  identifier: string
  sha: string | null
  address: string | null
  taskId: number
}

type TaskFacts = NonNullable<Awaited<ReturnType<typeof findTaskFacts>>>

/** Called once, at the end of each transaction. */
export async function queueCommitStatuses(c: Change): Promise<void> {
  const tasks = new Set<number>()
  const projects = new Set<number>()
  for (const { kind, taskId, projectId } of c.events) {
    if (taskId && TASK_MOMENTS.has(kind)) tasks.add(taskId)
    if (projectId && WAITING_KINDS.has(kind)) projects.add(projectId)
  }
  for (const id of tasks) await noteTask(c, id)
  for (const id of projects) await noteWaiting(c, id)
}

async function noteTask(c: Change, taskId: number): Promise<void> {
  const facts = await findTaskFacts(c.db, taskId)
  if (!facts || facts.projectRemovedAt !== null) return
  if (facts.hostTokenSealed === null && facts.forgeConnectionId === null) return
  if (facts.type === 'deploy' && facts.commitSha !== null) {
    const moment = momentOf(facts)
    const { projectId, organizationId, environmentId } = facts
    const about = { projectId, organizationId, environmentId, name: facts.projectName, taskId }
    await noteStatus(c, about, facts.commitSha, moment)
  }
  await noteComment(c, facts)
}

const addressOf = (facts: TaskFacts): string | null =>
  environmentUrl(JSON.parse(facts.services) as DeployedService[], facts.serverHostname)

function momentOf(facts: TaskFacts): Moment {
  switch (facts.status) {
    case 'queued':
      return { kind: 'queued', server: facts.serverName }
    case 'running':
      return { kind: 'running' }
    case 'succeeded':
      return { kind: 'succeeded', address: addressOf(facts) }
    case 'failed': {
      const failure = facts.failure === null ? null : (JSON.parse(facts.failure) as Failure)
      return { kind: 'failed', step: failure?.step_title ?? null, message: failure?.message ?? '' }
    }
    case 'canceled':
      return { kind: 'canceled', reason: facts.cancelReason }
  }
}

interface StatusAbout {
  organizationId: number
  projectId: number
  environmentId: number | null
  /** The project's name. */
  name: string
  taskId: number | null
}

/** The newest status of a commit wins; an unchanged status is not queued again. */
async function noteStatus(
  c: Change,
  about: StatusAbout,
  sha: string,
  moment: Moment,
): Promise<void> {
  const { organizationId, projectId, environmentId, taskId } = about
  const reported: StatusBody = { ...describeMoment(moment), context: `berth/${about.name}`, taskId }
  const body = JSON.stringify(reported)
  const newest = await findNewestReport(c.db, projectId, 'status', sha)
  if (newest?.body === body && newest.error === null) return
  await replaceReport(c.db, {
    organizationId,
    projectId,
    environmentId,
    taskId,
    kind: 'status',
    subject: sha,
    body,
    createdAt: c.now,
    nextAt: c.now,
  })
  await dropOldestReports(c.db, projectId, COMMIT_STATUSES.perProject)
  c.notify(COMMIT_STATUSES_TOPIC)
}

/** The first success creates the comment, later results edit it, and removing the environment ends it. */
async function noteComment(c: Change, facts: TaskFacts): Promise<void> {
  const { pullRequestNumber: number, environmentId, projectId } = facts
  const state = commentState(facts)
  if (facts.commentOnPullRequests !== 1 || number === null || !state) return
  const subject = `env:${environmentId}`
  const isThere = (await findNewestReport(c.db, projectId, 'comment', subject)) !== undefined
  if (state !== 'succeeded' && !isThere) return
  const body: CommentBody = {
    state,
    number,
    environmentId,
    project: facts.projectName,
    identifier: facts.identifier,
    sha: facts.commitSha,
    address: addressOf(facts),
    taskId: facts.id,
  }
  await replaceReport(c.db, {
    organizationId: facts.organizationId,
    projectId,
    environmentId,
    taskId: facts.id,
    kind: 'comment',
    subject,
    body: JSON.stringify(body),
    createdAt: c.now,
    nextAt: c.now,
  })
  c.notify(COMMIT_STATUSES_TOPIC)
}

function commentState({ type, status }: TaskFacts): CommentBody['state'] | undefined {
  if (type === 'destroy') return status === 'succeeded' ? 'removed' : undefined
  return type === 'deploy' && (status === 'succeeded' || status === 'failed') ? status : undefined
}

/** Shows on each waiting pull request what it waits for: a member's approval or a free place. */
async function noteWaiting(c: Change, projectId: number): Promise<void> {
  const waiting = await listWaitingHeads(c.db, projectId, COMMIT_STATUSES.perProject)
  if (!waiting) return
  const { project, used, heads } = waiting
  let position = 0
  for (const { headSha, waitingFor } of heads) {
    if (waitingFor === 'environment_limit') position += 1
    const moment: Moment =
      waitingFor === 'environment_limit'
        ? { kind: 'limit', used, limit: project.environmentLimit, position }
        : { kind: 'approval' }
    const { id, organizationId, name } = project
    const about = { organizationId, projectId: id, environmentId: null, name, taskId: null }
    if (headSha !== '') await noteStatus(c, about, headSha, moment)
  }
}
