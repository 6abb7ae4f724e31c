// Decides which attempt's log may send next, and how much. Pure. Two byte budgets, for the agent and for each attempt,
// count unacknowledged bytes in flight; watched logs go first, then the one that waited longest (round robin). A
// written frame is not an acknowledgement; only LogAck frees budget.
import { DAEMON, LOGS } from '@berth/shared'

/** What the control plane asks for in Welcome, capped by our own limits. */
export interface LogPolicy {
  chunkBytes: number
  unackedBytes: number
  unackedBytesPerAttempt: number
}

export interface Flow {
  attemptId: string
  acked: number
  sent: number
  flying: { lastSeq: number; bytes: number }[]
  flyingBytes: number
  /** Interval that the control plane asked for; short while a user watches. */
  flushMs: number
  lastSentAt: number
  /** What the spool may hold after `sent`: nothing, something, at least one full chunk. */
  waiting: 'nothing' | 'something' | 'chunk'
  /** The control plane does not want it (LogStop). */
  stopped: boolean
}

export const openFlow = (attemptId: string, acked: number, flushMs: number): Flow => ({
  attemptId,
  acked,
  sent: acked,
  flying: [],
  flyingBytes: 0,
  flushMs,
  lastSentAt: Number.NEGATIVE_INFINITY,
  waiting: 'something',
  stopped: false,
})

export const isWatched = (flow: Flow): boolean => flow.flushMs <= LOGS.watchedFlushMs

/** A chunk of a watched log is due almost immediately; others wait to be combined. Full chunks never wait. */
const dueAt = (flow: Flow): number => {
  if (flow.waiting === 'chunk') return Number.NEGATIVE_INFINITY
  return flow.lastSentAt + (isWatched(flow) ? DAEMON.watchedSendMs : flow.flushMs)
}

type Choice = { send: Flow } | { waitUntil: number }

/** The flow that sends now, or when the next one may (Infinity: only after another event). */
export function chooseFlow(flows: Iterable<Flow>, policy: LogPolicy, now: number): Choice {
  let flying = 0
  const ready: Flow[] = []
  for (const flow of flows) {
    flying += flow.flyingBytes
    const drained = flow.flyingBytes + policy.chunkBytes <= policy.unackedBytesPerAttempt
    if (drained && !flow.stopped && flow.waiting !== 'nothing') ready.push(flow)
  }
  if (flying + policy.chunkBytes > policy.unackedBytes) {
    return { waitUntil: Number.POSITIVE_INFINITY }
  }
  let best: Flow | undefined
  let waitUntil = Number.POSITIVE_INFINITY
  for (const flow of ready) {
    const due = dueAt(flow)
    if (due > now) waitUntil = Math.min(waitUntil, due)
    else if (!best || goesBefore(flow, best)) best = flow
  }
  return best ? { send: best } : { waitUntil }
}

function goesBefore(a: Flow, b: Flow): boolean {
  if (isWatched(a) !== isWatched(b)) return isWatched(a)
  return a.lastSentAt < b.lastSentAt
}

export function recordSent(flow: Flow, lastSeq: number, bytes: number, now: number): Flow {
  return {
    ...flow,
    sent: lastSeq,
    flying: [...flow.flying, { lastSeq, bytes }],
    flyingBytes: flow.flyingBytes + bytes,
    lastSentAt: now,
  }
}

export function recordAck(flow: Flow, seq: number): Flow {
  if (seq <= flow.acked) return flow
  const flying = flow.flying.filter((f) => f.lastSeq > seq)
  const flyingBytes = flying.reduce((sum, f) => sum + f.bytes, 0)
  // acknowledged beyond what this session sent: records of an earlier session, stored meanwhile
  return { ...flow, acked: seq, sent: Math.max(flow.sent, seq), flying, flyingBytes }
}

/** The control plane names the position to continue from; everything in flight is void. */
export const resumeFlow = (flow: Flow, from: number): Flow => ({
  ...flow,
  acked: from,
  sent: from,
  flying: [],
  flyingBytes: 0,
  stopped: false,
})
