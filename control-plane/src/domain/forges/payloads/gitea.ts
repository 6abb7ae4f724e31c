// Gitea and Forgejo: GitHub's shapes under their own header names, their own words for some actions, and repository ids
// beside the repositories. Their test delivery looks like a real push. PURE.
import type { PullRequestAction } from '@berth/shared'
import type { NormalisedEvent } from './event.ts'
import { readPullRequest, readPush } from './github.ts'
import { at, type Delivery, optionalIdentity, otherEvent } from './payload.ts'

const ACTIONS: Record<string, PullRequestAction> = {
  opened: 'opened',
  reopened: 'reopened',
  synchronized: 'updated',
  edited: 'edited',
  closed: 'closed',
}

export function parseGitea(delivery: Delivery): NormalisedEvent {
  const own = delivery.provider === 'forgejo' ? 'x-forgejo-event' : 'x-gitea-event'
  const name = delivery.headers[own] ?? ''
  // no flag says whether history was rewritten, so the listed commits never prove the changed paths
  if (name === 'push') return readPush(delivery, () => null)
  if (name === 'pull_request' || name === 'pull_request_sync') {
    return readPullRequest(delivery, ACTIONS, isFork)
  }
  return otherEvent(delivery, name)
}

function isFork(body: unknown): boolean {
  const repository = at(body, 'pull_request.head.repo')
  if (typeof repository !== 'object' || repository === null) return true
  const head = optionalIdentity(body, 'pull_request.head.repo_id')
  const base = optionalIdentity(body, 'pull_request.base.repo_id')
  const inside = optionalIdentity(body, 'pull_request.head.repo.id')
  return head === null || base === null || head !== base || (inside !== null && inside !== head)
}
