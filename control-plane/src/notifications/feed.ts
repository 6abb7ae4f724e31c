// Reads the tail of the event table once for all subscribers of this process; each subscriber does its own backfill.
// Rows become visible in the order of their numbers (store/core/events.ts), so everything below the newest delivered
// number was delivered. A subscriber that falls behind loses its queue, never an event: it reads the table again.
// notifications/stream.ts decides who may see what.

import type { Logger } from 'pino'
import { LIVE } from '../limits/browser.ts'
import {
  type EventFilter,
  type EventRow,
  findEventRange,
  listEventsAfter,
} from '../store/core/events.ts'
import type { Db } from '../store/engine/db.ts'
import type { Notifier } from './notifier.ts'
import { describeEvents, type LiveEvent } from './states.ts'

/** The queue of one subscriber. */
class Tap {
  readonly #filter: EventFilter
  readonly #feed: EventFeed
  #queue: LiveEvent[] = []
  #behind = false
  #isRewound = false
  #ring: (() => void) | undefined
  /** Events up to this number are not in this tap, but in the table. */
  from: number

  constructor(feed: EventFeed, filter: EventFilter) {
    this.#feed = feed
    this.#filter = filter
    this.from = feed.head
  }

  get isBehind(): boolean {
    return this.#behind
  }

  get waiting(): number {
    return this.#queue.length
  }

  /** Events that were delivered are gone from the table, so numbers may come again. */
  get isRewound(): boolean {
    return this.#isRewound
  }

  wants({ organizationId, projectId, environmentId, taskId }: EventRow): boolean {
    const f = this.#filter
    return (
      organizationId === f.organizationId &&
      (f.projectId === undefined || projectId === f.projectId) &&
      (f.environmentId === undefined || environmentId === f.environmentId) &&
      (f.taskId === undefined || taskId === f.taskId)
    )
  }

  put(event: LiveEvent): void {
    if (this.#behind) return
    if (this.#queue.length >= LIVE.subscriberEvents) {
      this.fallBehind()
      return
    }
    this.#queue.push(event)
    this.#ring?.()
  }

  /** Drops the queue; its events are in the table. */
  fallBehind(): void {
    this.#queue = []
    this.#behind = true
    this.#ring?.()
  }

  rewind(): void {
    this.fallBehind()
    this.#isRewound = true
  }

  take(): LiveEvent | undefined {
    return this.#queue.shift()
  }

  /** After `isBehind`: the table has everything up to the new `from`, the tap what follows. */
  resume(): void {
    this.#queue = []
    this.#behind = false
    this.#isRewound = false
    this.from = this.#feed.head
  }

  /** Resolves when an event is queued, the time is over or `signal` aborts. */
  wait(signal: AbortSignal, timeoutMs: number): Promise<void> {
    if (signal.aborted || this.#behind || this.#queue.length > 0) return Promise.resolve()
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', finish)
        this.#ring = undefined
        resolve()
      }
      const timer = setTimeout(finish, timeoutMs)
      signal.addEventListener('abort', finish)
      this.#ring = finish
    })
  }

  close(): void {
    this.#feed.leave(this)
    this.#ring?.()
  }
}

interface Parts {
  db: Db
  notifier: Notifier
  log: Logger
  /** The topic that is notified after a commit with events. */
  topic: string
  /** Gets every row once, in order; a failure is logged and costs nothing else. */
  onRows: (rows: EventRow[]) => Promise<void>
  /** The database lost commits. */
  onLost: () => Promise<void>
}

export class EventFeed {
  readonly #parts: Parts
  readonly #taps = new Set<Tap>()
  readonly #stopping = new AbortController()
  #running: Promise<void> = Promise.resolve()
  #ring: (() => void) | undefined
  #head = 0
  /** The row at the head; it is never deleted while it is the newest. */
  #newest: EventRow | undefined

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Everything up to this number is committed, and delivered or about to be. */
  get head(): number {
    return this.#head
  }

  /** Number of subscribers, and of events that wait for them. */
  get size(): number {
    return this.#taps.size
  }

  get waiting(): number {
    return [...this.#taps].reduce((sum, tap) => sum + tap.waiting, 0)
  }

  async start(): Promise<void> {
    await this.#begin()
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#ring?.()
    await this.#running
  }

  join(filter: EventFilter): Tap {
    const tap = new Tap(this, filter)
    this.#taps.add(tap)
    return tap
  }

  leave(tap: Tap): void {
    this.#taps.delete(tap)
  }

  async #run(): Promise<void> {
    const { notifier, log, topic } = this.#parts
    const { signal } = this.#stopping
    let isWoken = false
    const off = notifier.on(topic, () => {
      isWoken = true
      this.#ring?.()
    })
    while (!signal.aborted) {
      isWoken = false
      try {
        while (!signal.aborted && (await this.#handOut()));
      } catch (error) {
        if (!signal.aborted) log.error({ err: error }, 'events could not be read')
      }
      if (!isWoken && !signal.aborted) await this.#pause()
    }
    off()
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer)
        this.#ring = undefined
        resolve()
      }
      const timer = setTimeout(finish, LIVE.pollMs)
      this.#ring = finish
    })
  }

  /** At the end of the table. */
  async #begin(): Promise<void> {
    const { db } = this.#parts
    this.#head = (await findEventRange(db)).last
    this.#newest = (await listEventsAfter(db, this.#head - 1, 1))[0]
  }

  /** Returns true if there may be more. */
  async #handOut(): Promise<boolean> {
    const { db, log, onRows, onLost } = this.#parts
    const found = await listEventsAfter(db, this.#head - 1, LIVE.batch)
    if (this.#newest && !isSame(this.#newest, found[0])) {
      // a standby without the newest events took over: what was delivered never happened
      log.warn({ head: this.#head }, 'events are gone; live readers and sessions begin again')
      await onLost()
      await this.#begin()
      for (const tap of this.#taps) tap.rewind()
      return false
    }
    const rows = this.#newest ? found.slice(1) : found
    const last = rows.at(-1)
    if (!last) return false
    // later subscribers find these rows in the table
    this.#head = last.seq
    this.#newest = last
    const counted = onRows(rows).catch((error: unknown) =>
      log.error({ err: error }, 'events were not counted'),
    )
    const taps = [...this.#taps]
    const wanted = rows.filter((row) => taps.some((tap) => tap.wants(row)))
    try {
      for (const event of await describeEvents(db, wanted)) {
        for (const tap of taps) if (tap.wants(event)) tap.put(event)
      }
    } catch (error) {
      for (const tap of taps) tap.fallBehind()
      throw error
    }
    await counted
    return found.length === LIVE.batch
  }
}

const isSame = (a: EventRow, b: EventRow | undefined): boolean =>
  a.seq === b?.seq && a.at === b.at && a.kind === b.kind && a.taskId === b.taskId
