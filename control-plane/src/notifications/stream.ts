// Streams one subscriber's events: backfill from the table, cut-over to the feed, resumable after any number. Nothing
// is yielded before `admit` agrees, and `admit` is called again while idle, so access that ends, ends the stream. No
// gap and no duplicate: after the cut-over each number is compared with the last one sent.

import type { Context } from '../context.ts'
import { LIVE } from '../limits/browser.ts'
import { type EventFilter, findEventRange, listEventsBetween } from '../store/core/events.ts'
import { describeEvents, type LiveEvent } from './states.ts'

/** The missed events were deleted or are too many: reload the page and continue after `seq`. */
export interface Reset {
  kind: 'reset'
  seq: number
}

/** The first message to a subscriber without a number; a connection lost right after it resumes here. */
export interface Begun {
  kind: 'begun'
  seq: number
}

export interface Subscription {
  filter: EventFilter
  /** The last number that the subscriber has; undefined: start now. */
  after: number | undefined
  /** Throws if the subscriber has lost access; `again` ignores the cached result. */
  admit(again: boolean): Promise<void>
  /** Waits until the subscriber can take more. */
  drained(signal: AbortSignal): Promise<void>
  signal: AbortSignal
}

export async function* streamEvents(
  ctx: Context,
  s: Subscription,
): AsyncGenerator<LiveEvent | Begun | Reset> {
  // before any await, so that a subscriber misses nothing after `begun`
  const tap = ctx.feed.join(s.filter)
  try {
    await s.admit(false)
    let at = s.after ?? tap.from
    if (s.after === undefined) {
      yield { kind: 'begun', seq: at }
    } else if (await isOutOfReach(ctx, s.after, LIVE.backfillEvents)) {
      at = tap.from
      yield { kind: 'reset', seq: at }
    }
    while (!s.signal.aborted) {
      for await (const event of backfill(ctx, s, at, tap.from)) {
        await s.admit(isAboutAccess(event))
        yield event
        at = event.seq
      }
      at = Math.max(at, tap.from)
      while (!tap.isBehind && !s.signal.aborted) {
        const event = tap.take()
        if (!event) {
          await tap.wait(s.signal, LIVE.recheckMs)
          if (tap.waiting === 0) await s.admit(false)
          continue
        }
        if (event.seq <= at) continue
        await s.admit(isAboutAccess(event))
        yield event
        at = event.seq
        await s.drained(s.signal)
      }
      const { isRewound } = tap
      tap.resume()
      if (isRewound) {
        at = tap.from
        yield { kind: 'reset', seq: at }
      }
    }
  } finally {
    tap.close()
  }
}

const isAboutAccess = (event: LiveEvent): boolean => event.kind.startsWith('member.')

/**
 * The number was deleted, was never assigned (after a restore from a backup), or is more than `most` back: a stream
 * that catches up holds its connection, a reader of pages does not.
 */
export async function isOutOfReach(ctx: Context, after: number, most: number): Promise<boolean> {
  const { first, last } = await findEventRange(ctx.db)
  return after > last || after + 1 < first || last - after > most
}

/** Reads a few rows at a time, and only when one can be sent, so that a stalled reader holds only those. */
async function* backfill(
  ctx: Context,
  { filter, signal, drained }: Subscription,
  after: number,
  until: number,
): AsyncGenerator<LiveEvent> {
  for (let at = after; at < until && !signal.aborted; ) {
    await drained(signal)
    const rows = await listEventsBetween(ctx.db, filter, at, until, LIVE.backfillBatch)
    for (const event of await describeEvents(ctx.db, rows)) {
      yield event
      await drained(signal)
    }
    at = rows.length === LIVE.backfillBatch ? (rows.at(-1)?.seq ?? until) : until
  }
}
