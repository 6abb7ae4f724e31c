import { expect, test } from 'vitest'
import { decideProviderUser, type ProviderFacts } from './provider-user.ts'

const FACTS: ProviderFacts = {
  email: 'ada@example.com',
  isVerified: true,
  isLinked: false,
  hasAccount: false,
  isDisabled: false,
  isInvited: false,
  domains: [],
  createsAccounts: false,
}
const decide = (facts: Partial<ProviderFacts>) => decideProviderUser({ ...FACTS, ...facts })

test.each([
  [{}, 'no_account'],
  [{ createsAccounts: true }, 'create'],
  [{ isInvited: true }, 'create'],
  [{ hasAccount: true }, 'link'],
  [{ hasAccount: true, isDisabled: true }, 'disabled'],
  [{ hasAccount: true, isVerified: false }, 'not_verified'],
  [{ createsAccounts: true, isVerified: false }, 'not_verified'],
  [{ isLinked: true, isVerified: false }, 'enter'],
  [{ isLinked: true, isDisabled: true }, 'disabled'],
  [{ email: '' }, 'no_email'],
  [{ domains: ['example.com'], isLinked: true }, 'enter'],
  [{ domains: ['example.org'], isLinked: true }, 'domain'],
  [{ domains: ['ample.com'], hasAccount: true }, 'domain'],
] as const)('%o: %s', (facts, verdict) => {
  expect(decide(facts)).toBe(verdict)
})
