// Which memberships count for a user without a second factor, where an organization requires one. PURE.
import type { Membership } from '../core/access.ts'

export interface MembershipFacts extends Membership {
  joinedAt: number
  /** Since when members need a second factor; null: they do not. */
  secondFactorSince: number | null
}

/** The user's factor, and when the token in use was made; null in a browser. */
export interface FactorFacts {
  hasSecondFactor: boolean
  tokenMadeAt: number | null
}

/**
 * A token from before the requirement continues, so that no pipeline breaks unannounced. A browser waits for the
 * factor, and so does a token that came later, or came before its user joined.
 */
export const isAdmitted = (membership: MembershipFacts, facts: FactorFacts): boolean => {
  const { secondFactorSince: since, joinedAt } = membership
  if (since === null || facts.hasSecondFactor) return true
  return facts.tokenMadeAt !== null && facts.tokenMadeAt <= since && joinedAt <= since
}
