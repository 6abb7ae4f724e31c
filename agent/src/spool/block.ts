// The block that is being filled. Records are encoded directly into the buffer that will be written, and their data is
// also copied contiguously, so that the checksum and the digest take one call each. Knows no files and no sequence
// numbers.
import type { Hash } from 'node:crypto'
import { LOGS } from '@berth/shared'
import {
  copyBytes,
  crc32c,
  encodeRecord,
  GapReason,
  LogSource,
  NO_STEP,
  RECORD_OVERHEAD,
  recordSize,
} from '@berth/shared/wire'
import { HEADER_BYTES, sealBlock } from './format.ts'

export class OpenBlock {
  count = 0
  dataBytes = 0
  #regionBytes = 0
  #isGap = false
  readonly #block = Buffer.allocUnsafe(HEADER_BYTES + LOGS.blockBytes)
  readonly #data = Buffer.allocUnsafe(LOGS.blockBytes)

  /** False when the record does not fit; the block must be written first. */
  add(
    timeUs: number,
    source: LogSource,
    step: number,
    data: Buffer,
    start: number,
    end: number,
    replacesPrevious: boolean,
  ): boolean {
    const bytes = end - start
    const room = LOGS.blockBytes - this.#regionBytes
    if (room < bytes + RECORD_OVERHEAD) {
      if (room < recordSize(timeUs, source, step, bytes, replacesPrevious)) return false
    }
    const at = HEADER_BYTES + this.#regionBytes
    const block = this.#block
    const to = encodeRecord(block, at, timeUs, source, step, data, start, end, replacesPrevious)
    copyBytes(data, start, end, this.#data, this.dataBytes)
    this.#regionBytes = to - HEADER_BYTES
    this.dataBytes += bytes
    this.count++
    return true
  }

  /** Fills the (empty) block with a gap. */
  setGap(timeUs: number, bytes: number, reason: GapReason, text: string): void {
    const data = Buffer.from(text)
    const end = encodeGap(this.#block, HEADER_BYTES, timeUs, data, bytes, reason)
    this.#regionBytes = end - HEADER_BYTES
    data.copy(this.#data)
    this.dataBytes = data.length
    this.count = 1
    this.#isGap = true
  }

  /** Fills the (empty) block with the region of an earlier block. */
  setRegion(region: Buffer, data: Buffer, count: number, isGap: boolean): void {
    region.copy(this.#block, HEADER_BYTES)
    data.copy(this.#data)
    this.#regionBytes = region.length
    this.dataBytes = data.length
    this.count = count
    this.#isGap = isGap
  }

  seal(firstSeq: number, offset: number, kept: number): Buffer {
    return sealBlock(this.#block, {
      regionBytes: this.#regionBytes,
      count: this.count,
      dataBytes: this.dataBytes,
      dataCrc: crc32c(this.#data, 0, 0, this.dataBytes),
      firstSeq,
      offset,
      kept,
      isGap: this.#isGap,
    })
  }

  addTo(hash: Hash): void {
    hash.update(this.#data.subarray(0, this.dataBytes))
  }

  clear(): void {
    this.count = 0
    this.dataBytes = 0
    this.#regionBytes = 0
    this.#isGap = false
  }
}

/** A record that says what is missing; without data and bytes, it only takes the number of a missing record. */
export function encodeGap(
  target: Buffer,
  at: number,
  timeUs: number,
  data: Buffer,
  bytes: number,
  reason: GapReason,
): number {
  const step = data.length === 0 ? 0 : NO_STEP
  const source = LogSource.GAP
  return encodeRecord(target, at, timeUs, source, step, data, 0, data.length, false, bytes, reason)
}

/** What users read in place of the missing bytes. */
export function describeGap(bytes: number, reason: GapReason, headBytes: number): string {
  const what = bytes > 0 ? `${bytes} bytes` : 'Some bytes'
  switch (reason) {
    case GapReason.LIMIT:
      return `[… ${what} were not kept: the log passed ${formatSize(headBytes)} …]\n`
    case GapReason.DISK:
      return `[… ${what} were not kept: the disk of the server was full …]\n`
    case GapReason.EVICTED:
      return `[… ${what} were given up unsent: the server had too many logs to keep …]\n`
    default:
      return `[… ${what} were lost: the log file on the server is damaged …]\n`
  }
}

const formatSize = (bytes: number): string =>
  bytes >= 1_048_576 ? `${Math.round(bytes / 1_048_576)} MiB` : `${bytes} bytes`
