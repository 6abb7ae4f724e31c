// Checks a branch before applying an event that does not follow from the known state (domain/forges/branch-order.ts).
// Doubts are found under the project's lock; the check runs outside any transaction; if the state changed meanwhile,
// the branch is checked again. An unreadable repository does not block a deployment forever: after a delivery's tries
// the server fetches what the branch has then.
import { never } from '@berth/shared'
import type { Context } from '../../context.ts'
import { isOver } from '../../domain/forges/admission.ts'
import {
  correctHead,
  correctPush,
  followsBranch,
  followsPullRequest,
  type Seen,
} from '../../domain/forges/branch-order.ts'
import { type Decision, decide } from '../../domain/forges/intent.ts'
import type { PullRequestEvent, PushEvent } from '../../domain/forges/payloads/event.ts'
import { happenedAt } from '../../domain/forges/pull-request.ts'
import { ForgeError } from '../../forges/clients/forge.ts'
import type { LookFailure } from '../../forges/git-messages.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import { listEnvironments } from '../../store/environments/environments.ts'
import { listPullRequestsByNumber } from '../../store/forges/pull-request-heads.ts'
import { findPullRequest } from '../../store/forges/pull-requests.ts'
import type { Project } from '../../store/projects/projects.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { findPullRequestEnvironment } from './event-facts.ts'
import { tracks } from './forge-events.ts'
import { openProjectForge } from './forge-tokens.ts'
import { lookAtRepository, recordLook } from './repository.ts'

type Event = PushEvent | PullRequestEvent

/** The known state when the check began, and its result. */
export interface Sight {
  known: string
  seen: Seen
}

type Ordered =
  | { kind: 'follows'; event: Event; looked: boolean }
  | { kind: 'look'; known: string }
  | { kind: 'nothing'; decision: Decision }

/** Returns the event as it may be applied, or what to check first. The caller has locked the project. */
export async function orderEvent(
  c: Change,
  project: Project,
  event: Event,
  sight: Sight | undefined,
): Promise<Ordered> {
  const known = await readDoubted(c, project, event)
  if (known === undefined) return { kind: 'follows', event, looked: false }
  if (known !== sight?.known) return { kind: 'look', known }
  if (event.kind === 'push') {
    const changes = event.changes.map((one) => correctPush(one, sight.seen))
    return { kind: 'follows', event: { ...event, changes }, looked: true }
  }
  const { state } = sight.seen
  const action = state === 'merged' || state === 'closed' ? state : event.action
  if (action !== event.action) {
    return { kind: 'follows', event: { ...event, action }, looked: true }
  }
  const reported = correctHead(event.pull_request, sight.seen)
  if (reported)
    return { kind: 'follows', event: { ...event, pull_request: reported }, looked: true }
  const { number, head_branch } = event.pull_request
  const reason = `Branch ${head_branch} of pull request ${number} is gone; nothing of it is deployed.`
  return { kind: 'nothing', decision: decide('ignored', 'branch_deleted', reason) }
}

/** The known state of the event's subjects as one text; undefined if the event follows from it. */
async function readDoubted(c: Change, project: Project, event: Event): Promise<string | undefined> {
  switch (event.kind) {
    case 'push':
      return readDoubtedBranches(c, project, event)
    case 'pull_request':
      return readDoubtedPullRequest(c, project, event)
    default:
      return never(event)
  }
}

async function readDoubtedBranches(
  c: Change,
  project: Project,
  event: PushEvent,
): Promise<string | undefined> {
  const branches = new Set(event.changes.map((one) => one.branch))
  const tracking = (await listEnvironments(c.db, project.id)).filter(
    (e) => e.removingAt === null && branches.has(e.branch),
  )
  const numbers = tracking.map((e) => e.pullRequestNumber).filter((number) => number !== null)
  const pulls = await listPullRequestsByNumber(c.db, project.id, numbers)
  const over = new Set(pulls.filter(isOver).map((pull) => pull.number))
  const environments = tracking.filter((e) => !over.has(e.pullRequestNumber ?? 0))
  const doubted = event.changes.flatMap((one) =>
    environments
      .filter((e) => tracks(e, one.branch))
      .filter((e) => !followsBranch(one, { ...e, branchMissing: Boolean(e.branchMissing) }))
      .map((e) => [e.id, e.headSha, e.targetSha, e.branchMissing]),
  )
  return doubted.length === 0 ? undefined : JSON.stringify(doubted)
}

async function readDoubtedPullRequest(
  c: Change,
  project: Project,
  event: PullRequestEvent,
): Promise<string | undefined> {
  const { number, head_sha: headSha, before } = event.pull_request
  const record = await findPullRequest(c.db, project.id, number)
  const environment = record && (await findPullRequestEnvironment(c, project, number))
  const targetSha = environment?.targetSha ?? null
  const news = { action: event.action, headSha, before, happenedAt: happenedAt(event, c.now) }
  const follows = followsPullRequest(news, record && { ...record, targetSha }, c.now)
  if (follows) return undefined
  return JSON.stringify([record?.state, record?.headSha, record?.happenedAt, targetSha])
}

/** A repository without branches is new or being restored, so it proves nothing. */
const NO_BRANCH: LookFailure = { code: 'failed', message: 'The repository shows no branch.' }

/** Checks once. With `failure`, nothing was read, and the caller decides about a retry. Uses the network. */
export async function lookForEvent(
  ctx: Context,
  project: Project,
  event: Event,
): Promise<{ seen: Seen; failure: LookFailure | undefined }> {
  const look = await lookAtRepository(ctx, project)
  await change(ctx, (c) => recordLook(c, project, look))
  const isEmpty = look.ok && ![...look.refs.keys()].some((ref) => ref.startsWith('refs/heads/'))
  if (!look.ok || isEmpty) {
    return { seen: { refs: null, state: null }, failure: look.ok ? NO_BRANCH : look }
  }
  const number = event.kind === 'pull_request' ? event.pull_request.number : undefined
  const state = number === undefined ? null : await askState(ctx, project, number)
  return { seen: { refs: look.refs, state }, failure: undefined }
}

/** git does not show whether a pull request is open or closed; with a token the forge does. */
async function askState(ctx: Context, project: Project, number: number): Promise<Seen['state']> {
  const client = await openProjectForge(ctx, project)
  if (!client) return null
  try {
    return (await client.findPullRequest(number))?.state ?? null
  } catch (error) {
    if (error instanceof ForgeError) return null
    throw error
  }
}

/** True if a retry may help and tries are left. A retry never helps for an address that is not allowed. */
export const isWorthWaiting = (failure: LookFailure, tries: number): boolean =>
  failure.code !== 'address_not_allowed' && tries < WEBHOOKS.tries
