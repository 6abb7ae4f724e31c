// The one shape of every forge's delivery. It is stored, shown and replayed as a document, so its fields are spelled as
// in JSON. Deliberately absent: clone addresses, e-mail addresses, flags of trust.
import type { Provider, PullRequestAction } from '@berth/shared'

export interface EventRepository {
  external_id: string
  full_name: string
  web_url: string | null
}

export interface EventActor {
  external_id: string | null
  name: string
}

export interface BranchChange {
  branch: string
  /** Null when the branch was deleted. */
  sha: string | null
  /** Null when the branch is new, or the forge does not say. */
  before: string | null
  deleted: boolean
  /** The head commit's message, if the payload has it. */
  message: string | null
  /** Every path that differs between `before` and `sha`; null if the payload may not list them all. */
  paths: string[] | null
}

export interface EventPullRequest {
  number: number
  title: string
  url: string
  /** Null if the forge does not name the author. */
  author: string | null
  draft: boolean
  head_branch: string
  /** Always a full hash; null if the forge sends only a short one, which is never compared or deployed. */
  head_sha: string | null
  /** The head before this event; null if nothing was pushed or the forge does not say. */
  before: string | null
  /** The head's ref in the base repository; null if it has only its branch. */
  head_ref: string | null
  base_branch: string
  /** True unless both repositories are known and the same. */
  from_fork: boolean
  message: string | null
}

interface Common {
  provider: Provider
  delivery_id: string
  happened_at: string | null
  actor: EventActor | null
}

export interface PushEvent extends Common {
  kind: 'push'
  repository: EventRepository
  changes: BranchChange[]
  /** The forge, or our limit, left refs out. */
  truncated: boolean
}

export interface PullRequestEvent extends Common {
  kind: 'pull_request'
  action: PullRequestAction
  repository: EventRepository
  pull_request: EventPullRequest
}

export interface PingEvent extends Common {
  kind: 'ping'
  repository: EventRepository | null
}

export interface OtherEvent extends Common {
  kind: 'other'
  /** The forge's own name for it. */
  name: string
  repository: EventRepository | null
}

export type NormalisedEvent = PushEvent | PullRequestEvent | PingEvent | OtherEvent

/** "push", "pull_request.updated", "ping", or the forge's own name. */
export function eventName(event: NormalisedEvent): string {
  switch (event.kind) {
    case 'push':
    case 'ping':
      return event.kind
    case 'pull_request':
      return `pull_request.${event.action}`
    case 'other':
      return event.name
  }
}
