// The runner's end of the spool of one attempt: records in, blocks on disk out. Nothing is waited
// for but the disk. Invariants: sequence numbers of the segments have no holes; a block that was
// written is never touched again; past the head the last megabyte or two is kept aside and comes
// back at the end, behind a GAP record. A full disk costs output (counted, told by a GAP record
// when there is room again), never an exception and never an earlier block. Deliberately absent:
// timers (the caller flushes and syncs) and reading.
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
  /** The system's write; another one only to try out a full disk. */
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
  /** Records given to the tail files, which are numbered only when they come back. */
  #tailCount = 0
  /** Bytes of output given so far, and of them kept; both as of the open block's beginning. */
  #offset = 0
  #kept = 0
  /** Bytes that found no room since the last block that did. */
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

  /** The newest record's number, as far as one was given. */
  get lastSeq(): number {
    return this.#lastSeq
  }

  /**
   * Takes one record (copied) and returns the newest number: its own, unless it went to the tail or
   * was dropped.
   */
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

  /**
   * Writes what was taken so far. Without room it stays, and is tried again with the next flush.
   */
  flush(): void {
    if (this.#block.count > 0 && !this.#writeBlock()) return
    if (this.#dropped > 0) this.#writeGap()
  }

  /** What was flushed is on the disk afterwards. */
  async sync(): Promise<void> {
    try {
      await this.#segments.sync()
      await this.#tail?.sync()
    } catch (error) {
      if (!isDiskFull(error)) throw error // some file systems notice it only now
    }
  }

  /** Brings the tail back, syncs and closes. Nothing may follow. */
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

  /** There is room again: says what is missing. */
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

  /** At the end of an attempt on a full disk: its last block is as lost as what came after it. */
  #giveUp(): void {
    if (this.#tail === undefined) this.#lastSeq -= this.#block.count
    this.#offset += this.#block.dataBytes + this.#dropped
    this.#dropped = 0
    this.#block.clear()
  }
}
