// The table of purposes and every obstacle, as data.
import { SSH } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import type { Caller } from '../core/access.ts'
import {
  type AskedGrant,
  certificateStatus,
  decideGrant,
  type GrantFacts,
  needsEnvironment,
  planCertificate,
  sshEndpointOf,
} from './grant.ts'

const caller = { userId: 17 } as Caller
const asked = (purpose: AskedGrant['purpose'], environmentId: number | null = 42): AskedGrant => ({
  purpose,
  environmentId,
  ttlSeconds: 300,
})
const open = { protected: false, ownerId: 17, removing: false }
const ready = { joined: true, shellEnabled: false, sshOff: false }
const decide = (grant: AskedGrant, over: Partial<GrantFacts> = {}): string => {
  const environment = grant.environmentId === null ? undefined : open
  return decideGrant(caller, grant, { server: ready, environment, ...over }).kind
}

describe('decideGrant', () => {
  test('a running environment on a joined server', () => {
    for (const purpose of ['logs', 'artifact', 'shell'] as const) {
      expect(decide(asked(purpose))).toBe('granted')
    }
  })

  test('protected: only its owner opens a shell, everybody who reads has logs and artifacts', () => {
    const others = { ...open, protected: true, ownerId: 18 }
    const own = { ...open, protected: true }
    expect(decide(asked('shell'), { environment: others })).toBe('protected')
    expect(decide(asked('shell'), { environment: own })).toBe('granted')
    expect(decide(asked('logs'), { environment: others })).toBe('granted')
    expect(decide(asked('artifact'), { environment: others })).toBe('granted')
  })

  test('being removed: nothing any more, and protection is told first', () => {
    const removing = { ...open, removing: true }
    for (const purpose of ['logs', 'artifact', 'shell'] as const) {
      expect(decide(asked(purpose), { environment: removing })).toBe('removing')
    }
    const both = { protected: true, ownerId: 18, removing: true }
    expect(decide(asked('shell'), { environment: both })).toBe('protected')
  })

  test('the whole server: only where it is switched on', () => {
    expect(decide(asked('shell', null))).toBe('shell_disabled')
    const server = { joined: true, shellEnabled: true, sshOff: false }
    expect(decide(asked('shell', null), { server })).toBe('granted')
    expect(decide(asked('shell'), { server: ready })).toBe('granted') // an environment needs no switch
  })

  test('a server that never joined', () => {
    const server = { joined: false, shellEnabled: true, sshOff: true }
    for (const grant of [asked('logs'), asked('artifact'), asked('shell'), asked('shell', null)]) {
      expect(decide(grant, { server })).toBe('server_not_ready')
    }
  })

  test('a server to which nobody can connect gets no certificate', () => {
    const server = { joined: true, shellEnabled: true, sshOff: true }
    for (const grant of [asked('logs'), asked('artifact'), asked('shell'), asked('shell', null)]) {
      expect(decide(grant, { server })).toBe('ssh_unavailable')
    }
  })
})

describe('planCertificate', () => {
  const holder = { userId: 17, organizationId: 3, serverId: 7 }
  const nowMs = 1_794_730_000_999
  const now = 1_794_730_000
  const plan = (grant: AskedGrant) => planCertificate(grant, holder, '4711', nowMs)

  test.each([
    ['logs', 42, 'read', 'berth-ssh', 'berth:server:7', ['logs'], 12 * 3_600],
    ['artifact', 42, 'read', 'berth-ssh', 'berth:server:7', ['artifact'], 3_600],
    ['shell', 42, 'ssh', 'berth-shell', 'berth:server:7:shell', ['shell', 'exec'], 8 * 3_600],
    ['shell', null, 'server:write', 'berth-shell', 'berth:server:7:shell', ['server'], 8 * 3_600],
  ] as const)('%s in %s', (purpose, environment, permission, account, principal, can, seconds) => {
    const made = plan(asked(purpose, environment))
    expect(made).toMatchObject({ permission, account, principal, can, until: now + seconds })
    const [[name, value] = [], ...rest] = made.extensions
    expect(name).toBe('grant@berth.dev')
    expect(JSON.parse(value ?? '')).toEqual({
      v: 1,
      server: 7,
      user: 17,
      organization: 3,
      environment,
      can,
      until: now + seconds,
    })
    expect(rest).toEqual(account === 'berth-shell' ? [['permit-pty', '']] : [])
    expect(made.keyId).toBe(`user=17;env=${environment ?? '-'};server=7;jti=4711`)
    expect(made.keyId).toMatch(/^[\x21-\x2b\x2d-\x7e]+$/)
  })

  test('a minute early, exactly as long as asked, whole seconds', () => {
    for (const ttlSeconds of [SSH.ttlMinSeconds, SSH.ttlSeconds, SSH.ttlMaxSeconds]) {
      const made = plan({ ...asked('logs'), ttlSeconds })
      expect([made.validAfter, made.validBefore]).toEqual([now - 60, now + ttlSeconds])
    }
  })
})

test('only a shell can do without an environment', () => {
  expect(['logs', 'artifact', 'shell'].map((p) => needsEnvironment(p as 'logs'))).toEqual([
    true,
    true,
    false,
  ])
})

test('where people connect: a port that was set, otherwise what the agent set up', () => {
  const parts = [{ name: 'sshd', reason: 'Because.' }]
  const at = (sshPort: number, ssh?: { isOff: boolean; port: number }) =>
    sshEndpointOf({ sshPort, host: { ...(ssh ? { ssh } : {}), parts } })
  const reason = 'Because.'
  expect(at(22, { isOff: false, port: 2222 })).toEqual({ state: 'ready', port: 2222, reason })
  expect(at(2022, { isOff: false, port: 2222 })).toEqual({ state: 'ready', port: 2022, reason })
  expect(at(22, { isOff: true, port: 0 })).toEqual({ state: 'off', port: 22, reason })
  expect(at(22)).toEqual({ state: 'unknown', port: 22, reason })
  expect(sshEndpointOf({ sshPort: 22, host: null })).toEqual({
    state: 'unknown',
    port: 22,
    reason: null,
  })
})

test('the word for a certificate', () => {
  const row = { signedAt: 1, revokedAt: null, validBefore: 100 }
  expect(certificateStatus(row, 99)).toBe('active')
  expect(certificateStatus(row, 100)).toBe('expired')
  expect(certificateStatus({ ...row, signedAt: null }, 99)).toBe('unsigned')
  expect(certificateStatus({ ...row, revokedAt: 5 }, 200)).toBe('revoked')
})
