// One subscriber's events: backfill from the table, cut over to the feed, stream; resumable after any number. Nothing is
// yielded before `admit` agreed, and `admit` is asked again while nothing happens: access that ends, ends the stream.
// No gap, no double: after the cut-over each number is compared with the last one that went out.
import { LIVE } from '@berth/shared'
import type { Context } from '../context.ts'
import { type EventFilter, findEventRange, listEventsBetween } from '../store/core/events.ts'
import { describeEvents, type LiveEvent } from './states.ts'

/** What was missed is not kept, or is too much: load the page anew and go on after `seq`. */
export interface Reset {
  kind: 'reset'
  seq: number
}

/** First of all, for who comes without a number: a connection lost right after it resumes here. */
export interface Begun {
  kind: 'begun'
  seq: number
}

export interface Subscription {
  filter: EventFilter
  /** The last number the subscriber has; undefined: from now on. */
  after: number | undefined
  /** Throws when the subscriber may not see this any more; `again` asks without trusting what was known. */
  admit(again: boolean): Promise<void>
  /** Waits until the subscriber can take more. */
  room(signal: AbortSignal): Promise<void>
  signal: AbortSignal
}

export async function* streamEvents(
  ctx: Context,
  s: Subscription,
): AsyncGenerator<LiveEvent | Begun | Reset> {
  // first of all, and before any wait: whoever is told that the stream began misses nothing from then on
  const tap = ctx.feed.join(s.filter)
  try {
    await s.admit(false)
    let at = s.after ?? tap.from
    if (s.after === undefined) {
      yield { kind: 'begun', seq: at }
    } else if (await isOutOfReach(ctx, s.after)) {
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
        await s.room(s.signal)
      }
      tap.resume()
    }
  } finally {
    tap.close()
  }
}

const isAboutAccess = (event: LiveEvent): boolean => event.kind.startsWith('member.')

/** Deleted since, too much to read, or a number we never gave out (we were restored from a backup). */
async function isOutOfReach(ctx: Context, after: number): Promise<boolean> {
  const { first, last } = await findEventRange(ctx.db)
  return after > last || after + 1 < first || last - after > LIVE.backfillEvents
}

/** A few rows at a time, read only when one can be sent: whoever does not read holds that few, however many follow. */
async function* backfill(
  ctx: Context,
  { filter, signal, room }: Subscription,
  after: number,
  until: number,
): AsyncGenerator<LiveEvent> {
  for (let at = after; at < until && !signal.aborted; ) {
    await room(signal)
    const rows = await listEventsBetween(ctx.db, filter, at, until, LIVE.backfillBatch)
    for (const event of await describeEvents(ctx.db, rows)) {
      yield event
      await room(signal)
    }
    at = rows.length === LIVE.backfillBatch ? (rows.at(-1)?.seq ?? until) : until
  }
}
