// The rules for every delivery, before its kind is considered, in the order of the table. PURE.
import type { DeliveryOutcome, DeliveryRule } from '@berth/shared'
import { type Decision, decide } from './intent.ts'
import type { RepositoryMatch } from './repository-match.ts'

export interface EarlierDelivery {
  id: number
  outcome: DeliveryOutcome
  rule: DeliveryRule | null
  reason: string | null
}

export interface DeliveryFacts {
  /** The same delivery id, decided within seven days; never for a replay. */
  earlier: EarlierDelivery | undefined
  kind: 'push' | 'pull_request' | 'ping' | 'other' | 'malformed'
  /** The forge's name for an unused event; or where a malformed payload is wrong. */
  what: string
  match: RepositoryMatch | undefined
  projectDeleting: boolean
}

export const DELIVERY_ROWS = [
  'duplicate',
  'ping',
  'unsupported_event',
  'malformed_payload',
  'repository_mismatch',
  'project_deleting',
] as const
type DeliveryRow = (typeof DELIVERY_ROWS)[number]

const ROWS: Record<DeliveryRow, (f: DeliveryFacts) => Decision | undefined> = {
  duplicate: ({ earlier }) =>
    earlier &&
    decide(
      'duplicate',
      'duplicate',
      `Delivery ${earlier.id} was this one already: ${earlier.outcome}${earlier.reason ? `. ${earlier.reason}` : '.'}`,
    ),
  ping: ({ kind }) =>
    kind === 'ping' ? decide('applied', 'ping', 'The webhook works.') : undefined,
  unsupported_event: ({ kind, what }) =>
    kind === 'other'
      ? decide('ignored', 'unsupported_event', `Nothing here depends on "${what}".`)
      : undefined,
  malformed_payload: ({ kind, what }) =>
    kind === 'malformed'
      ? decide('ignored', 'malformed_payload', `The payload was not understood: ${what}.`)
      : undefined,
  repository_mismatch: ({ match }) =>
    match?.kind === 'mismatch' ? decide('ignored', 'repository_mismatch', match.reason) : undefined,
  project_deleting: ({ projectDeleting }) =>
    projectDeleting
      ? decide('ignored', 'project_deleting', 'The project is being deleted.')
      : undefined,
}

/** Undefined if the tables of pushes and pull requests decide. */
export function decideDelivery(facts: DeliveryFacts): Decision | undefined {
  for (const row of DELIVERY_ROWS) {
    const decision = ROWS[row](facts)
    if (decision) return decision
  }
  return undefined
}
