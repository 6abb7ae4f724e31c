import { LATENCY_BOUNDS_MS, USAGE } from '@berth/shared'
import { expect, test } from 'vitest'
import { ownersOf, parseRequest, Tally } from './tally.ts'

const MINUTE = 60_000
const T0 = 1_763_197_200_000 // a whole minute
const OWNERS = ownersOf([
  { host: 'a.example.com', environmentId: 1 },
  { host: 'api-a.example.com', environmentId: 1 },
  { host: 'b.example.com', environmentId: 2 },
])

/** As Caddy writes it. */
const line = (of: { host?: unknown; status?: unknown; ms?: number; at?: number; uri?: string }) =>
  JSON.stringify({
    level: 'info',
    ts: (of.at ?? T0) / 1_000,
    logger: 'http.log.access',
    msg: 'handled request',
    request: {
      remote_ip: '203.0.113.9',
      proto: 'HTTP/2.0',
      method: 'GET',
      host: of.host ?? 'a.example.com',
      uri: of.uri ?? '/',
    },
    duration: (of.ms ?? 7) / 1_000,
    status: of.status ?? 200,
  })

test('counts by environment and minute, by class, and by duration', () => {
  const tally = new Tally()
  const now = T0 + MINUTE
  tally.add(line({ ms: 4 }), OWNERS, now)
  tally.add(line({ host: 'API-A.example.com:8443', status: 404, ms: 60_000 }), OWNERS, now)
  tally.add(line({ host: 'b.example.com.', status: 503, ms: 75 }), OWNERS, now)
  tally.add(line({ status: 301, at: T0 + MINUTE }), OWNERS, now)
  tally.readUntil(T0 + 2 * MINUTE)
  const { minutes, until } = tally.whole()
  expect(until).toBe(T0 + 2 * MINUTE)
  expect(minutes.map(({ minute }) => minute)).toEqual([T0, T0 + MINUTE])
  const [first, second] = minutes
  expect(first?.counts[1]).toMatchObject({ requests: 2, statuses: [1, 0, 1, 0] })
  expect(first?.counts[1]?.latencies[0]).toBe(1)
  expect(first?.counts[1]?.latencies.at(-1)).toBe(1)
  expect(first?.counts[2]).toMatchObject({ requests: 1, statuses: [0, 0, 0, 1] })
  expect(first?.counts[2]?.latencies[LATENCY_BOUNDS_MS.indexOf(75)]).toBe(1)
  expect(second?.counts).toMatchObject({ 1: { requests: 1, statuses: [0, 1, 0, 0] } })
})

test('what a client writes into its request changes nothing', () => {
  const hostile =
    '/","host":"b.example.com","status":500,"ts":0}\n{"request":{"host":"b.example.com"}'
  const tally = new Tally()
  tally.add(line({ uri: hostile }), OWNERS, T0)
  tally.add(line({ uri: '/__proto__' }), OWNERS, T0)
  tally.add(line({ host: '__proto__' }), OWNERS, T0)
  tally.add(line({ host: 'b.example.com\\u0000' }), OWNERS, T0)
  tally.readUntil(T0 + MINUTE)
  expect(tally.whole().minutes).toMatchObject([{ counts: { 1: { requests: 2 } } }])
  expect(Object.keys(tally.whole().minutes[0]?.counts ?? {})).toEqual(['1'])
})

test.each([
  'no JSON',
  '',
  'null',
  '[]',
  '{"ts":1,"status":200,"duration":1}',
  line({ host: 7 }),
  line({ status: '200' }),
  line({ status: 2.5 }),
  line({ host: 'x'.repeat(301) }),
  line({ ms: -1 }),
])('a line that is no request is passed over: %.40s', (text) => {
  expect(parseRequest(text)).toBeUndefined()
})

test('a hostname of two environments belongs to none', () => {
  const owners = ownersOf([
    { host: 'x.example.com', environmentId: 1 },
    { host: 'x.example.com', environmentId: 1 },
    { host: 'y.example.com', environmentId: 1 },
    { host: 'y.example.com', environmentId: 2 },
    { host: 'y.example.com', environmentId: 1 },
  ])
  expect([...owners]).toEqual([['x.example.com', 1]])
})

test('a WebSocket and a request without an answer count, but not by class or duration', () => {
  const tally = new Tally()
  tally.add(line({ status: 101, ms: 3_600_000 }), OWNERS, T0)
  tally.add(line({ status: 0 }), OWNERS, T0)
  tally.readUntil(T0 + MINUTE)
  const counts = tally.whole().minutes[0]?.counts[1]
  expect(counts).toMatchObject({ requests: 2, statuses: [0, 0, 0, 0] })
  expect(counts?.latencies.every((n) => n === 0)).toBe(true)
})

test('a minute leaves when it is whole, and stays until it is stored', () => {
  const tally = new Tally()
  tally.add(line({}), OWNERS, T0)
  expect(tally.whole().minutes).toEqual([])
  tally.add(line({ at: T0 + MINUTE }), OWNERS, T0 + MINUTE) // a later line ends the minute
  expect(tally.whole()).toMatchObject({ minutes: [{ minute: T0 }], until: T0 + MINUTE })
  expect(tally.whole().minutes).toHaveLength(1)
  tally.forget(tally.whole().until)
  expect(tally.whole().minutes).toEqual([])
  tally.readUntil(T0 + 2 * MINUTE)
  expect(tally.whole()).toMatchObject({ minutes: [{ minute: T0 + MINUTE }] })
})

test('a clock that goes back adds to the present minute', () => {
  const tally = new Tally()
  tally.add(line({ at: T0 + 5 * MINUTE }), OWNERS, T0 + 5 * MINUTE)
  tally.add(line({ at: T0 }), OWNERS, T0 + 5 * MINUTE)
  tally.readUntil(T0 + 6 * MINUTE)
  expect(tally.whole().minutes).toMatchObject([
    { minute: T0 + 5 * MINUTE, counts: { 1: { requests: 2 } } },
  ])
})

test('a backlog leaves in parts, oldest first, and what is too old or in the future is dropped', () => {
  const now = T0 + USAGE.backlogMinutes * MINUTE
  const tally = new Tally()
  tally.add(line({ at: T0 - MINUTE }), OWNERS, now)
  tally.add(line({ at: now + 2 * MINUTE }), OWNERS, now)
  for (let i = 0; i < USAGE.requestMinutes + 3; i++) {
    tally.add(line({ at: T0 + i * MINUTE }), OWNERS, now)
  }
  tally.readUntil(now)
  const first = tally.whole()
  expect(first.minutes).toHaveLength(USAGE.requestMinutes)
  expect(first.minutes[0]?.minute).toBe(T0)
  expect(first.until).toBe(T0 + USAGE.requestMinutes * MINUTE)
  tally.forget(first.until)
  expect(tally.whole().minutes).toHaveLength(3)
  tally.readUntil(now + USAGE.backlogMinutes * MINUTE)
  expect(tally.whole().minutes).toEqual([])
})

test('is the same after it was written down', () => {
  const tally = new Tally()
  tally.add(line({}), OWNERS, T0)
  tally.readUntil(T0 + MINUTE)
  const { minutes, wholeUntil } = JSON.parse(JSON.stringify(tally.toJson()))
  expect(new Tally(minutes, wholeUntil).whole()).toEqual(tally.whole())
})
