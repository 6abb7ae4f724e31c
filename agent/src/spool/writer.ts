// The runner's end of the spool of one attempt: turns records into blocks on disk and waits only for the disk.
// Invariants: sequence numbers of the segments have no holes; a written block is never changed; past the head, the last
// megabyte or two is kept aside and appended at the end, after a GAP record. A full disk costs output (counted in a GAP
// record), never an exception or an earlier block. Has no timers.
import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { LOGS } from '@berth/shared'
import { GapReason, type LogSource } from '@berth/shared/wire'
import { describeGap, OpenBlock } from './block.ts'
import { isDiskFull, removeTailFiles, SegmentFiles, TailFiles, type WriteCall } from './files.ts'
import { appendTail, type SpoolEnd } from './tail.ts'

export interface SpoolLimits {
  headBytes: number
  tailBytes: number
  segmentBytes: number
  /** The system's write; tests replace it to simulate a full disk. */
  write?: WriteCall
}

const DEFAULTS: SpoolLimits = {
  headBytes: LOGS.headBytes,
  tailBytes: LOGS.tailBytes,
  segmentBytes: LOGS.segmentBytes,
}

export class SpoolWriter {
  readonly #folder: string
  readonly #limits: SpoolLimits
  readonly #segments: SegmentFiles
  #tail: TailFiles | undefined
  readonly #hash = createHash('sha256')
  readonly #block = new OpenBlock()
  #lastSeq = 0
  /** Records given to the tail files; they get numbers only when they are appended at the end. */
  #tailCount = 0
  /** Bytes of output given so far, and how many of them were kept, both at the start of the open block. */
  #offset = 0
  #kept = 0
  /** Bytes dropped on a full disk since the last block that was written. */
  #dropped = 0
  #droppedSinceTry = 0
  #timeUs = 0

  private constructor(folder: string, limits: SpoolLimits) {
    this.#folder = folder
    this.#limits = limits
    this.#segments = new SegmentFiles(folder, limits.segmentBytes, 0, limits.write)
  }

  /** Begins the spool of an attempt; the folder is new or empty. */
  static create(folder: string, limits: Partial<SpoolLimits> = {}): SpoolWriter {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    return new SpoolWriter(folder, { ...DEFAULTS, ...limits })
  }

  /** The number of the newest record that has one. */
  get lastSeq(): number {
    return this.#lastSeq
  }

  /** Takes one record (copied) and returns the newest number: its own, unless it went to the tail or was dropped. */
  append(
    timeUs: number,
    source: LogSource,
    step: number,
    data: Buffer,
    start = 0,
    end = data.length,
    replacesPrevious = false,
  ): number {
    this.#timeUs = timeUs
    const bytes = end - start
    if (this.#dropped > 0 && !this.#tryAgain()) return this.#drop(bytes)
    const block = this.#block
    const given = this.#offset + block.dataBytes + bytes
    if (this.#tail === undefined && given > this.#limits.headBytes && !this.#beginTail()) {
      return this.#drop(bytes)
    }
    if (!block.add(timeUs, source, step, data, start, end, replacesPrevious)) {
      this.flush()
      if (block.count > 0) return this.#drop(bytes)
      if (!block.add(timeUs, source, step, data, start, end, replacesPrevious)) {
        throw new RangeError(`A record of ${bytes} bytes is too long for the spool.`)
      }
    }
    if (this.#tail === undefined) this.#lastSeq++
    return this.#lastSeq
  }

  /** Writes what was taken so far. On a full disk it is kept and retried with the next flush. */
  flush(): void {
    if (this.#block.count > 0 && !this.#writeBlock()) return
    if (this.#dropped > 0) this.#writeGap()
  }

  /** Everything flushed is on the disk afterwards. */
  async sync(): Promise<void> {
    try {
      await this.#segments.sync()
      await this.#tail?.sync()
    } catch (error) {
      if (!isDiskFull(error)) throw error // some file systems report it only now
    }
  }

  /** Appends the tail, syncs and closes. No call may follow. */
  finish(): SpoolEnd {
    this.flush()
    this.#giveUp()
    this.#tail?.close()
    let position = { lastSeq: this.#lastSeq, offset: this.#offset, kept: this.#kept }
    if (this.#tail !== undefined) {
      const from = { ...position, ...this.#headEnd }
      position = appendTail(this.#folder, this.#segments, from, this.#limits.headBytes, this.#hash)
    }
    this.#segments.close()
    removeTailFiles(this.#folder)
    this.#lastSeq = position.lastSeq
    return {
      finalSeq: position.lastSeq,
      bytesTotal: this.#offset,
      bytesDropped: this.#offset - position.kept,
      sha256: this.#hash.digest(),
    }
  }

  /** Where the segments ended when the tail began. */
  #headEnd = { offset: 0, kept: 0 }

  #beginTail(): boolean {
    this.flush()
    if (this.#block.count > 0 || this.#dropped > 0) return false
    try {
      this.#tail = new TailFiles(this.#folder, this.#limits.tailBytes, this.#limits.write)
    } catch (error) {
      if (isDiskFull(error)) return false
      throw error
    }
    this.#headEnd = { offset: this.#offset, kept: this.#kept }
    return true
  }

  #writeBlock(): boolean {
    const block = this.#block
    const output = block.dataBytes
    if (this.#tail === undefined) {
      const firstSeq = this.#lastSeq - block.count + 1
      if (!this.#segments.append(block.seal(firstSeq, this.#offset, this.#kept))) return false
      block.addTo(this.#hash)
    } else {
      if (!this.#tail.append(block.seal(this.#tailCount + 1, this.#offset, this.#kept)))
        return false
      this.#tailCount += block.count
    }
    this.#offset += output
    this.#kept += output
    block.clear()
    return true
  }

  /** There is space again: writes what is missing. */
  #writeGap(): void {
    const block = this.#block
    const text = describeGap(this.#dropped, GapReason.DISK, this.#limits.headBytes)
    block.setGap(this.#timeUs, this.#dropped, GapReason.DISK, text)
    const target = this.#tail ?? this.#segments
    const number = this.#tail === undefined ? this.#lastSeq + 1 : this.#tailCount + 1
    const isWritten = target.append(block.seal(number, this.#offset + this.#dropped, this.#kept))
    if (isWritten) {
      this.#offset += this.#dropped
      this.#dropped = 0
      if (this.#tail === undefined) {
        this.#lastSeq++
        block.addTo(this.#hash)
      } else {
        this.#tailCount++
      }
    }
    block.clear()
  }

  #tryAgain(): boolean {
    if (this.#droppedSinceTry < LOGS.retryBytes) return false
    this.#droppedSinceTry = 0
    this.flush()
    return this.#dropped === 0
  }

  #drop(bytes: number): number {
    this.#dropped += bytes
    this.#droppedSinceTry += bytes
    return this.#lastSeq
  }

  /** An attempt ends on a full disk: its last block is lost, like the output after it. */
  #giveUp(): void {
    if (this.#tail === undefined) this.#lastSeq -= this.#block.count
    this.#offset += this.#block.dataBytes + this.#dropped
    this.#dropped = 0
    this.#block.clear()
  }
}
