import { expect, test } from 'vitest'
import { isAdmitted } from './second-factor.ts'

const membership = (since: number | null, joinedAt = 10) => ({
  organizationId: 1,
  organizationName: 'Acme',
  organizationSlug: 'acme',
  role: 'developer' as const,
  joinedAt,
  secondFactorSince: since,
})

test('without the requirement, and with a factor, everything counts', () => {
  const none = { hasSecondFactor: false, tokenMadeAt: null }
  expect(isAdmitted(membership(null), none)).toBe(true)
  expect(isAdmitted(membership(100), { ...none, hasSecondFactor: true })).toBe(true)
  expect(isAdmitted(membership(100), none)).toBe(false)
})

test('a token continues if it and the membership are older than the requirement', () => {
  const token = (tokenMadeAt: number) => ({ hasSecondFactor: false, tokenMadeAt })
  expect(isAdmitted(membership(100), token(50))).toBe(true)
  expect(isAdmitted(membership(100), token(101))).toBe(false)
  expect(isAdmitted(membership(100, 101), token(50))).toBe(false)
})
