// Queries on the segments of a spool that need no cursor, and their removal after acknowledgement or eviction.
// Invariant: the newest segment is never removed; a segment is removed completely or stays.
import { closeSync, openSync, readSync, statSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import {
  type BlockHeader,
  blockAt,
  blocksOf,
  HEADER_BYTES,
  lastSeqOf,
  listSegments,
  readWhole,
  segmentPath,
  TAIL_FILES,
} from './format.ts'

/** The first valid block of a segment. */
export function firstBlock(folder: string, segment: number): BlockHeader | undefined {
  const file = segmentPath(folder, segment)
  const start = Buffer.alloc(HEADER_BYTES + LOGS.blockBytes)
  let bytes = 0
  try {
    const fd = openSync(file, 'r')
    try {
      bytes = readSync(fd, start, 0, start.length, 0)
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const first = blockAt(start.subarray(0, bytes), 0)
  return first ?? blocksOf(readWhole(file)).next().value?.header
}

/** The oldest record that still exists; last + 1 when there is none. */
export function findFirstSeq(folder: string): number {
  for (const segment of listSegments(folder)) {
    const block = firstBlock(folder, segment)
    if (block !== undefined) return block.firstSeq
  }
  return 1
}

/** The newest record that was written; 0 when there is none. */
export function findLastSeq(folder: string): number {
  for (const segment of listSegments(folder).toReversed()) {
    let last: BlockHeader | undefined
    for (const { header } of blocksOf(readWhole(segmentPath(folder, segment)))) last = header
    if (last !== undefined) return lastSeqOf(last)
  }
  return 0
}

/** Bytes on disk, tail included. */
export function measureSpool(folder: string): number {
  const files = [
    ...listSegments(folder).map((segment) => segmentPath(folder, segment)),
    ...TAIL_FILES.map((name) => join(folder, name)),
  ]
  return files.reduce(
    (sum, file) => sum + (statSync(file, { throwIfNoEntry: false })?.size ?? 0),
    0,
  )
}

/** Removes full segments whose records are all in (afterSeq, throughSeq]; returns the bytes freed. */
export function removeSegments(folder: string, afterSeq: number, throughSeq: number): number {
  const segments = listSegments(folder)
  let freed = 0
  for (const [i, segment] of segments.entries()) {
    const following = segments[i + 1]
    if (following === undefined) break
    const first = firstBlock(folder, segment)?.firstSeq ?? 0
    // The next segment's first record shows where this one ends, even if its last blocks are damaged.
    const last = (firstBlock(folder, following)?.firstSeq ?? Number.POSITIVE_INFINITY) - 1
    if (last > throughSeq) break
    if (first <= afterSeq) continue
    const file = segmentPath(folder, segment)
    freed += statSync(file).size
    unlinkSync(file)
  }
  return freed
}
