// The session as a pure state machine: order, deadlines, epochs, versions, goodbyes. No network, no timers.

import { SESSION } from '@berth/shared'
import { AssignmentsSchema, Desired, GoodbyeReason, ServerMessageSchema } from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import {
  type Effect,
  nextTickAt,
  type SessionEvent,
  type SessionState,
  startSession,
  stepSession,
} from './session-rules.ts'

type Msg = MessageInitShape<typeof ServerMessageSchema>['msg']
const EPOCH = 12n
const message = (msg: Msg, sessionEpoch = EPOCH): SessionEvent => ({
  type: 'message',
  message: create(ServerMessageSchema, { sessionEpoch, msg: msg ?? { case: undefined } }),
})
const WELCOME = message({
  case: 'welcome',
  value: {
    protocol: 1,
    heartbeatInterval: durationFromMs(10_000),
    sessionTimeout: durationFromMs(30_000),
  },
})
const id = (n: number): string => `0198c0de-0000-7000-8000-${String(n).padStart(12, '0')}`
const item = (n: number) => ({
  attemptId: id(n),
  environmentId: 1,
  fence: BigInt(n),
  desired: Desired.RUNNING,
})
const set = (over: MessageInitShape<typeof AssignmentsSchema>): SessionEvent =>
  message({ case: 'assignments', value: create(AssignmentsSchema, over) })
const COMPLETE = set({ complete: true, last: true, version: 5n })

/** Replays events at their times; returns the last state and the name of every effect. */
function play(events: [number, SessionEvent][], from: SessionState = startSession(3n, 0)) {
  let state = from
  const effects: Effect[] = []
  for (const [at, event] of events) {
    const step = stepSession(state, event, at)
    state = step.state
    effects.push(...step.effects)
  }
  return { state, effects, words: effects.map((e) => e.do).join(' ') }
}
const CONNECTED: SessionEvent = { type: 'connected' }
const TICK: SessionEvent = { type: 'tick' }
const active = (): SessionState =>
  play([
    [1, CONNECTED],
    [2, WELCOME],
    [3, COMPLETE],
  ]).state

test('dial, Hello, Welcome, complete set, ACTIVE: in this order', () => {
  const { state, words } = play([
    [1, CONNECTED],
    [2, WELCOME],
    [3, message({ case: 'edge', value: {} })],
    [4, message({ case: 'trust', value: { generation: 1n } })],
    [5, set({ complete: true, last: false, version: 5n, assignments: [item(1)] })],
    [6, set({ complete: true, last: true, version: 5n, assignments: [item(2)] })],
  ])
  expect(words).toBe('hello welcome edge trust apply activate')
  expect(state).toMatchObject({ phase: 'active', version: 5n, epoch: EPOCH, activeSince: 6 })
})

test('the end of a session carries the window that the control plane named last, bounded', () => {
  const failed: [number, SessionEvent] = [9, { type: 'failed', message: 'reset' }]
  const spreadOf = (events: [number, SessionEvent][], from?: SessionState) => {
    const [last] = play([...events, failed], from).effects.slice(-1)
    return last?.do === 'end' ? last.end.spreadMs : undefined
  }
  const beat = (ms: number): [number, SessionEvent] => [
    5,
    message({ case: 'heartbeatAck', value: { n: 1n, reconnectSpread: durationFromMs(ms) } }),
  ]
  expect(spreadOf([[1, CONNECTED]])).toBeUndefined()
  expect(spreadOf([], active())).toBe(0)
  expect(spreadOf([beat(17_000)], active())).toBe(17_000)
  expect(spreadOf([beat(1e9)], active())).toBe(SESSION.reconnectSpreadMs)
})

test('to stop or forget an attempt its environment need not be known', () => {
  const orders = [Desired.STOPPED, Desired.FORGOTTEN]
  const assignments = orders.map((desired, n) => ({ ...item(n + 1), environmentId: 0, desired }))
  const { words } = play([[4, set({ baseVersion: 5n, version: 6n, assignments })]], active())
  expect(words).toBe('apply')
})

test('a complete set takes effect with its last message only, and whole', () => {
  const { effects } = play([
    [1, CONNECTED],
    [2, WELCOME],
    [5, set({ complete: true, last: false, version: 5n, assignments: [item(1)] })],
    [6, set({ complete: true, last: true, version: 5n, assignments: [item(2)] })],
  ])
  const apply = effects.find((e) => e.do === 'apply')
  expect(apply?.assignments.map((a) => a.attemptId)).toEqual([id(1), id(2)])
})

