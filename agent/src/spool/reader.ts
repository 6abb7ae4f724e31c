// The daemon's end of the spool of one attempt: returns regions ready to be sent, in order, while the runner writes.
// Invariant: record numbers are contiguous, even over damaged or evicted records, which are replaced one for one: one
// GAP record says what is missing, empty GAP records follow. Only synced records may be sent, so call `syncRead` before
// sending. Neither writes nor knows sessions and acknowledgements.
import { LOGS } from '@berth/shared'
import { GapReason, RECORD_OVERHEAD, skipRecords, sumData } from '@berth/shared/wire'
import { describeGap, encodeGap } from './block.ts'
import { SpoolCursor } from './cursor.ts'
import { findFirstSeq, findLastSeq, firstBlock, measureSpool, removeSegments } from './folder.ts'
import { type BlockHeader, countsAfter, lastSeqOf, listSegments } from './format.ts'
import { firstTime } from './tail.ts'

interface SpoolBatch {
  firstSeq: number
  lastSeq: number
  count: number
  /** A region; valid until the next call of `read`. */
  records: Buffer
  dataBytes: number
  crc32c: number
  /** More records are available than fit, so waiting gains nothing. */
  isFull: boolean
}

interface Missing {
  throughSeq: number
  reason: GapReason
  bytes: number
  timeUs: number
  isReported: boolean
}

const NO_DATA = Buffer.alloc(0)

export class SpoolReader {
  readonly #folder: string
  readonly #cursor: SpoolCursor
  /** The record that `read` returns next. */
  #next = 1
  /** Bytes of output before it, if known; then a gap says exactly how many are missing. */
  #offset: number | undefined = 0
  /** The segments before the cursor's were removed. */
  #isEvicted = false
  #missing: Missing | undefined
  #finalSeq = 0
  #scratch = NO_DATA

  private constructor(folder: string) {
    this.#folder = folder
    this.#cursor = new SpoolCursor(folder)
  }

  /** Reading begins after `afterSeq`. The folder must exist. */
  static open(folder: string, afterSeq = 0): SpoolReader {
    const reader = new SpoolReader(folder)
    reader.seek(afterSeq)
    return reader
  }

