// Moves the end of a log that outgrew its head from the two tail files to the segments, after a GAP record that says
// how much is missing. The runner does it when it finishes, the daemon for a runner that died. Invariant: repeating it
// after any interruption adds nothing twice, since each block carries the offset of its first byte in the whole output.
import type { Hash } from 'node:crypto'
import { statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import { forEachRecord, GapReason } from '@berth/shared/wire'
import { describeGap, OpenBlock } from './block.ts'
import { removeTailFiles, SegmentFiles, type WriteCall } from './files.ts'
import {
  type BlockHeader,
  blockBytes,
  blocksOf,
  countsAfter,
  HEADER_BYTES,
  lastSeqOf,
  listSegments,
  readWhole,
  segmentPath,
  TAIL_FILES,
} from './format.ts'

/** Where the segments end: the newest record, and the bytes of output up to its end, given and kept. */
interface SpoolPosition {
  lastSeq: number
  offset: number
  kept: number
}

export interface SpoolEnd {
  finalSeq: number
  /** Bytes of masked output, and how many of them are missing from the log. */
  bytesTotal: number
  bytesDropped: number
  /** Over the data of all records in order; empty when it is unknown. */
  sha256: Uint8Array
}

interface TailBlock {
  header: BlockHeader
  region: Buffer
}

/** Blocks of both tail files in the order in which they were written. */
function readTail(folder: string): TailBlock[] {
  const blocks: TailBlock[] = []
  for (const name of TAIL_FILES) {
    const bytes = readWhole(join(folder, name))
    for (const { at, header } of blocksOf(bytes)) {
      const region = bytes.subarray(at + HEADER_BYTES, at + blockBytes(header))
      blocks.push({ header, region })
    }
  }
  return blocks.sort((a, b) => a.header.firstSeq - b.header.firstSeq)
}

/** Appends the blocks of the tail files that the segments lack. A full disk ends it early. */
export function appendTail(
  folder: string,
  files: SegmentFiles,
  from: SpoolPosition,
  headBytes: number,
  hash?: Hash,
): SpoolPosition {
  const block = new OpenBlock()
  let position = from
  /** Writes the block that was just set; false when the disk is full. */
  const write = (header: BlockHeader, count: number, output: number): boolean => {
    const sealed = block.seal(position.lastSeq + 1, header.offset, position.kept)
    if (!files.append(sealed)) return false
    if (hash !== undefined) block.addTo(hash)
    block.clear()
    const { lastSeq, kept } = position
    position = { lastSeq: lastSeq + count, offset: header.offset + output, kept: kept + output }
    return true
  }
  let isFirst = true
  for (const { header, region } of readTail(folder)) {
    if (countsAfter(header).offset <= position.offset) continue
    const missing = header.offset - position.offset
    const isOwnGap = header.isGap && !isFirst
    if (missing > 0 && !isOwnGap) {
      const text = describeGap(missing, GapReason.LIMIT, headBytes)
      block.setGap(firstTime(region), missing, GapReason.LIMIT, text)
      if (!write(header, 1, 0)) return position
    }
    if (!header.isGap || isOwnGap) {
      block.setRegion(region, dataOf(region, header.dataBytes), header.count, header.isGap)
      if (!write(header, header.count, header.isGap ? 0 : header.dataBytes)) return position
    }
    isFirst = false
  }
  return position
}

function dataOf(region: Buffer, dataBytes: number): Buffer {
  const data = Buffer.allocUnsafe(dataBytes)
  let to = 0
  forEachRecord(region, (_time, _source, _step, start, end) => {
    to += region.copy(data, to, start, end)
  })
  return data
}

export function firstTime(region: Buffer): number {
  let first = 0
  forEachRecord(region, (timeUs) => {
    first ||= timeUs
  })
  return first
}

/**
 * The daemon calls it after a runner died: truncates the torn end of the newest segment and appends the tail.
 * Idempotent, also after a runner that finished properly.
 */
export function appendTailAfterDeath(
  folder: string,
  limits: { headBytes?: number; segmentBytes?: number; write?: WriteCall } = {},
): SpoolEnd {
  const segments = listSegments(folder)
  const sha256 = new Uint8Array(0)
  const newest = segments.at(-1)
  if (newest === undefined) return { finalSeq: 0, bytesTotal: 0, bytesDropped: 0, sha256 }
  let position = recover(folder, segments)
  const files = new SegmentFiles(
    folder,
    limits.segmentBytes ?? LOGS.segmentBytes,
    newest,
    limits.write,
  )
  try {
    position = appendTail(folder, files, position, limits.headBytes ?? LOGS.headBytes)
  } finally {
    files.close()
  }
  removeTailFiles(folder)
  const { lastSeq, offset, kept } = position
  return { finalSeq: lastSeq, bytesTotal: offset, bytesDropped: offset - kept, sha256 }
}

/** The position after the last valid block; truncates what follows it in the newest segment. */
function recover(folder: string, segments: number[]): SpoolPosition {
  for (const segment of segments.toReversed()) {
    const file = segmentPath(folder, segment)
    let last: BlockHeader | undefined
    let end = 0
    for (const { at, header } of blocksOf(readWhole(file))) {
      last = header
      end = at + blockBytes(header)
    }
    if (statSync(file).size > end) truncateSync(file, end)
    if (last !== undefined) return { lastSeq: lastSeqOf(last), ...countsAfter(last) }
  }
  return { lastSeq: 0, offset: 0, kept: 0 }
}
