// Decides what becomes of a person whom the sign-in provider vouches for. PURE.

export interface ProviderFacts {
  /** In lower case; empty if the provider sent none. */
  email: string
  /** The provider says that the address belongs to the person. */
  isVerified: boolean
  /** An account has this subject of the provider already. */
  isLinked: boolean
  /** An account has the e-mail address. */
  hasAccount: boolean
  isDisabled: boolean
  /** An open invitation names the address. */
  isInvited: boolean
  /** Those that may sign in; empty: all. */
  domains: readonly string[]
  createsAccounts: boolean
}

export type ProviderVerdict =
  | 'enter'
  | 'link'
  | 'create'
  | 'no_email'
  | 'not_verified'
  | 'domain'
  | 'no_account'
  | 'disabled'

export function decideProviderUser(facts: ProviderFacts): ProviderVerdict {
  const { email, domains } = facts
  if (email === '') return 'no_email'
  // also for linked accounts: people leave a company, and the list changes
  if (domains.length > 0 && !domains.includes(email.split('@').at(-1) ?? '')) return 'domain'
  if (facts.isLinked) return facts.isDisabled ? 'disabled' : 'enter'
  // an unverified address would open the account of another person
  if (!facts.isVerified) return 'not_verified'
  if (facts.isDisabled) return 'disabled'
  if (facts.hasAccount) return 'link'
  return facts.createsAccounts || facts.isInvited ? 'create' : 'no_account'
}
