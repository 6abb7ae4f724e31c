import { PEOPLE } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import { decidePoll, decideRefresh, readUserCode, showUserCode } from './device-login.ts'

const NOW = 1_000_000_000

describe('a poll', () => {
  const device = {
    status: 'pending' as const,
    expiresAt: NOW + 1,
    polledAt: null,
    intervalMs: 5_000,
  }

  test.each([
    ['an unknown code', undefined, 'invalid_grant'],
    ['a pending one', device, 'authorization_pending'],
    ['an approved one', { ...device, status: 'approved' as const }, 'issue'],
    ['a denied one', { ...device, status: 'denied' as const }, 'access_denied'],
    ['a used one', { ...device, status: 'spent' as const }, 'invalid_grant'],
    ['an expired one', { ...device, expiresAt: NOW }, 'expired_token'],
    [
      'an approved, expired one',
      { ...device, status: 'approved' as const, expiresAt: NOW },
      'expired_token',
    ],
    [
      'a used, expired one',
      { ...device, status: 'spent' as const, expiresAt: NOW },
      'invalid_grant',
    ],
    ['one asked about 5 s ago', { ...device, polledAt: NOW - 5_000 }, 'authorization_pending'],
    [
      'a denied one asked about too soon',
      { ...device, status: 'denied' as const, polledAt: NOW - 1 },
      'access_denied',
    ],
  ])('of %s', (_, facts, kind) => {
    expect(decidePoll(facts, NOW)).toEqual({ kind })
  })

  test('too soon is slowed down, by 5 s each time and to a bound, approved or not', () => {
    for (const status of ['pending', 'approved'] as const) {
      const soon = { ...device, status, polledAt: NOW - 4_999 }
      expect(decidePoll(soon, NOW)).toEqual({ kind: 'slow_down', intervalMs: 10_000 })
    }
    const slow = { ...device, polledAt: NOW - 1, intervalMs: PEOPLE.devicePollMaxMs }
    expect(decidePoll(slow, NOW)).toEqual({ kind: 'slow_down', intervalMs: PEOPLE.devicePollMaxMs })
  })
})

describe('a refresh token', () => {
  const token = {
    expiresAt: NOW + 1,
    spentAt: null,
    repeatedAt: null,
    loginRevoked: false,
    userDisabled: false,
  }
  test.each([
    ['unknown', undefined, 'refuse'],
    ['good', token, 'rotate'],
    ['idle for too long', { ...token, expiresAt: NOW }, 'refuse'],
    ['of a revoked login', { ...token, loginRevoked: true }, 'refuse'],
    ['of a disabled user', { ...token, userDisabled: true }, 'refuse'],
    ['spent 30 s ago', { ...token, spentAt: NOW - 30_000 }, 'repeat'],
    ['spent 30 s ago and repeated', { ...token, spentAt: NOW - 1, repeatedAt: NOW - 1 }, 'revoke'],
    ['spent longer ago', { ...token, spentAt: NOW - 30_001 }, 'revoke'],
    ['spent and expired', { ...token, spentAt: NOW - 90_000, expiresAt: NOW }, 'revoke'],
    ['spent, of a revoked login', { ...token, spentAt: 1, loginRevoked: true }, 'refuse'],
  ])('%s', (_, facts, verdict) => {
    expect(decideRefresh(facts, NOW)).toBe(verdict)
  })
})

test('a code is read as people type it', () => {
  expect(showUserCode('WDJBMJHT')).toBe('WDJB-MJHT')
  for (const typed of ['WDJB-MJHT', 'wdjbmjht', ' wdjb mjht ', 'WD-JB-MJ-HT']) {
    expect(readUserCode(typed), typed).toBe('WDJBMJHT')
  }
  for (const bad of ['', 'WDJB-MJH', 'WDJB-MJHTX', 'WDJB-MJHA', 'WDJB-MJH0', 'WDJB_MJHT']) {
    expect(readUserCode(bad), bad).toBeUndefined()
  }
})
