// Records on their way into the store: appended to files at once, made durable in groups, acknowledged after the
// commit. What was not committed when the process dies is cut off at the next start and sent again by the agent.
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
  /** False once it ended: what it still had asked for is not given any more. */
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

export type Accepted = { kind: 'taken' } | { kind: 'hole'; wanted: number } | { kind: 'unknown' }

const WATCHED_COMMIT_MS = 20 // somebody looks: the commit may be smaller than it could be

export class LogIntake {
  readonly #ctx: Context
  readonly #entries = new Map<string, Entry>()
  readonly #dirty = new Set<Entry>()
  #dirtyBytes = 0
  #timer: NodeJS.Timeout | undefined
  #committing: Promise<void> | undefined
  #inFlight: ReadonlySet<string> = new Set()

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** Where this agent's log continues; undefined: not an attempt of this agent, or nothing more is wanted. */
  async open(agentId: string, attemptId: string, feed: Feed): Promise<number | undefined> {
    await this.#settle(attemptId) // a former session's records are committed before we look
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

  /** Only what is still its own: a newer stream may feed the same log. */
  release(attemptIds: Iterable<string>, feed: Feed): void {
    for (const id of attemptIds) {
      if (this.#entries.get(id)?.feed === feed) this.#entries.delete(id)
    }
  }

  /** Known records are ignored, a hole is told; a broken checksum ends the stream. */
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
    this.#dirtyBytes += region.length // as the agent counts what it has under way
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
    this.#dirtyBytes = 0
    this.#inFlight = new Set(batch.map((b) => b.entry.attemptId))
    this.#committing = this.#write(batch).finally(() => {
      this.#committing = undefined
      this.#inFlight = new Set()
      const [next] = this.#dirty
      if (next) this.#schedule(next)
    })
  }

  async #write(batch: { entry: Entry; position: LogPosition }[]): Promise<void> {
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
    } catch (error) {
      // nothing was acknowledged: the agents keep it spooled and come back
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

  /** Everything that was received is durable, or its stream has failed. */
  async close(): Promise<void> {
    while (this.#committing || this.#dirty.size > 0) {
      if (!this.#committing) this.#commit()
      await this.#committing
    }
  }
}

// A LIMIT gap is the runner's own and part of its digest; any other gap is not.
const LIMIT = 1

function noteGaps(entry: Entry, region: Buffer): void {
  if (entry.gap) return
  forEachRecord(region, (_time, source, _step, _start, _end, _replaces, _bytes, reason) => {
    if (source === LogSource.GAP && reason !== LIMIT) entry.gap = true
  })
}
