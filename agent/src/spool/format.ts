// biome-ignore-all lint/style/noNonNullAssertion: indexes are checked against the length.
// The format of a spool folder. `NNNNNN.seg` (8 MiB each) hold consecutive blocks; a block is what one flush wrote: a
// header, then a region of records as sent in a LogChunk (log-codec.ts). `tail-a` and `tail-b` hold blocks of the end
// of a log that grew too long; there `firstSeq` counts from 1 in the tail. Invariant: a block is valid completely or
// not at all; its checksum covers everything after the checksum.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import { crc32c } from '@berth/shared/wire'

export const HEADER_BYTES = 56
const MAGIC = 0x314b_4c42 // "BLK1"
const GAP = 1

export interface BlockHeader {
  regionBytes: number
  count: number
  /** Size and CRC-32C of all data in the region, as in the LogChunk of this block. */
  dataBytes: number
  dataCrc: number
  firstSeq: number
  /** Bytes of output before this block, kept or not; for a gap, before what follows it. */
  offset: number
  /** How many of those were kept. */
  kept: number
  /** The block is one GAP record, whose data is not output. */
  isGap: boolean
}

export const blockBytes = (header: BlockHeader): number => HEADER_BYTES + header.regionBytes
export const lastSeqOf = (header: BlockHeader): number => header.firstSeq + header.count - 1

/** Both counts after a block. */
export const countsAfter = (header: BlockHeader): { offset: number; kept: number } => {
  const output = header.isGap ? 0 : header.dataBytes
  return { offset: header.offset + output, kept: header.kept + output }
}

/** Completes the block at the start of the buffer; its region is already in place after the header. */
export function sealBlock(block: Buffer, header: BlockHeader): Buffer {
  const end = blockBytes(header)
  block.writeUInt32LE(MAGIC, 0)
  block.writeUInt32LE(header.regionBytes, 8)
  block.writeUInt32LE(header.count, 12)
  block.writeUInt32LE(header.dataBytes, 16)
  block.writeUInt32LE(header.dataCrc, 20)
  block.writeDoubleLE(header.firstSeq, 24)
  block.writeDoubleLE(header.offset, 32)
  block.writeDoubleLE(header.kept, 40)
  block.writeUInt32LE(header.isGap ? GAP : 0, 48)
  block.writeUInt32LE(0, 52)
  block.writeUInt32LE(crc32c(block, 0, 8, end), 4)
  return block.subarray(0, end)
}

/** The header at `at`; undefined when these bytes cannot be one. Does not check the region. */
export function readHeader(bytes: Buffer, at: number): BlockHeader | undefined {
  if (bytes.length - at < HEADER_BYTES || bytes.readUInt32LE(at) !== MAGIC) return undefined
  const header: BlockHeader = {
    regionBytes: bytes.readUInt32LE(at + 8),
    count: bytes.readUInt32LE(at + 12),
    dataBytes: bytes.readUInt32LE(at + 16),
    dataCrc: bytes.readUInt32LE(at + 20),
    firstSeq: bytes.readDoubleLE(at + 24),
    offset: bytes.readDoubleLE(at + 32),
    kept: bytes.readDoubleLE(at + 40),
    isGap: bytes.readUInt32LE(at + 48) === GAP,
  }
  const isPlausible =
    header.regionBytes <= LOGS.blockBytes &&
    header.dataBytes < header.regionBytes &&
    header.count > 0 &&
    header.count <= header.regionBytes &&
    [header.firstSeq, header.offset, header.kept].every((n) => Number.isSafeInteger(n) && n >= 0)
  return isPlausible ? header : undefined
}

/** True when the buffer holds the complete, undamaged block. */
export function isWhole(bytes: Buffer, at: number, header: BlockHeader): boolean {
  const end = at + blockBytes(header)
  return end <= bytes.length && crc32c(bytes, 0, at + 8, end) === bytes.readUInt32LE(at + 4)
}

/** The valid block at `at`, if there is one. */
export function blockAt(bytes: Buffer, at: number): BlockHeader | undefined {
  const header = readHeader(bytes, at)
  return header !== undefined && isWhole(bytes, at, header) ? header : undefined
}

const MAGIC_BYTES = Buffer.alloc(4)
MAGIC_BYTES.writeUInt32LE(MAGIC)

/** The offset of the next valid block, at or after `from`; -1 when there is none. */
export function findBlock(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(MAGIC_BYTES, from); at >= 0; ) {
    if (blockAt(bytes, at) !== undefined) return at
    at = bytes.indexOf(MAGIC_BYTES, at + 1)
  }
  return -1
}

/** All valid blocks of a file; skips damaged ones. */
export function* blocksOf(bytes: Buffer): Generator<{ at: number; header: BlockHeader }> {
  for (let at = findBlock(bytes, 0); at >= 0; ) {
    const header = readHeader(bytes, at)!
    yield { at, header }
    const next = at + blockBytes(header)
    at = blockAt(bytes, next) === undefined ? findBlock(bytes, next) : next
  }
}

export const segmentPath = (folder: string, segment: number): string =>
  join(folder, `${String(segment).padStart(6, '0')}.seg`)

export const TAIL_FILES = ['tail-a', 'tail-b'] as const

/** Numbers of the segments, oldest first. */
export function listSegments(folder: string): number[] {
  return namesIn(folder)
    .map((name) => /^(\d{6,9})\.seg$/.exec(name)?.[1])
    .filter((digits) => digits !== undefined)
    .map(Number)
    .sort((a, b) => a - b)
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** A file of the spool; empty when it does not exist. */
export function readWhole(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0)
    throw error
  }
}
