// GitHub: `push`, `pull_request`, `ping`. Gitea and Forgejo send nearly the same shapes, so the common part is exported
// for them. PURE.
import type { PullRequestAction } from '@berth/shared'
import { WEBHOOKS } from '../../../limits/forges.ts'
import type {
  BranchChange,
  EventPullRequest,
  EventRepository,
  NormalisedEvent,
  PullRequestEvent,
  PushEvent,
} from './event.ts'
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
  pingEvent,
  pushedBranch,
  text,
  time,
  title,
  webUrl,
} from './payload.ts'

const ACTIONS: Record<string, PullRequestAction> = {
  opened: 'opened',
  reopened: 'reopened',
  synchronize: 'updated',
  edited: 'edited',
  converted_to_draft: 'edited',
  ready_for_review: 'edited',
  closed: 'closed',
}

/** GitHub lists at most this many commits of one push. */
const LISTED_COMMITS = 2_048

export function parseGithub(delivery: Delivery): NormalisedEvent {
  const name = delivery.headers['x-github-event'] ?? ''
  if (name === 'ping') return pingEvent(delivery)
  if (name === 'push') return readPush(delivery, changedPaths)
  if (name !== 'pull_request') return otherEvent(delivery, name)
  return readPullRequest(delivery, ACTIONS, isGithubFork)
}

export const readRepository = (body: unknown): EventRepository => ({
  external_id: identity(body, 'repository.id'),
  full_name: text(body, 'repository.full_name'),
  web_url: webUrl(body, 'repository.html_url'),
})

export const readSender = (body: unknown) => actor(body, 'sender.id', 'sender.login')

export function readPush(
  delivery: Delivery,
  paths: (body: unknown) => string[] | null,
): PushEvent | NormalisedEvent {
  const { body, provider, deliveryId } = delivery
  const name = pushedBranch(body, 'ref')
  if (name === undefined) return otherEvent(delivery, 'push.tag')
  const sha = commitOrNull(body, 'after')
  const deleted = sha === null || flag(body, 'deleted')
  const isHead = sha !== null && at(body, 'head_commit.id') === sha
  const change: BranchChange = {
    branch: name,
    sha: deleted ? null : sha,
    before: commitOrNull(body, 'before'),
    deleted,
    message: isHead ? message(body, 'head_commit.message') : null,
    paths: deleted ? null : paths(body),
  }
  return {
    kind: 'push',
    provider,
    delivery_id: deliveryId,
    happened_at: null,
    repository: readRepository(body),
    actor: readSender(body),
    changes: [change],
    truncated: false,
  }
}

/** Complete only if no history was rewritten and every commit is listed with its files. */
function changedPaths(body: unknown): string[] | null {
  const commits = at(body, 'commits')
  const whole = at(body, 'forced') === false && at(body, 'created') === false
  if (!whole || !Array.isArray(commits) || commits.length === 0) return null
  if (commits.length >= LISTED_COMMITS || at(commits.at(-1), 'id') !== at(body, 'after')) {
    return null
  }
  const paths = new Set<string>()
  for (const one of commits) {
    for (const kind of ['added', 'removed', 'modified']) {
      const files = at(one, kind)
      if (!Array.isArray(files)) return null
      for (const file of files) {
        if (typeof file !== 'string' || file.length > WEBHOOKS.pathCharacters) return null
        paths.add(file)
      }
    }
    if (paths.size > WEBHOOKS.paths) return null
  }
  return [...paths]
}

export function readPullRequest(
  delivery: Delivery,
  actions: Record<string, PullRequestAction>,
  isFork: (body: unknown) => boolean,
): PullRequestEvent | NormalisedEvent {
  const { body, provider, deliveryId } = delivery
  const word = optionalText(body, 'action') ?? ''
  const known = Object.hasOwn(actions, word) ? actions[word] : undefined
  if (known === undefined) return otherEvent(delivery, `pull_request.${word || 'unknown'}`)
  const isClosed = known === 'closed' || at(body, 'pull_request.state') === 'closed'
  const ended = flag(body, 'pull_request.merged') ? 'merged' : 'closed'
  return {
    kind: 'pull_request',
    // an ended pull request can still be edited and pushed to, and stays ended
    action: isClosed ? ended : known,
    provider,
    delivery_id: deliveryId,
    happened_at: time(body, 'pull_request.updated_at'),
    repository: readRepository(body),
    pull_request: readHead(body, isFork(body)),
    actor: readSender(body),
  }
}

function readHead(body: unknown, fromFork: boolean): EventPullRequest {
  const n = number(body, 'number')
  return {
    number: n,
    title: title(body, 'pull_request.title', `Pull request ${n}`),
    url: webUrl(body, 'pull_request.html_url') ?? '',
    author: optionalText(body, 'pull_request.user.login'),
    draft: flag(body, 'pull_request.draft'),
    head_branch: branch(body, 'pull_request.head.ref'),
    head_sha: commit(body, 'pull_request.head.sha'),
    before: optionalCommit(body, 'before'),
    head_ref: `refs/pull/${n}/head`,
    base_branch: branch(body, 'pull_request.base.ref'),
    from_fork: fromFork,
    message: null,
  }
}

/** Ignores `head.repo.fork`, because pull requests inside a fork have it too. */
function isGithubFork(body: unknown): boolean {
  const head = optionalIdentity(body, 'pull_request.head.repo.id')
  const base = optionalIdentity(body, 'pull_request.base.repo.id')
  return head === null || base === null || head !== base
}
