// Decides how many unacknowledged events may be in flight, and what the next batch holds. Pure: takes the journal's
// rows, returns the batch and the new window. Keeps the journal's order and skips nothing.
import { EVENTS } from '@berth/shared'

export interface OutboxWindow {
  /** Highest number acknowledged in this session or by its Welcome. */
  acked: bigint
  sent: bigint
  /** What was sent and not acknowledged, oldest first. */
  flying: { seq: bigint; bytes: number }[]
  flyingBytes: number
  /** The journal may hold more after `sent`. */
  more: boolean
  /** The next event does not fit until an earlier one is acknowledged. */
  full: boolean
  /** When the last batch was sent; the next one waits this long to collect more events. */
  lastSentAt: number
}

interface Waiting {
  seq: bigint
  bytes: number
}

/** Tag and length of one event inside a batch. */
const FRAME = 4
/** The message around the batch has a tag and a length as well. */
const BATCH = EVENTS.batchBytes - 64

export const openWindow = (acked: bigint): OutboxWindow => ({
  acked,
  sent: acked,
  flying: [],
  flyingBytes: 0,
  more: true,
  full: false,
  lastSentAt: Number.NEGATIVE_INFINITY,
})

/** When a batch may leave; Infinity while nothing waits or the window is full. */
export function nextSendAt(window: OutboxWindow): number {
  if (!window.more || window.full) return Number.POSITIVE_INFINITY
  return window.lastSentAt + EVENTS.batchMs
}

/** `rows` begin after `sent`, in order. Returns how many of them make the next batch. */
export function takeBatch(
  window: OutboxWindow,
  rows: readonly Waiting[],
  now: number,
): { window: OutboxWindow; count: number } {
  let count = 0
  let bytes = 0
  for (const row of rows) {
    if (row.seq !== window.sent + BigInt(count) + 1n) {
      throw new Error(`the outbox has a hole before event ${row.seq}`)
    }
    // the limit on one event is below both, so an empty window always takes one
    const size = row.bytes + FRAME
    if (bytes + size > BATCH || window.flyingBytes + bytes + size > EVENTS.unackedBytes) break
    bytes += size
    count++
  }
  const taken = rows.slice(0, count).map((r) => ({ seq: r.seq, bytes: r.bytes + FRAME }))
  return {
    count,
    window: {
      ...window,
      sent: window.sent + BigInt(count),
      flying: [...window.flying, ...taken],
      flyingBytes: window.flyingBytes + bytes,
      more: rows.length > 0,
      full: rows.length > 0 && count === 0,
      lastSentAt: count > 0 ? now : window.lastSentAt,
    },
  }
}

/** Undefined: it acknowledges an event that was never sent, which ends the session. */
export function acknowledge(window: OutboxWindow, seq: bigint): OutboxWindow | undefined {
  if (seq > window.sent) return undefined
  if (seq <= window.acked) return window
  const flying = window.flying.filter((f) => f.seq > seq)
  const flyingBytes = flying.reduce((sum, f) => sum + f.bytes, 0)
  return { ...window, acked: seq, flying, flyingBytes, full: false }
}

export const noticeAppended = (window: OutboxWindow): OutboxWindow => ({ ...window, more: true })
