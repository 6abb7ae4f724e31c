// One session, from dialing to its end, as a pure function: takes what arrived or the time, returns what to do. Times
// are monotonic milliseconds. It enforces the order after Welcome: nothing is sent from the outbox, and nothing
// deleted, before the complete Assignments are in the journal.
import { DAEMON, SESSION } from '@berth/shared'
import {
  type Assignment,
  type Assignments,
  type CancelRequest,
  Desired,
  type EdgeSettings,
  type Goodbye,
  GoodbyeReason,
  type Request,
  type ServerMessage,
  type ServerSettings,
  type TrustBundle,
  type UpdateAgent,
  type Welcome,
} from '@berth/shared/wire'
import { type Duration, durationMs } from '@bufbuild/protobuf/wkt'
import type { SessionEnd } from './backoff.ts'

export type Phase = 'dialing' | 'hello_sent' | 'syncing' | 'active' | 'ended'

export interface SessionState {
  phase: Phase
  /** Deadline of the phase; Infinity in ACTIVE. */
  phaseEndsAt: number
  /** It leaves the line then, if it has no Welcome. */
  lineEndsAt: number
  epoch: bigint
  heardAt: number
  timeoutMs: number
  heartbeatMs: number
  heartbeatAt: number
  beats: bigint
  activeSince: number | undefined
  /** The window for the next try when this session breaks; undefined before Welcome. */
  spreadMs: number | undefined
  /** Version of the assignments in the journal. */
  version: bigint
  /** A complete set whose last message has not arrived. */
  collected: Assignment[] | undefined
  /** Messages of another epoch. */
  dropped: number
}

export type SessionEvent =
  | { type: 'connected' }
  | { type: 'message'; message: ServerMessage }
  /** A stream broke or ended, or an effect failed. */
  | { type: 'failed'; message: string }
  | { type: 'tick' }

export type Effect =
  | { do: 'hello' }
  /** Still here. */
  | { do: 'waiting'; n: number }
  | { do: 'welcome'; welcome: Welcome }
  | { do: 'apply'; complete: boolean; version: bigint; assignments: Assignment[] }
  /** Outbox, log stream, observed state. */
  | { do: 'activate' }
  | { do: 'ack'; seq: bigint }
  | { do: 'heartbeat'; n: bigint }
  /** The control plane has stored what the heartbeat brought. */
  | { do: 'beaten'; n: bigint }
  | { do: 'edge'; settings: EdgeSettings }
  | { do: 'settings'; settings: ServerSettings }
  | { do: 'trust'; bundle: TrustBundle }
  | { do: 'answer'; request: Request }
  | { do: 'cancel'; request: CancelRequest }
  | { do: 'update'; offer: UpdateAgent }
  | { do: 'goodbye'; reason: GoodbyeReason; message: string }
  | { do: 'end'; end: SessionEnd }

interface Step {
  state: SessionState
  effects: Effect[]
}

export const startSession = (version: bigint, now: number): SessionState => ({
  phase: 'dialing',
  phaseEndsAt: now + SESSION.dialMs,
  lineEndsAt: Number.POSITIVE_INFINITY,
  epoch: 0n,
  heardAt: now,
  timeoutMs: SESSION.heartbeatMaxMs * SESSION.timeoutIntervals,
  heartbeatMs: SESSION.heartbeatMaxMs,
  heartbeatAt: Number.POSITIVE_INFINITY,
  beats: 0n,
  activeSince: undefined,
  spreadMs: undefined,
  version,
  collected: undefined,
  dropped: 0,
})

/** When the next `tick` is due. */
export const nextTickAt = (s: SessionState): number =>
  s.phase === 'active'
    ? Math.min(s.heartbeatAt, s.heardAt + s.timeoutMs)
    : Math.min(s.phaseEndsAt, s.heartbeatAt)

export function stepSession(s: SessionState, event: SessionEvent, now: number): Step {
  if (s.phase === 'ended') return { state: s, effects: [] }
  switch (event.type) {
    case 'connected':
      if (s.phase !== 'dialing') return { state: s, effects: [] }
      return {
        state: {
          ...s,
          phase: 'hello_sent',
          phaseEndsAt: now + SESSION.welcomeMs,
          lineEndsAt: now + SESSION.lineMs,
          heardAt: now,
        },
        effects: [{ do: 'hello' }],
      }
    case 'failed':
      return end(s, now, event.message)
    case 'tick':
      return tick(s, now)
    case 'message':
      return receive({ ...s, heardAt: now }, event.message, now)
  }
}