  /** The next record is the one after `afterSeq`. */
  seek(afterSeq: number): void {
    if (afterSeq + 1 !== this.#next) this.#offset = afterSeq === 0 ? 0 : undefined
    this.#next = afterSeq + 1
    this.#missing = undefined
    const segments = listSegments(this.#folder)
    const holding = segments.findLast((segment) => {
      const first = firstBlock(this.#folder, segment)
      return first !== undefined && first.firstSeq <= this.#next
    })
    const segment = holding ?? segments[0] ?? 1
    this.#isEvicted = holding === undefined && segment > 1
    this.#cursor.place(segment)
  }

  get nextSeq(): number {
    return this.#next
  }

  /** Oldest record in the files. */
  get firstSeq(): number {
    return findFirstSeq(this.#folder)
  }

  /** Newest record in the files. Reads the newest segment, so do not call it for every chunk. */
  get lastSeq(): number {
    return findLastSeq(this.#folder)
  }

  /** Bytes on disk. */
  get bytes(): number {
    return measureSpool(this.#folder)
  }

  /** The log ends with this record; missing ones before it are damaged and will not come. */
  end(finalSeq: number): void {
    this.#finalSeq = finalSeq
  }

  /** The next records, up to `maxBytes` (but at least one block); undefined when nothing is new. */
  read(maxBytes: number = LOGS.chunkBytes): SpoolBatch | undefined {
    if (this.#missing !== undefined) return this.#readMissing(this.#missing, maxBytes)
    const firstSeq = this.#next
    let joined = 0
    for (;;) {
      const header = this.#nextBlock()
      if (header === undefined || header.firstSeq > this.#next) {
        return joined > 0
          ? this.#finishJoin(firstSeq, joined, false)
          : this.#beginMissing(header, maxBytes)
      }
      const older = this.#next - header.firstSeq
      const whole = this.#cursor.region
      const region = older === 0 ? whole : whole.subarray(skipRecords(whole, older))
      if (joined > 0 && joined + region.length > maxBytes) {
        return this.#finishJoin(firstSeq, joined, true)
      }
      this.#take(header)
      // A large block is sent as it is; small ones are copied together.
      if (joined === 0 && region.length * 2 > maxBytes) {
        const batch = {
          firstSeq,
          lastSeq: lastSeqOf(header),
          count: header.count - older,
          records: region,
          isFull: true,
        }
        if (older > 0) return { ...batch, ...sumOf(region) }
        return { ...batch, dataBytes: header.dataBytes, crc32c: header.dataCrc }
      }
      joined = this.#join(region, joined, maxBytes)
    }
  }

  /** What was read is on the disk afterwards and may be sent. */
  async syncRead(): Promise<void> {
    await this.#cursor.sync()
  }

  /** Everything up to `seq` is stored elsewhere: removes the full segments that hold nothing else. */
  dropThrough(seq: number): number {
    return this.#remove(0, seq)
  }

  /** Evicts unsent records (afterSeq, seq] in whole segments; they are read as GAP records from then on. */
  evictThrough(seq: number, afterSeq = 0): number {
    return this.#remove(afterSeq, seq)
  }

  close(): void {
    this.#cursor.close()
  }

  #remove(afterSeq: number, throughSeq: number): number {
    const freed = removeSegments(this.#folder, afterSeq, throughSeq)
    const isGone = !listSegments(this.#folder).includes(this.#cursor.segment)
    if (freed > 0 && isGone && this.#missing === undefined) this.seek(this.#next - 1)
    return freed
  }

  /** The block that holds `#next`, or the first one after it. */
  #nextBlock(): BlockHeader | undefined {
    for (;;) {
      const header = this.#cursor.peek()
      if (header === undefined || lastSeqOf(header) >= this.#next) return header
      this.#offset = countsAfter(header).offset
      this.#cursor.pass()
    }
  }

  #take(header: BlockHeader): void {
    this.#next = lastSeqOf(header) + 1
    this.#offset = countsAfter(header).offset
    this.#isEvicted = false
    this.#cursor.pass()
  }

  #join(region: Buffer, joined: number, maxBytes: number): number {
    if (this.#scratch.length < Math.max(maxBytes, region.length)) {
      this.#scratch = Buffer.allocUnsafe(Math.max(maxBytes, LOGS.blockBytes))
    }
    region.copy(this.#scratch, joined)
    return joined + region.length
  }

  #finishJoin(firstSeq: number, bytes: number, isFull: boolean): SpoolBatch {
    const records = this.#scratch.subarray(0, bytes)
    const count = this.#next - firstSeq
    return { firstSeq, lastSeq: this.#next - 1, count, records, isFull, ...sumOf(records) }
  }

  #beginMissing(header: BlockHeader | undefined, maxBytes: number): SpoolBatch | undefined {
    const throughSeq = header === undefined ? this.#finalSeq : header.firstSeq - 1
    if (throughSeq < this.#next) return undefined
    const isEvicted = this.#isEvicted || this.#cursor.hasSkippedSegments
    const end = header?.offset ?? this.#offset ?? 0
    this.#missing = {
      throughSeq,
      reason: isEvicted ? GapReason.EVICTED : GapReason.DAMAGED,
      bytes: Math.max(0, end - (this.#offset ?? end)),
      timeUs: header === undefined ? 0 : firstTime(this.#cursor.region),
      isReported: false,
    }
    return this.#readMissing(this.#missing, maxBytes)
  }

  #readMissing(missing: Missing, maxBytes: number): SpoolBatch {
    const firstSeq = this.#next
    const records = Buffer.allocUnsafe(Math.max(maxBytes, 1_024))
    let bytes = 0
    if (!missing.isReported) {
      const text = Buffer.from(describeGap(missing.bytes, missing.reason, 0))
      bytes = encodeGap(records, 0, missing.timeUs, text, missing.bytes, missing.reason)
      missing.isReported = true
      this.#next++
    }
    while (this.#next <= missing.throughSeq && bytes + RECORD_OVERHEAD <= records.length) {
      bytes = encodeGap(records, bytes, 0, NO_DATA, 0, GapReason.UNSPECIFIED)
      this.#next++
    }
    if (this.#next > missing.throughSeq) this.#missing = undefined
    const count = this.#next - firstSeq
    const region = records.subarray(0, bytes)
    const isFull = true // waiting for a gap gains nothing
    return { firstSeq, lastSeq: this.#next - 1, count, records: region, isFull, ...sumOf(region) }
  }
}

function sumOf(region: Buffer): { dataBytes: number; crc32c: number } {
  const { dataBytes, crc32c } = sumData(region)
  return { dataBytes, crc32c }
}
