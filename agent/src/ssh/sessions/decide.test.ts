// The agent's decision table, and the parser of requests.
import { generateKeyPairSync, sign } from 'node:crypto'
import { PassThrough } from 'node:stream'
import { GRANT_EXTENSION } from '@berth/shared'
import { ed25519PublicKey, signCertificate } from '@berth/shared/ssh'
import { describe, expect, test } from 'vitest'
import type { SshSessionRow } from '../../journal/ssh-sessions.ts'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { parseVerb, sessionEnd } from '../commands/commands.ts'
import { decideSession, type Facts, readHello, readSize } from './decide.ts'
import type { Hello } from './frames.ts'
import { createFrameReader, encodeFrame, FRAME, writeFrames } from './frames.ts'

const NOW = 1_794_700_000
const ca = generateKeyPairSync('ed25519').privateKey
const probe = generateKeyPairSync('ed25519').privateKey
const person = ed25519PublicKey(generateKeyPairSync('ed25519').publicKey)
const GRANT = { v: 1, server: 7, user: 17, organization: 3, environment: 42, can: ['logs'] }

const certify = (grant: object | null, over: { by?: typeof ca; principal?: string } = {}) => {
  const text = JSON.stringify({ ...GRANT, until: NOW + 600, ...grant })
  const by = over.by ?? ca
  return signCertificate(
    person,
    {
      kind: 'user',
      serial: 5n,
      keyId: 'user=17',
      principals: [over.principal ?? 'berth:server:7'],
      validAfter: NOW - 60,
      validBefore: NOW + 300,
      criticalOptions: new Map(),
      extensions: new Map(grant === null ? [] : [[GRANT_EXTENSION, text]]),
    },
    { publicKey: ed25519PublicKey(by), sign: (bytes) => sign(null, bytes, by) },
  )
}

const hello = (certificate: string, over: Partial<Hello> = {}): Hello => ({
  certificate: certificate.split(' ')[1] ?? '',
  request: 'logs web --follow',
  account: 'berth-ssh',
  pid: 1,
  terminal: null,
  ...over,
})
const facts = (over: Partial<Facts> = {}): Facts => ({
  serverId: 7,
  authorities: [ed25519PublicKey(ca)],
  probe: undefined,
  revoked: new Set(),
  sessions: [],
  allowsServerShell: false,
  nowSeconds: NOW,
  ...over,
})
const sessions = (count: number, userId: number): SshSessionRow[] =>
  Array.from({ length: count }, () => ({ userId }) as SshSessionRow)

describe('a session', () => {
  test('is given to an honest certificate', async () => {
    const decision = decideSession(hello(await certify({})), facts())
    expect(decision).toMatchObject({ kind: 'session', account: 'berth-ssh' })
    expect(decision).toMatchObject({ verb: { verb: 'logs', service: 'web', follow: true } })
  })

  test.each<[string, object | null, Partial<Hello>, Partial<Facts>, RegExp]>([
    ['revoked', {}, {}, { revoked: new Set(['5']) }, /revoked/],
    ['of an unknown authority', {}, {}, { authorities: [] }, /unknown authority/],
    ['expired', {}, {}, { nowSeconds: NOW + 300 }, /outside its time/],
    ['on another server', {}, {}, { serverId: 8 }, /another server/],
    ['without grant', null, {}, {}, /no grant/],
    ['of a newer grant', { v: 2 }, {}, {}, /version/],
    ['with a grant that is over', { until: NOW }, {}, {}, /over/],
    ['for a verb it does not have', {}, { request: 'artifact a1' }, {}, /does not allow/],
    ['for the same verb for many', {}, { request: 'artifacts a1 b2' }, {}, /does not allow/],
    ['on an account of nobody', {}, { account: 'root' }, {}, /no account/],
    ['on the other account', {}, { account: 'berth-shell' }, {}, /another server or account/],
    [
      'with too many of theirs',
      {},
      {},
      { sessions: sessions(SSH_SESSIONS.perUser, 17) },
      /End one/,
    ],
    ['with too many', {}, {}, { sessions: sessions(SSH_SESSIONS.perServer, 18) }, /later/],
    ['saying probe', { can: ['probe'] }, { request: 'probe' }, {}, /does not allow/],
  ])('is refused to one that is %s', async (_, grant, over, seen, why) => {
    const certificate = await certify(grant)
    expect(() => decideSession(hello(certificate, over), facts(seen))).toThrow(why)
  })

  test('of the whole server needs the opt-in of the server', async () => {
    const certificate = await certify(
      { can: ['server'], environment: null },
      { principal: 'berth:server:7:shell' },
    )
    const terminal = { columns: 80, rows: 24 }
    const asked = hello(certificate, { account: 'berth-shell', request: 'server', terminal })
    expect(() => decideSession(asked, facts())).toThrow(/not allowed on this server/)
    const allowed = decideSession(asked, facts({ allowsServerShell: true }))
    expect(allowed).toMatchObject({ kind: 'session', verb: { verb: 'server' } })
  })

  test("of the agent's own login may say probe and nothing else", async () => {
    const certificate = await certify({}, { by: probe })
    const seen = facts({ probe: ed25519PublicKey(probe) })
    const asked = hello(certificate, { request: 'probe' })
    expect(decideSession(asked, seen)).toEqual({ kind: 'probe' })
    expect(() => decideSession(hello(certificate), seen)).toThrow(/does not allow/)
    expect(() => decideSession(asked, facts())).toThrow(/unknown authority/)
  })

  test('of a command ends after an hour, others when the grant does', () => {
    const grant = { ...GRANT, v: 1, can: ['exec'], until: NOW + 90_000 } as Parameters<
      typeof sessionEnd
    >[0]
    expect(sessionEnd(grant, { verb: 'exec', service: null, argv: ['x'] }, NOW)).toBe(NOW + 3_600)
    expect(sessionEnd(grant, { verb: 'shell', service: null }, NOW)).toBe(NOW + 90_000)
  })
})