function end(s: SessionState, now: number, message: string, goodbye?: Goodbye): Step {
  const activeMs = s.activeSince === undefined ? 0 : Math.max(1, now - s.activeSince)
  const said = goodbye && {
    reason: goodbye.reason,
    reconnectAfterMs: goodbye.reconnectAfter ? durationMs(goodbye.reconnectAfter) : 0,
  }
  return {
    state: { ...s, phase: 'ended', collected: undefined },
    effects: [{ do: 'end', end: { message, activeMs, goodbye: said, spreadMs: s.spreadMs } }],
  }
}

/** This agent does not understand the message: say so, then leave. */
function protocolError(s: SessionState, now: number, message: string): Step {
  const { state, effects } = end(s, now, `protocol error: ${message}`)
  const reason = GoodbyeReason.PROTOCOL_ERROR
  return { state, effects: [{ do: 'goodbye', reason, message }, ...effects] }
}

const LATE: Record<Exclude<Phase, 'active' | 'ended'>, string> = {
  dialing: 'no connection within 10 s',
  hello_sent: 'no Welcome within 10 s',
  syncing: 'no complete Assignments within 10 s',
}

function tick(s: SessionState, now: number): Step {
  if (s.phase !== 'active' && s.phase !== 'ended' && now >= s.phaseEndsAt) {
    const message = now >= s.lineEndsAt ? 'no turn in line within 10 min' : LATE[s.phase]
    return end(s, now, message)
  }
  if (s.phase === 'active' && now >= s.heardAt + s.timeoutMs) {
    return end(s, now, `the control plane was silent for ${Math.round(s.timeoutMs / 1_000)} s`)
  }
  if (now < s.heartbeatAt) return { state: s, effects: [] }
  const beats = s.beats + 1n
  return {
    state: { ...s, beats, heartbeatAt: now + s.heartbeatMs },
    effects: [{ do: 'heartbeat', n: beats }],
  }
}

function receive(s: SessionState, message: ServerMessage, now: number): Step {
  const { msg } = message
  const same = (...effects: Effect[]): Step => ({ state: s, effects })
  if (s.phase === 'dialing' || s.phase === 'hello_sent') {
    if (msg.case === 'welcome') return welcome(s, msg.value, message.sessionEpoch, now)
    if (msg.case === 'goodbye') return end(s, now, describe(msg.value), msg.value)
    if (msg.case === 'waiting') {
      const phaseEndsAt = Math.min(now + SESSION.welcomeMs, s.lineEndsAt)
      return { state: { ...s, phaseEndsAt }, effects: [{ do: 'waiting', n: msg.value.n }] }
    }
    return protocolError(s, now, 'the first message was neither Welcome nor Goodbye')
  }
  if (message.sessionEpoch !== s.epoch) {
    return { state: { ...s, dropped: s.dropped + 1 }, effects: [] }
  }
  switch (msg.case) {
    case 'goodbye':
      return end(s, now, describe(msg.value), msg.value)
    case 'welcome':
      return protocolError(s, now, 'a second Welcome')
    case 'heartbeatAck': {
      const heartbeatMs = interval(msg.value.nextInterval) ?? s.heartbeatMs
      const heartbeatAt = Math.min(s.heartbeatAt, now + heartbeatMs)
      return {
        state: { ...s, heartbeatMs, heartbeatAt, spreadMs: spread(msg.value.reconnectSpread) },
        effects: [{ do: 'beaten', n: msg.value.n }],
      }
    }
    case 'assignments':
      return assignments(s, msg.value, now)
    case 'eventAck':
      return s.phase === 'active' ? same({ do: 'ack', seq: msg.value.ackedSeq }) : same()
    case 'edge':
      return same({ do: 'edge', settings: msg.value })
    case 'settings':
      return same({ do: 'settings', settings: msg.value })
    case 'trust':
      return same({ do: 'trust', bundle: msg.value })
    case 'request':
      return same({ do: 'answer', request: msg.value })
    case 'cancelRequest':
      return same({ do: 'cancel', request: msg.value })
    case 'update':
      return same({ do: 'update', offer: msg.value })
    case 'waiting':
    case undefined:
      return same() // a member of a later protocol
  }
}

