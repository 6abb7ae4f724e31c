// Decisions about events, and the intents that they contain. PURE: app/ performs the intents in order, in the
// transaction in which the decision was made.
import type { DeliveryOutcome, DeliveryRule, WaitingReason } from '@berth/shared'

export type Intent =
  /** Stores the event in the pull request's record, or the head in the environment's row. */
  | { kind: 'record' }
  | { kind: 'create_environment' }
  /** Null means the branch's head, which the checkout resolves. */
  | { kind: 'deploy'; sha: string | null }
  | { kind: 'supersede'; taskId: number }
  /** Cancels the queued deployment, asks the running one to stop, then removes. */
  | { kind: 'remove' }
  | { kind: 'join_line' }
  | { kind: 'leave_line' }
  | { kind: 'ask_approval' }
  | { kind: 'wait'; for: Extract<WaitingReason, 'server_not_ready' | 'environment_removing'> }
  | { kind: 'mark_branch_missing' }
  /** Stored, so that the other event of the same push is skipped too. */
  | { kind: 'mark_skipped'; rule: 'skip_marker' | 'paths_unchanged' }

export interface Decision {
  intents: Intent[]
  outcome: DeliveryOutcome
  rule: DeliveryRule
  /** A sentence for our list of deliveries and for the forge's own. */
  reason: string
}

export const decide = (
  outcome: DeliveryOutcome,
  rule: DeliveryRule,
  reason: string,
  ...intents: Intent[]
): Decision => ({ intents, outcome, rule, reason })

export const RECORD: Intent = { kind: 'record' }

export const shortSha = (sha: string | null): string =>
  sha === null ? 'its head' : sha.slice(0, 7)
