// Stores the bytes of logs in two files per attempt. `<id>.log` holds the data of all records in order, as it is
// served; `<id>.idx` has 24 bytes per record, so a line or a step is found without reading the log. The database says
// how much of both is durable; the rest is truncated and sent again. Appending allocates no object per record.
import {
  close,
  closeSync,
  fdatasync,
  ftruncateSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { makePrivateFolder } from '../engine/private-files.ts'
import {
  ENTRY_BYTES,
  indexRegion,
  type LogPosition,
  mostEntryBytes,
  NEWLINE,
  type RecordQuery,
  type StoredRecord,
} from './log-index.ts'
import {
  findLine,
  hasBytes,
  hashBytes,
  readBlocks,
  readBytes,
  readLines,
  readRecords,
  readRuns,
} from './log-reading.ts'
import type { Block, LogReads, LogWriter } from './log-store.ts'

interface Writer {
  log: number
  idx: number
  /** Number of syncs in progress; a file is closed only when it is 0. */
  busy: number
  /** The last byte written was not a line end, so the next record continues that line. Undefined until first read. */
  unfinished: boolean | undefined
  /** The directory entries of the files are not yet durable. */
  unnamed: boolean
}

const WRITERS = 256 // there are twice as many open files; the least recently used idle writer is closed
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const sync = promisify(fdatasync)
const closeFile = promisify(close)

export class LogFiles implements LogReads {
  readonly kind = 'files'
  readonly #dir: string
  readonly #writers = new Map<string, Writer>()
  #data = Buffer.allocUnsafe(64 * 1_024)
  #entries = Buffer.allocUnsafe(64 * 1_024)

  constructor(dir: string) {
    makePrivateFolder(dir)
    this.#dir = dir
  }

  /** Validates the id before it becomes part of a path. */
  #path(attemptId: string, ending: 'log' | 'idx'): string {
    if (!ID.test(attemptId)) throw new Error(`not the id of an attempt: ${attemptId.slice(0, 50)}`)
    return join(this.#dir, `${attemptId}.${ending}`)
  }

  #writer(attemptId: string): Writer {
    const open = this.#writers.get(attemptId)
    if (open) {
      this.#writers.delete(attemptId) // moved to the end: least recently used first
      this.#writers.set(attemptId, open)
      return open
    }
    this.#evict()
    const log = openSync(this.#path(attemptId, 'log'), 'a+', 0o600)
    closeSync(log) // creates the file if it is missing; positioned writes need another mode
    closeSync(openSync(this.#path(attemptId, 'idx'), 'a+', 0o600))
    const writer = {
      log: openSync(this.#path(attemptId, 'log'), 'r+'),
      idx: openSync(this.#path(attemptId, 'idx'), 'r+'),
      busy: 0,
      unfinished: undefined,
      unnamed: true,
    }
    this.#writers.set(attemptId, writer)
    return writer
  }

  #evict(): void {
    if (this.#writers.size < WRITERS) return
    for (const [id, writer] of this.#writers) {
      if (writer.busy > 0) continue
      this.#forget(id, writer)
      return
    }
  }

  #forget(attemptId: string, writer: Writer): void {
    this.#writers.delete(attemptId)
    closeSync(writer.log)
    closeSync(writer.idx)
  }

  /**
   * Returns false if the files are missing or shorter than the database says, as after restoring only one of the two.
   */
  holds(attemptId: string, at: LogPosition): boolean {
    const entryBytes = this.#size(attemptId, 'idx')
    return this.bytesOf(attemptId) >= at.bytes && entryBytes >= at.records * ENTRY_BYTES
  }

  bytesOf(attemptId: string): number {
    return this.#size(attemptId, 'log')
  }

  #size(attemptId: string, ending: 'log' | 'idx'): number {
    return statSync(this.#path(attemptId, ending), { throwIfNoEntry: false })?.size ?? 0
  }

  /** Truncates both files to what the database says, and remembers how the last line ended. */
  truncate(attemptId: string, at: LogPosition): void {
    const writer = this.#writer(attemptId)
    ftruncateSync(writer.log, at.bytes)
    ftruncateSync(writer.idx, at.records * ENTRY_BYTES)
    writer.unfinished = isUnfinished(writer.log, at.bytes)
  }

  /** Appends encoded records at a position and returns the position behind them. Not durable until `sync`. */
  append(attemptId: string, at: LogPosition, region: Buffer): LogPosition {
    const writer = this.#writer(attemptId)
    if (this.#data.length < region.length) this.#data = Buffer.allocUnsafe(region.length)
    if (this.#entries.length < mostEntryBytes(region)) {
      this.#entries = Buffer.allocUnsafe(mostEntryBytes(region))
    }
    const was = writer.unfinished ?? isUnfinished(writer.log, at.bytes)
    const added = indexRegion(region, at, was, this.#data, this.#entries)
    writeAll(writer.log, this.#data, added.dataBytes, at.bytes)
    writeAll(writer.idx, this.#entries, added.entryBytes, at.records * ENTRY_BYTES)
    writer.unfinished = added.unfinished
    return added.end
  }

  /** For the records of one stream. What lies beyond the position was never acknowledged. */
  writer(attemptId: string, from: LogPosition): LogWriter {
    this.truncate(attemptId, from)
    return { append: (at, region) => this.append(attemptId, at, region), take: () => [] }
  }

  /** Makes everything appended so far survive a power loss. */
  async sync(attemptIds: string[]): Promise<void> {
    await Promise.all(
      attemptIds.map(async (id) => {
        const writer = this.#writer(id) // reopened if it was closed to free a slot; syncing any handle is enough
        writer.busy += 1
        try {
          await Promise.all([sync(writer.log), sync(writer.idx)])
          if (writer.unnamed) await this.#syncFolder()
          writer.unnamed = false
        } finally {
          writer.busy -= 1
        }
      }),
    )
  }

  async #syncFolder(): Promise<void> {
    const folder = await open(this.#dir, 'r')
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
  }

  read(attemptId: string, from: number, to: number): AsyncGenerator<Buffer> {
    return readBytes(this.#path(attemptId, 'log'), from, to)
  }

  records(attemptId: string, query: RecordQuery): AsyncGenerator<StoredRecord> {
    return readRecords(this.#path(attemptId, 'log'), this.#path(attemptId, 'idx'), query)
  }

  /** Like `records`, but yields only bytes, in chunks as large as possible. */
  runs(attemptId: string, query: RecordQuery): AsyncGenerator<Buffer> {
    return readRuns(this.#path(attemptId, 'log'), this.#path(attemptId, 'idx'), query)
  }

  /** Returns the index (from 0) of the first record in this line or after it. */
  findLine(attemptId: string, line: number, records: number): Promise<number> {
    return findLine(this.#path(attemptId, 'idx'), line, records)
  }

  linesOf(attemptId: string, seqs: readonly number[]): Promise<number[]> {
    return readLines(this.#path(attemptId, 'idx'), seqs)
  }

  /** Returns false if the files are missing or incomplete. */
  async isWhole(
    attemptId: string,
    { records, bytes }: Omit<LogPosition, 'lines'>,
  ): Promise<boolean> {
    const [log, idx] = await Promise.all([
      hasBytes(this.#path(attemptId, 'log'), bytes),
      hasBytes(this.#path(attemptId, 'idx'), records * ENTRY_BYTES),
    ])
    return log && idx
  }

  /** For a database that takes the log over. */
  blocks(attemptId: string, length: Omit<LogPosition, 'lines'>): AsyncGenerator<Block> {
    return readBlocks(this.#path(attemptId, 'log'), this.#path(attemptId, 'idx'), length)
  }

  hash(attemptId: string, bytes: number): Promise<string> {
    return hashBytes(this.#path(attemptId, 'log'), bytes)
  }

  async remove(attemptId: string): Promise<void> {
    const writer = this.#writers.get(attemptId)
    if (writer) {
      this.#writers.delete(attemptId)
      await Promise.all([closeFile(writer.log), closeFile(writer.idx)])
    }
    await rm(this.#path(attemptId, 'log'), { force: true })
    await rm(this.#path(attemptId, 'idx'), { force: true })
  }

  close(): void {
    for (const [id, writer] of [...this.#writers]) this.#forget(id, writer)
  }
}

function isUnfinished(fd: number, bytes: number): boolean {
  const last = Buffer.from([NEWLINE])
  if (bytes > 0) readSync(fd, last, 0, 1, bytes - 1)
  return last[0] !== NEWLINE
}

function writeAll(fd: number, bytes: Buffer, length: number, at: number): void {
  for (let done = 0; done < length; ) done += writeSync(fd, bytes, done, length - done, at + done)
}
