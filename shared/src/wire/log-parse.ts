// biome-ignore-all lint/style/noNonNullAssertion: every index is checked before it is read.
// Reads the log stream's own codec (log-codec.ts writes it). A visitor gets records as offsets into the received
// buffer, so a chunk of a thousand lines costs one object. Invariant: every length is checked before use; an invalid
// message, or a number above 2^53, throws MalformedLogError, and no input causes a loop or a read out of bounds.
// Unknown fields are skipped, as protobuf requires.
import { fromBinary } from '@bufbuild/protobuf'
import { crc32c } from './crc32c.ts'
import {
  type GapReason,
  type LogOpen,
  LogOpenSchema,
  type LogSource,
} from './gen/berth/agent/v1/agent_pb.ts'

/** The received bytes are not a log message: the stream is broken and ends. */
export class MalformedLogError extends Error {
  constructor(what: string) {
    super(`The log message is malformed: ${what}.`)
    this.name = 'MalformedLogError'
  }
}

export interface ParsedChunk {
  kind: 'chunk'
  attemptId: string
  fence: bigint
  firstSeq: number
  crc32c: number
  /** A region; a view of the received buffer. */
  records: Buffer
  count: number
}
type ParsedLogUp = { kind: 'open'; open: LogOpen } | ParsedChunk

/** One record of a region; `buffer[dataStart, dataEnd)` is its data. */
type RecordVisitor = (
  timeUs: number,
  source: LogSource,
  step: number,
  dataStart: number,
  dataEnd: number,
  replacesPrevious: boolean,
  gapBytes: number,
  gapReason: GapReason,
) => void

// Where the last read ended. One variable instead of an object per number; nothing here is asynchronous.
let cursor = 0

function readVarint(bytes: Uint8Array, at: number, end: number): number {
  if (at >= end) throw new MalformedLogError('it ends inside a number')
  const first = bytes[at]!
  if (first < 0x80) {
    cursor = at + 1
    return first
  }
  let value = first & 0x7f
  let scale = 128
  for (let i = at + 1; i < end; i++) {
    const byte = bytes[i]!
    value += (byte & 0x7f) * scale
    if (byte < 0x80) {
      if (value > Number.MAX_SAFE_INTEGER) throw new MalformedLogError('a number passes 2^53')
      cursor = i + 1
      return value
    }
    scale *= 128
    if (i - at >= 9) throw new MalformedLogError('a number has more than ten bytes')
  }
  throw new MalformedLogError('it ends inside a number')
}

/** Reads a length and leaves `cursor` at the first counted byte; all of them are present. */
function readLength(bytes: Uint8Array, at: number, end: number): number {
  const length = readVarint(bytes, at, end)
  if (length > end - cursor) throw new MalformedLogError('a field is longer than its message')
  return length
}