test.each<[string, [number, SessionEvent][], string]>([
  ['dialling', [], 'no connection within 10 s'],
  ['Welcome', [[9_000, CONNECTED]], 'no Welcome within 10 s'],
  [
    'the complete set',
    [
      [1, CONNECTED],
      [9_000, WELCOME],
    ],
    'no complete Assignments within 10 s',
  ],
])('%s has 10 s', (_name, before, expected) => {
  const { state } = play(before)
  const due = state.phaseEndsAt
  expect(stepSession(state, TICK, due - 1).state.phase).not.toBe('ended')
  const { effects } = stepSession(state, TICK, due)
  expect(effects).toMatchObject([{ do: 'end', end: { message: expected, activeMs: 0 } }])
})

describe('in line', () => {
  const WAITING = message({ case: 'waiting', value: { n: 7 } })
  const every = (ms: number, until: number): [number, SessionEvent][] =>
    Array.from({ length: Math.ceil(until / ms) }, (_, n) => [n * ms, WAITING])

  test('each Waiting gives Welcome 10 s again', () => {
    const { state, effects } = play([[0, CONNECTED], ...every(3_000, 60_000)])
    expect([state.phase, effects.length]).toEqual(['hello_sent', 21]) // Hello, and an answer to each
    expect(effects.at(-1)).toEqual({ do: 'waiting', n: 7 })
    expect(stepSession(state, TICK, 66_999).state.phase).toBe('hello_sent')
    const late = stepSession(state, TICK, 67_000).effects
    expect(late).toMatchObject([{ do: 'end', end: { message: 'no Welcome within 10 s' } }])
    const { words } = play([[62_000, WELCOME]], state)
    expect(words).toBe('welcome')
  })

  test('it leaves a line in which no turn comes', () => {
    const { state } = play([[0, CONNECTED], ...every(3_000, SESSION.lineMs)])
    expect(stepSession(state, TICK, SESSION.lineMs - 1).state.phase).toBe('hello_sent')
    const { effects } = stepSession(state, TICK, SESSION.lineMs)
    const end = { message: 'no turn in line within 10 min' }
    expect(effects).toMatchObject([{ do: 'end', end }])
  })

  test('a Waiting that Welcome has overtaken changes nothing', () => {
    const { state, words } = play([
      [1, CONNECTED],
      [2, WELCOME],
      [3, WAITING],
    ])
    expect([words, state.phase, state.phaseEndsAt]).toEqual(['hello welcome', 'syncing', 10_002])
  })
})

test('silence for the session timeout ends it; any message is life', () => {
  const state = active()
  const alive = stepSession(state, message({ case: 'eventAck', value: {} }), 20_000).state
  expect(stepSession(alive, TICK, 49_999).state.phase).toBe('active')
  const { effects } = stepSession(alive, TICK, 50_000)
  expect(effects).toMatchObject([{ do: 'end', end: { activeMs: 49_997 } }])
})

test('the first heartbeat is early, because facts of the start go with it', () => {
  expect(active().heartbeatAt).toBe(SESSION.firstHeartbeatMs + 2)
})

test("heartbeats keep the server's interval, also a changed one", () => {
  const first = play([[10_002, TICK]], active())
  expect(first.effects).toEqual([{ do: 'heartbeat', n: 1n }])
  expect(first.state.heartbeatAt).toBe(20_002)
  const ack = message({
    case: 'heartbeatAck',
    value: { n: 1n, nextInterval: durationFromMs(4_000) },
  })
  const { state, effects } = play([[10_100, ack]], first.state)
  expect(effects).toEqual([{ do: 'beaten', n: 1n }])
  expect([state.heartbeatMs, state.heartbeatAt]).toEqual([4_000, 14_100])
  expect(nextTickAt(state)).toBe(14_100)
})

test.each<[string, SessionEvent]>([
  ['assignments', set({ complete: false, baseVersion: 5n, version: 6n })],
  ['goodbye', message({ case: 'goodbye', value: {} })],
])('a message of another epoch is dropped: %s', (_name, event) => {
  const foreign = structuredClone(event)
  if (foreign.type === 'message') foreign.message.sessionEpoch = 11n
  const { state, effects } = stepSession(active(), foreign, 10)
  expect({ dropped: state.dropped, effects, phase: state.phase }).toEqual({
    dropped: 1,
    effects: [],
    phase: 'active',
  })
  expect(stepSession(active(), event, 10).effects).not.toEqual([])
})

