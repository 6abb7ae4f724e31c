// Stores log records: appends them at once (to files, or in memory for blocks of PostgreSQL), makes them durable in
// groups, and acknowledges them after the commit. What was not committed when the process dies comes again.
import { LOGS } from '@berth/shared'
import {
  forEachRecord,
  LogSource,
  type ParsedChunk,
  skipRecords,
  sumData,
} from '@berth/shared/wire'
import { commitLogs, openLog } from '../../app/deployments/logs.ts'
import type { Context } from '../../context.ts'
import type { LogPosition } from '../../store/deployments/log-index.ts'
import type { LogWriter } from '../../store/deployments/log-store.ts'

/** The stream that feeds a log. */
export interface Feed {
  agentId: string
  sessionId: string
  acked(attemptId: string, seq: number): void
  failed(error: unknown): void
  /** False once it ended; a pending `open` then returns nothing. */
  isOpen(): boolean
}

interface Entry {
  attemptId: string
  fence: number
  written: LogPosition
  committed: LogPosition
  gap: boolean
  writer: LogWriter
  /** Received and not committed yet, counted as the agent counts its bytes in flight. */
  pendingBytes: number
  feed: Feed
}

type Accepted = { kind: 'taken' } | { kind: 'hole'; wanted: number } | { kind: 'unknown' }

/** An agent keeps to half of it, so only a broken one exceeds it. */
const MOST_PENDING = 2 * LOGS.unackedBytesPerAttempt
/** All streams together wait for the database from here on. */
const MOST_PENDING_OF_ALL = 64 * 1_024 * 1_024
const WATCHED_COMMIT_MS = 20 // while a user watches, smaller commits are worth the shorter delay