describe('a request', () => {
  test('of logs with everything', () => {
    const text =
      'logs - --tail=5 --since=2026-11-14T07:31:02Z --until=2026-11-14T08:00:00.5Z --timestamps'
    expect(parseVerb(text)).toEqual({
      verb: 'logs',
      service: null,
      tail: 5,
      since: '2026-11-14T07:31:02Z',
      until: '2026-11-14T08:00:00.5Z',
      follow: false,
    })
    expect(parseVerb('logs --follow')).toMatchObject({ service: null, follow: true })
  })

  test.each([
    ...['', 'id', 'logs  web', 'logs web;id', 'logs "web"', 'logs ../x', 'logs web --tail=x'],
    ...['logs web --since=yesterday', 'logs web --nonsense', 'artifact', 'artifact ../x'],
    ...[
      'artifact a 1 2',
      'artifacts',
      'artifacts a ../b',
      `artifacts ${'a '.repeat(1_000)}a`,
      'artifact a -1',
      'shell a b',
      'exec',
      'exec web',
      'exec W10 web',
      'exec web W10',
    ],
    ...['exec web IiI', 'exec web WzFd', 'server x', 'logs\nweb', `logs ${'a'.repeat(70_000)}`],
  ])('%j is none', (text) => {
    expect(() => parseVerb(text)).toThrow()
  })

  test('of a socket must be whole', () => {
    const whole = {
      certificate: 'a',
      request: 'logs',
      account: 'berth-ssh',
      pid: 9,
      terminal: null,
    }
    expect(readHello(Buffer.from(JSON.stringify(whole)))).toEqual(whole)
    for (const over of [{ pid: 0 }, { pid: '9' }, { request: 1 }, { certificate: null }]) {
      expect(() => readHello(Buffer.from(JSON.stringify({ ...whole, ...over })))).toThrow(
        /complete/,
      )
    }
    expect(readSize({ columns: 5_000, rows: 3 })).toEqual({ columns: 1_000, rows: 3 })
    expect(readSize({ columns: -1, rows: 3 })).toBeNull()
  })
})

test('frames survive any cutting, and a long one is refused', () => {
  const sent = Buffer.concat([encodeFrame(FRAME.data, 'one'), encodeFrame(FRAME.exit, '{}')])
  for (let size = 1; size <= sent.length; size += 1) {
    const seen: [number, string][] = []
    const read = createFrameReader(({ kind, payload }) => {
      const last = seen.at(-1)
      if (last?.[0] === kind) last[1] += payload.toString()
      else seen.push([kind, payload.toString()])
    })
    for (let at = 0; at < sent.length; at += size) read(sent.subarray(at, at + size))
    expect(seen).toEqual([
      [FRAME.data, 'one'],
      [FRAME.exit, '{}'],
    ])
  }
  const long = Buffer.alloc(SSH_SESSIONS.frameBytes + 1)
  const socket = new PassThrough({ highWaterMark: 2 * long.length })
  writeFrames(socket, FRAME.data, long)
  let count = 0
  createFrameReader(({ payload }) => {
    count += payload.length
  })(socket.read())
  expect(count).toBe(long.length)
  expect(() => createFrameReader(() => undefined)(encodeFrame(FRAME.data, long))).toThrow(/long/)
})