const describe = (g: Goodbye): string =>
  `the control plane said goodbye (${GOODBYE_WORDS.get(g.reason) ?? g.reason})${
    g.message ? `: ${g.message.slice(0, 500)}` : ''
  }`
const GOODBYE_WORDS = new Map<number, string>(
  Object.entries(GoodbyeReason).map(([name, n]) => [n, name.toLowerCase()]),
)

const clamp = (ms: number): number =>
  Math.min(Math.max(ms, DAEMON.intervalMinMs), DAEMON.intervalMaxMs)
const interval = (d: Duration | undefined): number | undefined => {
  const ms = d ? durationMs(d) : 0
  return ms > 0 ? clamp(ms) : undefined
}

const spread = (d: Duration | undefined): number =>
  Math.min(Math.max(0, d ? durationMs(d) : 0), SESSION.reconnectSpreadMs)

/** Protocol versions that this build speaks. */
export const PROTOCOL = { min: 1, max: 1 }

function welcome(s: SessionState, w: Welcome, epoch: bigint, now: number): Step {
  if (w.protocol < PROTOCOL.min || w.protocol > PROTOCOL.max) {
    return protocolError(s, now, `Welcome speaks protocol ${w.protocol}, which was not offered`)
  }
  const heartbeatMs = interval(w.heartbeatInterval) ?? SESSION.heartbeatMaxMs
  const timeoutMs = interval(w.sessionTimeout) ?? heartbeatMs * SESSION.timeoutIntervals
  return {
    state: {
      ...s,
      phase: 'syncing',
      phaseEndsAt: now + SESSION.completeSetMs,
      lineEndsAt: Number.POSITIVE_INFINITY,
      epoch,
      heartbeatMs,
      timeoutMs,
      spreadMs: spread(w.reconnectSpread),
      // the first one is early: it brings what was found out since the start, such as the port of sshd
      heartbeatAt: now + Math.min(heartbeatMs, SESSION.firstHeartbeatMs),
    },
    effects: [{ do: 'welcome', welcome: w }],
  }
}

function assignments(s: SessionState, a: Assignments, now: number): Step {
  const bad = a.assignments.map(findProblem).find((problem) => problem !== undefined)
  if (bad) return protocolError(s, now, bad)
  if (!a.complete) return change(s, a, now)
  const collected = [...(s.collected ?? []), ...a.assignments]
  if (collected.length > DAEMON.assignmentsPerSet) {
    return protocolError(s, now, `a complete set of more than ${DAEMON.assignmentsPerSet} attempts`)
  }
  if (!a.last) return { state: { ...s, collected }, effects: [] }
  const first = s.phase === 'syncing'
  return {
    state: {
      ...s,
      collected: undefined,
      version: a.version,
      phase: 'active',
      phaseEndsAt: Number.POSITIVE_INFINITY,
      activeSince: s.activeSince ?? now,
    },
    effects: [
      { do: 'apply', complete: true, version: a.version, assignments: collected },
      ...(first ? [{ do: 'activate' as const }] : []),
    ],
  }
}

function change(s: SessionState, a: Assignments, now: number): Step {
  if (s.phase !== 'active' || s.collected || a.baseVersion !== s.version) {
    const had = s.phase === 'active' ? `version ${s.version}` : 'no complete set'
    return protocolError(s, now, `assignments based on version ${a.baseVersion}, here is ${had}`)
  }
  const { version, assignments: list } = a
  return {
    state: { ...s, version },
    effects: [{ do: 'apply', complete: false, version, assignments: list }],
  }
}

/** An attempt's id becomes a folder name, so it must be a UUID and nothing else. */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const MAX_FENCE = 2n ** 63n - 1n

function findProblem(a: Assignment): string | undefined {
  if (!UUID.test(a.attemptId)) return 'an attempt_id is not a UUID'
  // stopping or forgetting needs only the id; a control plane restored from a backup knows nothing else of it
  const isWork = a.spec !== undefined || a.desired === Desired.RUNNING
  if (isWork && a.environmentId === 0) return `attempt ${a.attemptId} has no environment`
  if (a.fence === 0n || a.fence > MAX_FENCE) return `attempt ${a.attemptId} has no valid fence`
  return undefined
}
