// Bitbucket Data Center: `repo:refs_changed` with several refs, `pr:*`, `diagnostics:ping`. Times are in ms. PURE.
import type { PullRequestAction } from '@berth/shared'
import { WEBHOOKS } from '../../../limits/forges.ts'
import type { BranchChange, EventPullRequest, EventRepository, NormalisedEvent } from './event.ts'
import {
  actor,
  at,
  branch,
  commit,
  commitOrNull,
  type Delivery,
  flag,
  identity,
  list,
  message,
  number,
  optionalCommit,
  optionalIdentity,
  optionalText,
  otherEvent,
  pingEvent,
  text,
  time,
  title,
  webUrl,
} from './payload.ts'

const ACTIONS: Record<string, PullRequestAction> = {
  'pr:opened': 'opened',
  'pr:reopened': 'reopened',
  'pr:from_ref_updated': 'updated',
  'pr:modified': 'edited',
  'pr:merged': 'merged',
  'pr:declined': 'closed',
  'pr:deleted': 'closed',
}

export function parseBitbucketServer(delivery: Delivery): NormalisedEvent {
  const key = delivery.headers['x-event-key'] ?? ''
  if (key === 'diagnostics:ping') return pingEvent(delivery)
  if (key === 'repo:refs_changed') return readPush(delivery)
  const action = Object.hasOwn(ACTIONS, key) ? ACTIONS[key] : undefined
  if (action === undefined) return otherEvent(delivery, key)
  const { body, provider, deliveryId } = delivery
  const state = at(body, 'pullRequest.state')
  const ended = state === 'MERGED' ? 'merged' : state === 'DECLINED' ? 'closed' : undefined
  return {
    kind: 'pull_request',
    // an ended pull request can still be edited, and stays ended
    action: ended ?? action,
    provider,
    delivery_id: deliveryId,
    happened_at: time(body, 'pullRequest.updatedDate'),
    repository: readRepository(body, 'pullRequest.toRef.repository'),
    pull_request: readHead(body),
    actor: readActor(body),
  }
}

const readActor = (body: unknown) => actor(body, 'actor.id', 'actor.name')

const readRepository = (body: unknown, where: string): EventRepository => ({
  external_id: identity(body, `${where}.id`),
  full_name: `${text(body, `${where}.project.key`)}/${text(body, `${where}.slug`)}`,
  web_url: webUrl(body, `${where}.links.self.0.href`),
})

function readPush(delivery: Delivery): NormalisedEvent {
  const { body, provider, deliveryId } = delivery
  const reported = list(body, 'changes')
  const changes = reported
    .slice(0, WEBHOOKS.changes)
    .filter((change) => at(change, 'ref.type') === 'BRANCH')
    .map((change) => readChange(change, body))
  if (changes.length === 0) return otherEvent(delivery, 'repo:refs_changed.tag')
  return {
    kind: 'push',
    provider,
    delivery_id: deliveryId,
    happened_at: time(body, 'date'),
    repository: readRepository(body, 'repository'),
    actor: readActor(body),
    changes,
    truncated: reported.length > WEBHOOKS.changes,
  }
}

function readChange(change: unknown, body: unknown): BranchChange {
  const deleted = at(change, 'type') === 'DELETE'
  const sha = deleted ? null : commit(change, 'toHash')
  const isHead = sha !== null && at(body, 'toCommit.id') === sha
  return {
    branch: branch(change, 'ref.displayId'),
    sha,
    before: commitOrNull(change, 'fromHash'),
    deleted,
    message: isHead ? message(body, 'toCommit.message') : null,
    paths: null,
  }
}

function readHead(body: unknown): EventPullRequest {
  const n = number(body, 'pullRequest.id')
  const source = optionalIdentity(body, 'pullRequest.fromRef.repository.id')
  const target = optionalIdentity(body, 'pullRequest.toRef.repository.id')
  return {
    number: n,
    title: title(body, 'pullRequest.title', `Pull request ${n}`),
    url: webUrl(body, 'pullRequest.links.self.0.href') ?? '',
    author: optionalText(body, 'pullRequest.author.user.name'),
    draft: flag(body, 'pullRequest.draft'),
    head_branch: branch(body, 'pullRequest.fromRef.displayId'),
    head_sha: commit(body, 'pullRequest.fromRef.latestCommit'),
    before: optionalCommit(body, 'previousFromHash'),
    head_ref: `refs/pull-requests/${n}/from`,
    base_branch: branch(body, 'pullRequest.toRef.displayId'),
    from_fork: source === null || target === null || source !== target,
    message: null,
  }
}
