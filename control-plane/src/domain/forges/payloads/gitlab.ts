// GitLab: `Push Hook`, `Merge Request Hook`. A merge request is identified by its `iid`; `changes` may be incomplete
// and is not read. PURE.
import type { PullRequestAction } from '@berth/shared'
import type { EventPullRequest, EventRepository, NormalisedEvent } from './event.ts'
import {
  actor,
  at,
  branch,
  commit,
  commitOrNull,
  type Delivery,
  flag,
  identity,
  message,
  number,
  optionalCommit,
  optionalIdentity,
  optionalText,
  otherEvent,
  pushedBranch,
  text,
  time,
  title,
  webUrl,
} from './payload.ts'

const ACTIONS: Record<string, PullRequestAction> = {
  open: 'opened',
  reopen: 'reopened',
  update: 'edited',
  merge: 'merged',
  close: 'closed',
}

export function parseGitlab(delivery: Delivery): NormalisedEvent {
  const name = delivery.headers['x-gitlab-event'] ?? ''
  const kind = optionalText(delivery.body, 'object_kind')
  if (name === 'Push Hook' || (name === 'System Hook' && kind === 'push')) return readPush(delivery)
  if (name === 'Merge Request Hook' || (name === 'System Hook' && kind === 'merge_request')) {
    return readMergeRequest(delivery)
  }
  return otherEvent(delivery, name)
}

const readRepository = (body: unknown): EventRepository => ({
  external_id: identity(body, 'project.id'),
  full_name: text(body, 'project.path_with_namespace'),
  web_url: webUrl(body, 'project.web_url'),
})

function readPush(delivery: Delivery): NormalisedEvent {
  const { body, provider, deliveryId } = delivery
  const name = pushedBranch(body, 'ref')
  if (name === undefined) return otherEvent(delivery, 'push.tag')
  const sha = commitOrNull(body, 'after')
  const commits = at(body, 'commits')
  const head = Array.isArray(commits) ? commits.find((c) => at(c, 'id') === sha) : undefined
  return {
    kind: 'push',
    provider,
    delivery_id: deliveryId,
    happened_at: null,
    repository: readRepository(body),
    actor: actor(body, 'user_id', 'user_username'),
    changes: [
      {
        branch: name,
        sha,
        before: commitOrNull(body, 'before'),
        deleted: sha === null,
        message: sha === null ? null : message(head, 'message'),
        // GitLab lists at most twenty commits, and no flag says whether history was rewritten
        paths: null,
      },
    ],
    truncated: false,
  }
}

function readMergeRequest(delivery: Delivery): NormalisedEvent {
  const { body, provider, deliveryId } = delivery
  const word = optionalText(body, 'object_attributes.action') ?? ''
  const known = Object.hasOwn(ACTIONS, word) ? ACTIONS[word] : undefined
  if (known === undefined) return otherEvent(delivery, `merge_request.${word || 'unknown'}`)
  const pushed = optionalText(body, 'object_attributes.oldrev') !== null
  const state = at(body, 'object_attributes.state')
  const now = known === 'edited' && pushed ? 'updated' : known
  return {
    kind: 'pull_request',
    // an ended pull request can still be edited and pushed to, and stays ended
    action: state === 'merged' || state === 'closed' ? state : now,
    provider,
    delivery_id: deliveryId,
    happened_at: time(body, 'object_attributes.updated_at'),
    repository: readRepository(body),
    pull_request: readHead(body),
    actor: actor(body, 'user.id', 'user.username'),
  }
}

function readHead(body: unknown): EventPullRequest {
  const n = number(body, 'object_attributes.iid')
  const source = optionalIdentity(body, 'object_attributes.source_project_id')
  const target = optionalIdentity(body, 'object_attributes.target_project_id')
  const known = typeof at(body, 'object_attributes.source') === 'object'
  const gone = !known || at(body, 'object_attributes.source') === null
  // the payload has only the author's id; the acting user may be the author
  const author = optionalIdentity(body, 'object_attributes.author_id')
  const acts = optionalIdentity(body, 'user.id')
  return {
    number: n,
    title: title(body, 'object_attributes.title', `Merge request ${n}`),
    url: webUrl(body, 'object_attributes.url') ?? '',
    author: author !== null && author === acts ? optionalText(body, 'user.username') : null,
    draft:
      flag(body, 'object_attributes.draft') || flag(body, 'object_attributes.work_in_progress'),
    head_branch: branch(body, 'object_attributes.source_branch'),
    head_sha: commit(body, 'object_attributes.last_commit.id'),
    before: optionalCommit(body, 'object_attributes.oldrev'),
    head_ref: `refs/merge-requests/${n}/head`,
    base_branch: branch(body, 'object_attributes.target_branch'),
    from_fork: gone || source === null || target === null || source !== target,
    message: message(body, 'object_attributes.last_commit.message'),
  }
}
