// Decisions about events, and the intents that they contain. PURE: app/forges/intents.ts performs the intents in order,
// in the transaction in which the facts were read.
import type { DeliveryOutcome, DeliveryRule, WaitingReason } from '@berth/shared'

/** What forges say about a pull request in events and in lists. */
export interface DescribedPullRequest {
  number: number
  title: string
  url: string
  author: string
  state: 'open' | 'merged' | 'closed'
  draft: boolean
  headBranch: string
  headRef: string | null
  baseBranch: string
  fromFork: boolean
}

/** A pull request as an event leaves it. */
export interface ReportedPullRequest extends DescribedPullRequest {
  /** Empty if it was never reported in full. */
  headSha: string
  happenedAt: number
}

export type Intent =
  | { kind: 'record'; pull: ReportedPullRequest }
  /** Sets what the pull request's record waits for; null means nothing. */
  | { kind: 'wait'; for: WaitingReason | null }
  | { kind: 'create_environment'; serverId: number }
  /** Stores the head in the environment's row, if it is known. */
  | { kind: 'record_head'; sha: string | null }
  /** Null means the branch's head, which the checkout resolves. */
  | { kind: 'deploy'; sha: string | null }
  | { kind: 'deploy_on_join' }
  | { kind: 'supersede'; taskId: number }
  /** Cancels the queued deployment, asks the running one to stop, then removes. */
  | { kind: 'remove' }
  | { kind: 'mark_branch'; missing: boolean }
  /** Stored, so that the other event of the same push is skipped too. */
  | { kind: 'mark_skipped'; rule: SkipRule; sha: string | null; from: string | null }

export type SkipRule = 'skip_marker' | 'paths_unchanged'

export interface Decision {
  intents: Intent[]
  outcome: DeliveryOutcome
  rule: DeliveryRule
  /** A sentence for our list of deliveries and for the forge's own. */
  reason: string
}

/** With the environment that the result names. */
export interface EventDecision extends Decision {
  environmentId: number | null
  identifier: string | null
}

export const decide = (
  outcome: DeliveryOutcome,
  rule: DeliveryRule,
  reason: string,
  ...intents: Intent[]
): Decision => ({ intents, outcome, rule, reason })

export const wait = (reason: WaitingReason | null): Intent => ({ kind: 'wait', for: reason })

export const shortSha = (sha: string | null): string =>
  sha === null ? 'its head' : sha.slice(0, 7)