test.each<[string, SessionState, SessionEvent, RegExp]>([
  [
    'a wrong base version',
    active(),
    set({ baseVersion: 4n, version: 6n }),
    /version 4, here is version 5/,
  ],
  [
    'a change before the complete set',
    play([
      [1, CONNECTED],
      [2, WELCOME],
    ]).state,
    set({ baseVersion: 3n, version: 4n }),
    /no complete set/,
  ],
  ['a second Welcome', active(), WELCOME, /second Welcome/],
  [
    'a protocol that was not offered',
    play([[1, CONNECTED]]).state,
    message({ case: 'welcome', value: { protocol: 2 } }),
    /protocol 2/,
  ],
  ['something before Welcome', play([[1, CONNECTED]]).state, COMPLETE, /neither Welcome nor/],
  [
    'an id that is no UUID',
    active(),
    set({ baseVersion: 5n, version: 6n, assignments: [{ ...item(1), attemptId: '../../etc' }] }),
    /not a UUID/,
  ],
  [
    'work without an environment',
    active(),
    set({ baseVersion: 5n, version: 6n, assignments: [{ ...item(1), environmentId: 0 }] }),
    /no environment/,
  ],
  [
    'no fence',
    active(),
    set({ baseVersion: 5n, version: 6n, assignments: [{ ...item(1), fence: 0n }] }),
    /fence/,
  ],
  [
    'a set beyond its bound',
    active(),
    set({
      complete: true,
      version: 6n,
      assignments: Array.from({ length: 2_001 }, (_, i) => item(i + 1)),
    }),
    /more than 2000/,
  ],
])('%s: goodbye, protocol error', (_name, state, event, text) => {
  const { effects } = stepSession(state, event, 10)
  expect(effects).toMatchObject([
    { do: 'goodbye', reason: GoodbyeReason.PROTOCOL_ERROR },
    { do: 'end' },
  ])
  expect(effects[0]?.do === 'goodbye' ? effects[0].message : '').toMatch(text)
})

test('changes follow each other by version; a later complete set does not activate again', () => {
  const { state, words } = play(
    [
      [10, set({ baseVersion: 5n, version: 6n, assignments: [item(1)] })],
      [11, set({ baseVersion: 6n, version: 9n })],
      [12, set({ complete: true, last: true, version: 10n })],
    ],
    active(),
  )
  expect(words).toBe('apply apply apply')
  expect(state.version).toBe(10n)
})

test('goodbye carries its reason and wait, before and after Welcome', () => {
  const goodbye = message({
    case: 'goodbye',
    value: {
      reason: GoodbyeReason.SERVER_DRAINING,
      message: 'Restarting.',
      reconnectAfter: durationFromMs(4_000),
    },
  })
  const said = { reason: GoodbyeReason.SERVER_DRAINING, reconnectAfterMs: 4_000 }
  for (const state of [play([[1, CONNECTED]]).state, active()]) {
    const { effects } = stepSession(state, goodbye, 10)
    expect(effects).toMatchObject([{ do: 'end', end: { goodbye: said } }])
    expect(effects[0]?.do === 'end' && effects[0].end.message).toMatch(/draining\): Restarting\./)
  }
})

test('a broken stream ends the session once, and the end is the end', () => {
  const { state, words } = play(
    [
      [20, { type: 'failed', message: 'reset' }],
      [21, { type: 'failed', message: 'again' }],
      [22, COMPLETE],
      [23, TICK],
    ],
    active(),
  )
  expect({ words, phase: state.phase }).toEqual({ words: 'end', phase: 'ended' })
})

test('questions, cancels, offers and acknowledgements are passed on', () => {
  const { words } = play(
    [
      [10, message({ case: 'request', value: { requestId: 'r' } })],
      [11, message({ case: 'cancelRequest', value: { requestId: 'r' } })],
      [12, message({ case: 'update', value: {} })],
      [13, message({ case: 'eventAck', value: { ackedSeq: 4n } })],
      [14, message({ case: undefined })],
    ],
    active(),
  )
  expect(words).toBe('answer cancel update ack')
})