function readWord(bytes: Uint8Array, at: number, end: number): number {
  if (end - at < 4) throw new MalformedLogError('it ends inside a number')
  cursor = at + 4
  return (
    (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  )
}

/** Skips a field that this version does not know. */
function skipField(bytes: Uint8Array, tag: number, at: number, end: number): number {
  if (tag >>> 3 === 0) throw new MalformedLogError('field number zero')
  switch (tag & 7) {
    case 0:
      while (at < end && bytes[at]! >= 0x80) at++
      if (at >= end) throw new MalformedLogError('it ends inside a number')
      return at + 1
    case 1:
    case 5: {
      const after = at + ((tag & 7) === 1 ? 8 : 4)
      if (after > end) throw new MalformedLogError('it ends inside a number')
      return after
    }
    case 2: {
      const length = readLength(bytes, at, end)
      return cursor + length
    }
    default:
      throw new MalformedLogError(`wire type ${tag & 7}`)
  }
}

function readFence(bytes: Uint8Array, at: number, end: number): bigint {
  let value = 0n
  for (let i = at, shift = 0n; i < end && shift < 70n; i++, shift += 7n) {
    const byte = bytes[i]!
    value |= BigInt(byte & 0x7f) << shift
    if (byte < 0x80) {
      cursor = i + 1
      return BigInt.asUintN(64, value)
    }
  }
  throw new MalformedLogError('it ends inside a number')
}

/** Parses a received LogUp. `records` of a chunk is a view: copy it to keep it. */
export function parseLogUp(message: Buffer): ParsedLogUp {
  const end = message.length
  let parsed: ParsedLogUp | undefined
  for (let at = 0; at < end; ) {
    const tag = readVarint(message, at, end)
    at = cursor
    if (tag !== 0x0a && tag !== 0x12) {
      at = skipField(message, tag, at, end)
      continue
    }
    if (parsed !== undefined) throw new MalformedLogError('it holds two messages')
    const length = readLength(message, at, end)
    const from = cursor
    at = from + length
    parsed =
      tag === 0x12
        ? parseChunk(message, from, at)
        : { kind: 'open', open: parseOpen(message, from, at) }
  }
  if (parsed === undefined) throw new MalformedLogError('it is neither an opening nor a chunk')
  return parsed
}

function parseOpen(message: Buffer, from: number, end: number): LogOpen {
  try {
    return fromBinary(LogOpenSchema, message.subarray(from, end))
  } catch (error) {
    throw new MalformedLogError(`its opening cannot be read (${(error as Error).message})`)
  }
}

function parseChunk(message: Buffer, from: number, end: number): ParsedChunk {
  const chunk: ParsedChunk = {
    kind: 'chunk',
    attemptId: '',
    fence: 0n,
    firstSeq: 0,
    crc32c: 0,
    records: message.subarray(from, from),
    count: 0,
  }
  // Writers put repeated fields side by side; another order is legal, and then a copy joins the runs.
  let runStart = from
  let runEnd = from
  for (let at = from; at < end; ) {
    const fieldStart = at
    const tag = readVarint(message, at, end)
    at = cursor
    if (tag === 0x22) {
      const length = readLength(message, at, end)
      at = cursor + length
      if (fieldStart !== runEnd) {
        chunk.records = Buffer.concat([chunk.records, message.subarray(runStart, runEnd)])
        runStart = fieldStart
      }
      runEnd = at
      chunk.count++
      continue
    }
    if (tag === 0x0a) {
      const length = readLength(message, at, end)
      chunk.attemptId = message.toString('utf8', cursor, cursor + length)
      at = cursor + length
      continue
    }
    if (tag === 0x10) chunk.fence = readFence(message, at, end)
    else if (tag === 0x18) chunk.firstSeq = readVarint(message, at, end)
    else if (tag === 0x2d) chunk.crc32c = readWord(message, at, end)
    else cursor = skipField(message, tag, at, end)
    at = cursor
  }
  const lastRun = message.subarray(runStart, runEnd)
  chunk.records = chunk.records.length === 0 ? lastRun : Buffer.concat([chunk.records, lastRun])
  return chunk
}

/** Calls `visit` for each record of `region[from, to)` and returns their number. Allocates nothing. */
export function forEachRecord(
  region: Uint8Array,
  visit: RecordVisitor,
  from = 0,
  to = region.length,
): number {
  let count = 0
  for (let at = from; at < to; count++) {
    const end = recordEnd(region, at, to)
    visitRecord(region, cursor, end, visit)
    at = end
  }
  return count
}

/** Returns where the record at `at` ends; leaves `cursor` at its first field. */
function recordEnd(region: Uint8Array, at: number, to: number): number {
  if (region[at] !== 0x22) throw new MalformedLogError('a region holds something but records')
  const length = readLength(region, at + 1, to)
  return cursor + length
}

function visitRecord(region: Uint8Array, from: number, end: number, visit: RecordVisitor): void {
  let timeUs = 0
  let source = 0
  let step = 0
  let dataStart = from
  let dataEnd = from
  let replacesPrevious = false
  let gapBytes = 0
  let gapReason = 0
  for (let at = from; at < end; at = cursor) {
    const tag = readVarint(region, at, end)
    switch (tag) {
      case 0x09: {
        const low = readWord(region, cursor, end)
        const high = readWord(region, cursor, end)
        timeUs = (high | 0) * 0x100000000 + low
        if (!Number.isSafeInteger(timeUs)) throw new MalformedLogError('a time passes 2^53')
        break
      }
      case 0x10:
        source = readVarint(region, cursor, end)
        break
      case 0x18:
        step = readVarint(region, cursor, end) % 0x100000000
        break
      case 0x22: {
        const length = readLength(region, cursor, end)
        dataStart = cursor
        dataEnd = cursor + length
        cursor = dataEnd
        break
      }
      case 0x28:
        replacesPrevious = readVarint(region, cursor, end) !== 0
        break
      case 0x30:
        gapBytes = readVarint(region, cursor, end)
        break
      case 0x38:
        gapReason = readVarint(region, cursor, end)
        break
      default:
        cursor = skipField(region, tag, cursor, end)
    }
  }
  visit(
    timeUs,
    source as LogSource,
    step,
    dataStart,
    dataEnd,
    replacesPrevious,
    gapBytes,
    gapReason as GapReason,
  )
}

/** The offset behind the first `count` records of a region. */
export function skipRecords(region: Uint8Array, count: number): number {
  let at = 0
  for (let n = 0; n < count; n++) {
    if (at >= region.length)
      throw new MalformedLogError('a region holds fewer records than it says')
    at = recordEnd(region, at, region.length)
  }
  return at
}

// Results of `sumData`, kept out of an object for the same reason as `cursor`.
let summedCrc = 0
let summedRegion: Uint8Array = new Uint8Array(0)
let summedBytes = 0
const addToSum: RecordVisitor = (_time, _source, _step, start, end) => {
  summedCrc = crc32c(summedRegion, summedCrc, start, end)
  summedBytes += end - start
}

/** The expected LogChunk.crc32c of these records, and the number of bytes of their data. */
export function sumData(region: Uint8Array): { crc32c: number; dataBytes: number; count: number } {
  summedCrc = 0
  summedBytes = 0
  summedRegion = region
  const count = forEachRecord(region, addToSum)
  return { crc32c: summedCrc, dataBytes: summedBytes, count }
}
