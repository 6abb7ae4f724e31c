// Bitbucket Cloud: `repo:push` with several refs and full hashes, `pullrequest:*` with hashes of twelve characters,
// which are never used. A pull request has no ref in the base repository, only its branch. PURE.
import type { PullRequestAction } from '@berth/shared'
import { WEBHOOKS } from '../../../limits/forges.ts'
import type { BranchChange, EventPullRequest, EventRepository, NormalisedEvent } from './event.ts'
import {
  actor,
  at,
  branch,
  commit,
  type Delivery,
  flag,
  identity,
  list,
  message,
  number,
  optionalIdentity,
  optionalText,
  otherEvent,
  text,
  time,
  title,
  webUrl,
} from './payload.ts'

const ACTIONS: Record<string, PullRequestAction> = {
  'pullrequest:created': 'opened',
  'pullrequest:updated': 'updated',
  'pullrequest:fulfilled': 'merged',
  'pullrequest:rejected': 'closed',
}

const ENDED: Record<string, PullRequestAction> = {
  MERGED: 'merged',
  DECLINED: 'closed',
  SUPERSEDED: 'closed',
}

export function parseBitbucketCloud(delivery: Delivery): NormalisedEvent {
  const key = delivery.headers['x-event-key'] ?? ''
  if (key === 'repo:push') return readPush(delivery)
  const action = Object.hasOwn(ACTIONS, key) ? ACTIONS[key] : undefined
  if (action === undefined) return otherEvent(delivery, key)
  const { body, provider, deliveryId } = delivery
  const state = at(body, 'pullrequest.state')
  const ended = typeof state === 'string' && Object.hasOwn(ENDED, state) ? ENDED[state] : undefined
  return {
    kind: 'pull_request',
    // an ended pull request can still be edited, and stays ended
    action: ended ?? action,
    provider,
    delivery_id: deliveryId,
    happened_at: time(body, 'pullrequest.updated_on'),
    repository: readRepository(body),
    pull_request: readHead(body),
    actor: readActor(body),
  }
}

const readActor = (body: unknown) => actor(body, 'actor.account_id', 'actor.nickname')

const readRepository = (body: unknown): EventRepository => ({
  external_id: identity(body, 'repository.uuid'),
  full_name: text(body, 'repository.full_name'),
  web_url: webUrl(body, 'repository.links.html.href'),
})

function readPush(delivery: Delivery): NormalisedEvent {
  const { body, provider, deliveryId } = delivery
  const reported = list(body, 'push.changes')
  const changes = reported
    .slice(0, WEBHOOKS.changes)
    .map(readChange)
    .filter((change) => change !== undefined)
  if (changes.length === 0) return otherEvent(delivery, 'repo:push.tag')
  return {
    kind: 'push',
    provider,
    delivery_id: deliveryId,
    happened_at: null,
    repository: readRepository(body),
    actor: readActor(body),
    changes,
    truncated: reported.length > WEBHOOKS.changes,
  }
}

/** Undefined for a tag. */
function readChange(change: unknown): BranchChange | undefined {
  const side = (name: string) => at(change, `${name}.type`)
  const now = side('new')
  if (now !== undefined && now !== 'branch') return undefined
  if (now === undefined && side('old') !== 'branch') return undefined
  const deleted = now === undefined
  const which = deleted ? 'old' : 'new'
  const name = branch(change, `${which}.name`)
  const before = optionalText(change, 'old.target.hash')
  return {
    branch: name,
    sha: deleted ? null : commit(change, 'new.target.hash'),
    before: before !== null && /^[0-9a-f]{40}$/.test(before) ? before : null,
    deleted,
    message: deleted ? null : message(change, 'new.target.message'),
    paths: null,
  }
}

function readHead(body: unknown): EventPullRequest {
  const n = number(body, 'pullrequest.id')
  const source = optionalIdentity(body, 'pullrequest.source.repository.uuid')
  const target = optionalIdentity(body, 'pullrequest.destination.repository.uuid')
  const hash = optionalText(body, 'pullrequest.source.commit.hash')
  return {
    number: n,
    title: title(body, 'pullrequest.title', `Pull request ${n}`),
    url: webUrl(body, 'pullrequest.links.html.href') ?? '',
    author: optionalText(body, 'pullrequest.author.nickname'),
    draft: flag(body, 'pullrequest.draft'),
    head_branch: branch(body, 'pullrequest.source.branch.name'),
    head_sha: hash !== null && /^[0-9a-f]{40}$/.test(hash) ? hash : null,
    before: null,
    head_ref: null,
    base_branch: branch(body, 'pullrequest.destination.branch.name'),
    from_fork: source === null || target === null || source !== target,
    message: null,
  }
}
