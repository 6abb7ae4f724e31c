// Stores log records: appends them to files immediately, makes them durable in groups, and acknowledges them after the
// commit. If the process dies, the next start truncates what was not committed, and the agent sends it again.
import { LOGS } from '@berth/shared'
import {
  forEachRecord,
  LogSource,
  type ParsedChunk,
  skipRecords,
  sumData,
} from '@berth/shared/wire'
import { commitLogs, findLogPosition } from '../../app/deployments/logs.ts'
import type { Context } from '../../context.ts'
import type { LogPosition } from '../../store/deployments/log-files.ts'

/** The stream that feeds a log. */
export interface Feed {
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
  feed: Feed
}

type Accepted = { kind: 'taken' } | { kind: 'hole'; wanted: number } | { kind: 'unknown' }

const WATCHED_COMMIT_MS = 20 // while a user watches, smaller commits are worth the shorter delay

export class LogIntake {
  readonly #ctx: Context
  readonly #entries = new Map<string, Entry>()
  readonly #dirty = new Set<Entry>()
  #dirtyBytes = 0
  /** Arrival of the oldest record that is not stored yet. */
  #dirtySince: number | undefined
  #timer: NodeJS.Timeout | undefined
  #committing: Promise<void> | undefined
  #inFlight: ReadonlySet<string> = new Set()

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** Returns where this agent's log continues. Undefined if the attempt is another agent's or was released. */
  async open(agentId: string, attemptId: string, feed: Feed): Promise<number | undefined> {
    await this.#settle(attemptId) // commits the records of an earlier session first
    const found = await findLogPosition(this.#ctx, agentId, attemptId)
    if (!found || !feed.isOpen()) return undefined // a newer stream may have it by now
    this.#ctx.logs.truncate(attemptId, found.position)
    this.#entries.set(attemptId, {
      attemptId,
      fence: found.fence,
      written: found.position,
      committed: found.position,
      gap: found.gap,
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
    noteGaps(entry, region)
    entry.written = this.#ctx.logs.append(entry.attemptId, entry.written, region)
    this.#dirty.add(entry)
    this.#dirtySince ??= performance.now()
    this.#ctx.metrics.log(region.length)
    this.#dirtyBytes += region.length // counted as the agent counts its bytes in flight
    this.#schedule(entry)
    return { kind: 'taken' }
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
    const batch = [...this.#dirty].map((entry) => ({ entry, position: entry.written }))
    this.#dirty.clear()
    const since = this.#dirtySince ?? performance.now()
    this.#dirtyBytes = 0
    this.#dirtySince = undefined
    this.#inFlight = new Set(batch.map((b) => b.entry.attemptId))
    this.#committing = this.#write(batch, since).finally(() => {
      this.#committing = undefined
      this.#inFlight = new Set()
      const [next] = this.#dirty
      if (next) this.#schedule(next)
    })
  }

  async #write(batch: { entry: Entry; position: LogPosition }[], since: number): Promise<void> {
    try {
      await this.#ctx.logs.sync(batch.map((b) => b.entry.attemptId))
      await commitLogs(
        this.#ctx,
        batch.map(({ entry, position }) => ({
          attemptId: entry.attemptId,
          position,
          gap: entry.gap,
        })),
      )
      for (const { entry, position } of batch) {
        entry.committed = position
        entry.feed.acked(entry.attemptId, position.records)
      }
      this.#ctx.metrics.logsStored((performance.now() - since) / 1_000)
    } catch (error) {
      // nothing was acknowledged, so the agents keep it spooled and reconnect
      this.#ctx.log.error({ err: error }, 'logs could not be stored')
      for (const { entry } of batch) {
        this.#entries.delete(entry.attemptId)
        this.#dirty.delete(entry)
        entry.feed.failed(error)
      }
    }
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