export class LogIntake {
  readonly #ctx: Context
  readonly #entries = new Map<string, Entry>()
  readonly #dirty = new Set<Entry>()
  #dirtyBytes = 0
  #pendingBytes = 0
  /** Arrival of the oldest record that is not stored yet. */
  #dirtySince: number | undefined
  #timer: NodeJS.Timeout | undefined
  #committing: Promise<void> | undefined
  #inFlight: ReadonlySet<string> = new Set()

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** Returns where this agent's log continues. Undefined if the attempt is another agent's or was released. */
  async open(attemptId: string, feed: Feed): Promise<number | undefined> {
    await this.#settle(attemptId) // commits the records of an earlier session first
    const { agentId, sessionId } = feed
    const found = await openLog(this.#ctx, { agentId, sessionId, attemptId })
    if (!found || !feed.isOpen()) return undefined // a newer stream may have it by now
    this.#entries.set(attemptId, {
      attemptId,
      fence: found.fence,
      written: found.position,
      committed: found.position,
      gap: found.gap,
      writer: found.start(),
      pendingBytes: 0,
      feed,
    })
    return found.position.records
  }

  /** Releases only logs that this stream still feeds; a newer stream may have taken one over. */
  release(attemptIds: Iterable<string>, feed: Feed): void {
    for (const id of attemptIds) {
      if (this.#entries.get(id)?.feed === feed) this.#entries.delete(id)
    }
  }

  /** Ignores known records and reports a hole; a wrong checksum ends the stream. */
  accept(chunk: ParsedChunk): Accepted {
    const entry = this.#entries.get(chunk.attemptId)
    if (!entry || entry.fence !== Number(chunk.fence)) return { kind: 'unknown' }
    const sum = sumData(chunk.records)
    if (sum.crc32c !== chunk.crc32c) throw new Error('a log chunk does not match its checksum')
    const next = entry.written.records + 1
    if (chunk.firstSeq > next) return { kind: 'hole', wanted: next }
    const known = next - chunk.firstSeq
    if (known >= sum.count) {
      if (entry.written.records === entry.committed.records) {
        entry.feed.acked(entry.attemptId, entry.committed.records)
      }
      return { kind: 'taken' }
    }
    const region =
      known > 0 ? chunk.records.subarray(skipRecords(chunk.records, known)) : chunk.records
    if (entry.pendingBytes + region.length > MOST_PENDING) throw new Error('too much unconfirmed')
    noteGaps(entry, region)
    entry.written = entry.writer.append(entry.written, region)
    entry.pendingBytes += region.length
    this.#pendingBytes += region.length
    this.#dirty.add(entry)
    this.#dirtySince ??= performance.now()
    this.#ctx.metrics.log(region.length)
    this.#dirtyBytes += region.length // counted as the agent counts its bytes in flight
    this.#schedule(entry)
    return { kind: 'taken' }
  }

  /** The database is slower than the agents: streams pause until it is not. */
  get isFull(): boolean {
    return this.#pendingBytes >= MOST_PENDING_OF_ALL
  }

  /** Resolves after the commit in progress. */
  async room(): Promise<void> {
    while (this.isFull) {
      if (!this.#committing) this.#commit()
      if (!this.#committing) return
      await this.#committing
    }
  }

  #schedule(entry: Entry): void {
    if (this.#committing) return // the running commit schedules the next
    if (this.#dirtyBytes >= LOGS.commitBytes) {
      this.#commit()
      return
    }
    const watched = this.#ctx.watchers.isWatched(entry.attemptId)
    this.#timer ??= setTimeout(() => this.#commit(), watched ? WATCHED_COMMIT_MS : LOGS.commitMs)
  }

  #commit(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#committing || this.#dirty.size === 0) return
    const batch = [...this.#dirty].map((entry) => ({
      entry,
      position: entry.written,
      bytes: entry.pendingBytes,
    }))
    this.#dirty.clear()
    const since = this.#dirtySince ?? performance.now()
    this.#dirtyBytes = 0
    this.#dirtySince = undefined
    this.#inFlight = new Set(batch.map((b) => b.entry.attemptId))
    this.#committing = this.#write(batch, since).finally(() => {
      for (const { entry, bytes } of batch) {
        const done = Math.min(bytes, entry.pendingBytes) // none is left of a log that was given up
        entry.pendingBytes -= done
        this.#pendingBytes -= done
      }
      this.#committing = undefined
      this.#inFlight = new Set()
      const [next] = this.#dirty
      // a database answers later than a disk, and the agents' windows are filling
      if (this.#ctx.logs.kind === 'blocks' && this.#dirtyBytes >= LOGS.commitBytes / 2)
        this.#commit()
      else if (next) this.#schedule(next)
    })
  }

  async #write(batch: { entry: Entry; position: LogPosition }[], since: number): Promise<void> {
    try {
      const stored = await commitLogs(
        this.#ctx,
        batch.map(({ entry, position }) => ({
          attemptId: entry.attemptId,
          sessionId: entry.feed.sessionId,
          from: entry.committed,
          to: position,
          gap: entry.gap,
          blocks: entry.writer.take(),
        })),
      )
      for (const { entry, position } of batch) {
        if (stored.has(entry.attemptId)) {
          entry.committed = position
          entry.feed.acked(entry.attemptId, position.records)
        } else this.#give(entry, new Error('another session feeds this log'))
      }
      this.#ctx.metrics.logsStored((performance.now() - since) / 1_000)
    } catch (error) {
      // nothing was acknowledged, so the agents keep it spooled and reconnect
      this.#ctx.log.error({ err: error }, 'logs could not be stored')
      for (const { entry } of batch) this.#give(entry, error)
    }
  }

  /** Gives a log up. What its stream sent since the commit began is dropped with it. */
  #give(entry: Entry, error: unknown): void {
    if (this.#entries.get(entry.attemptId) === entry) this.#entries.delete(entry.attemptId)
    this.#dirty.delete(entry)
    this.#pendingBytes -= entry.pendingBytes
    entry.pendingBytes = 0
    entry.feed.failed(error)
  }

  async #settle(attemptId: string): Promise<void> {
    const waiting = () => [...this.#dirty].some((entry) => entry.attemptId === attemptId)
    while (this.#inFlight.has(attemptId) || waiting()) {
      if (!this.#committing) this.#commit()
      await this.#committing
    }
  }

  /** Resolves when everything received is durable or its stream has failed. */
  async close(): Promise<void> {
    while (this.#committing || this.#dirty.size > 0) {
      if (!this.#committing) this.#commit()
      await this.#committing
    }
  }
}

// A LIMIT gap comes from the runner and is part of its digest; other gaps are not.
const LIMIT = 1

function noteGaps(entry: Entry, region: Buffer): void {
  if (entry.gap) return
  forEachRecord(region, (_time, source, _step, _start, _end, _replaces, _bytes, reason) => {
    if (source === LogSource.GAP && reason !== LIMIT) entry.gap = true
  })
}
