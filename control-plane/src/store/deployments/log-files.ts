// Bytes of logs, two files an attempt: `<id>.log` holds the data of all records in order, as it is served; `<id>.idx`
// has 24 bytes a record, so that a line or a step is found without reading the log. The database says how much of both
// is certain: what lies beyond is cut off and comes again. Appending makes no object a record.
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
import { forEachRecord, NO_STEP } from '@berth/shared/wire'
import { makePrivateFolder } from '../engine/private-files.ts'
import {
  ENTRY_BYTES,
  findLine,
  hasBytes,
  hashBytes,
  type RecordQuery,
  readBytes,
  readLine,
  readRecords,
  readRuns,
  type StoredRecord,
  writeEntry,
} from './log-reading.ts'

export { LogGone, type RecordQuery, type StoredRecord } from './log-reading.ts'

/** How much of a log there is. `lines` counts line ends, and one more when the last line has none. */
export interface LogPosition {
  records: number
  bytes: number
  lines: number
}

interface Writer {
  log: number
  idx: number
  /** Syncs under way; an open file may only be closed without one. */
  busy: number
  /** The last byte written was no line end: the next record continues that line. Undefined: not looked yet. */
  unfinished: boolean | undefined
  /** The names of the files are not yet durable in their folder. */
  unnamed: boolean
}

const WRITERS = 256 // open files are twice that; the oldest idle one is closed
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const NEWLINE = 10
const sync = promisify(fdatasync)
const closeFile = promisify(close)

export class LogFiles {
  readonly #dir: string
  readonly #writers = new Map<string, Writer>()
  #data = Buffer.allocUnsafe(64 * 1_024)
  #entries = Buffer.allocUnsafe(64 * 1_024)

  constructor(dir: string) {
    makePrivateFolder(dir)
    this.#dir = dir
  }

  /** An id from outside becomes part of a path only when it is one. */
  #path(attemptId: string, ending: 'log' | 'idx'): string {
    if (!ID.test(attemptId)) throw new Error(`not the id of an attempt: ${attemptId.slice(0, 50)}`)
    return join(this.#dir, `${attemptId}.${ending}`)
  }

  #writer(attemptId: string): Writer {
    const open = this.#writers.get(attemptId)
    if (open) {
      this.#writers.delete(attemptId) // to the end: least recently used first
      this.#writers.set(attemptId, open)
      return open
    }
    this.#evict()
    const log = openSync(this.#path(attemptId, 'log'), 'a+', 0o600)
    closeSync(log) // made if missing; positioned writes need another mode
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

  /** False: the files are missing or shorter than the database says; they belong to another backup, or to none. */
  holds(attemptId: string, at: LogPosition): boolean {
    const size = (ending: 'log' | 'idx'): number =>
      statSync(this.#path(attemptId, ending), { throwIfNoEntry: false })?.size ?? 0
    return size('log') >= at.bytes && size('idx') >= at.records * ENTRY_BYTES
  }

  /** Cuts both files to what the database says, and remembers how the last line ended. */
  truncate(attemptId: string, at: LogPosition): void {
    const writer = this.#writer(attemptId)
    ftruncateSync(writer.log, at.bytes)
    ftruncateSync(writer.idx, at.records * ENTRY_BYTES)
    writer.unfinished = isUnfinished(writer.log, at.bytes)
  }

  /** Appends a region of records (wire form) at a position; returns the position behind it. Not durable yet. */
  append(attemptId: string, at: LogPosition, region: Buffer): LogPosition {
    const writer = this.#writer(attemptId)
    if (this.#data.length < region.length) this.#data = Buffer.allocUnsafe(region.length)
    let bytes = 0
    let records = 0
    let lines = at.lines
    let unfinished = writer.unfinished ?? isUnfinished(writer.log, at.bytes)
    const entryCount = Math.ceil(region.length / 2) // no record is shorter than two bytes
    if (this.#entries.length < entryCount * ENTRY_BYTES) {
      this.#entries = Buffer.allocUnsafe(entryCount * ENTRY_BYTES)
    }
    const data = this.#data
    const entries = this.#entries
    forEachRecord(region, (timeUs, source, step, start, end, replaces) => {
      const empty = start === end
      const line = empty || unfinished ? Math.max(lines, 1) : lines + 1
      const at32 = step === NO_STEP ? undefined : step
      writeEntry(
        entries,
        records * ENTRY_BYTES,
        timeUs,
        at.bytes + bytes,
        line,
        at32,
        source,
        replaces,
      )
      records += 1
      if (empty) return
      region.copy(data, bytes, start, end)
      bytes += end - start
      if (!unfinished) lines += 1
      unfinished = region[end - 1] !== NEWLINE
      for (let n = region.indexOf(NEWLINE, start); n >= 0 && n < end - 1; ) {
        lines += 1 // a record of several lines: only its last end was counted above
        n = region.indexOf(NEWLINE, n + 1)
      }
    })
    writeAll(writer.log, data, bytes, at.bytes)
    writeAll(writer.idx, entries, records * ENTRY_BYTES, at.records * ENTRY_BYTES)
    writer.unfinished = unfinished
    return { records: at.records + records, bytes: at.bytes + bytes, lines }
  }

  /** Everything appended so far survives a power loss. */
  async sync(attemptIds: string[]): Promise<void> {
    await Promise.all(
      attemptIds.map(async (id) => {
        const writer = this.#writer(id) // opened again if it was closed for others: syncing any handle is enough
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

  /** Like records, but only bytes, in pieces as large as possible. */
  runs(attemptId: string, query: RecordQuery): AsyncGenerator<Buffer> {
    return readRuns(this.#path(attemptId, 'log'), this.#path(attemptId, 'idx'), query)
  }

  /** Index (from 0) of the first record that lies in this line or after it. */
  findLine(attemptId: string, line: number, records: number): Promise<number> {
    return findLine(this.#path(attemptId, 'idx'), line, records)
  }

  /** The line in which a record (seq from 1) begins. */
  lineOf(attemptId: string, seq: number): Promise<number> {
    return readLine(this.#path(attemptId, 'idx'), seq)
  }

  /** False: the files are gone, or a part of them. */
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
