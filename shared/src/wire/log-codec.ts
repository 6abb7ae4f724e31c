// biome-ignore-all lint/style/noNonNullAssertion: every index is in range by construction.
// Writes the log stream's own codec (log-parse.ts reads it): the same bytes as agent.proto's LogUp, LogChunk and
// LogRecord, without an object per record. A *region* is a run of `records` fields of a LogChunk (tag, length,
// LogRecord), the form in the spool, on the wire and in the store, so only the runner encodes and all others copy.
// Invariant: the encoding is canonical (defaults omitted, fields in order); numbers stay below 2^53.
import { create, toBinary } from '@bufbuild/protobuf'
import {
  type GapReason,
  LogOpenSchema,
  type LogSource,
  LogUpSchema,
} from './gen/berth/agent/v1/agent_pb.ts'

/** A record that belongs to no step. */
export const NO_STEP = 0xffffffff

/** The most bytes that a record adds to its data: tags, lengths and every field at its widest. */
export const RECORD_OVERHEAD = 48

function varintSize(value: number): number {
  if (value < 0x80) return 1
  if (value < 0x4000) return 2
  let size = 3
  for (let rest = Math.floor(value / 0x200000); rest > 0; rest = Math.floor(rest / 128)) size++
  return size
}

function writeVarint(target: Uint8Array, at: number, value: number): number {
  let rest = value
  let to = at
  while (rest > 0x7fffffff) {
    target[to++] = (rest % 128) | 0x80
    rest = Math.floor(rest / 128)
  }
  while (rest > 0x7f) {
    target[to++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  target[to++] = rest
  return to
}

function bodySize(
  timeUs: number,
  source: number,
  step: number,
  dataBytes: number,
  replacesPrevious: boolean,
  gapBytes: number,
  gapReason: number,
): number {
  let size = timeUs === 0 ? 0 : 9
  if (source !== 0) size += 2
  if (step !== 0) size += 1 + varintSize(step)
  if (dataBytes !== 0) size += 1 + varintSize(dataBytes) + dataBytes
  if (replacesPrevious) size += 2
  if (gapBytes !== 0) size += 1 + varintSize(gapBytes)
  if (gapReason !== 0) size += 2
  return size
}

/** Bytes of the record in a region, including its tag and length. */
export function recordSize(
  timeUs: number,
  source: LogSource,
  step: number,
  dataBytes: number,
  replacesPrevious = false,
  gapBytes = 0,
  gapReason: GapReason = 0,
): number {
  const body = bodySize(timeUs, source, step, dataBytes, replacesPrevious, gapBytes, gapReason)
  return 1 + varintSize(body) + body
}

/** Writes one record of a region at `at` and returns where it ends. `timeUs` is a whole number of microseconds. */
export function encodeRecord(
  target: Buffer,
  at: number,
  timeUs: number,
  source: LogSource,
  step: number,
  data: Uint8Array,
  dataStart: number,
  dataEnd: number,
  replacesPrevious = false,
  gapBytes = 0,
  gapReason: GapReason = 0,
): number {
  const dataBytes = dataEnd - dataStart
  const body = bodySize(timeUs, source, step, dataBytes, replacesPrevious, gapBytes, gapReason)
  if (at + 4 + body > target.length && at + 1 + varintSize(body) + body > target.length) {
    throw new RangeError(`A record of ${body} bytes does not fit at ${at} of ${target.length}.`)
  }
  target[at] = 0x22
  let to = writeVarint(target, at + 1, body)
  if (timeUs !== 0) {
    target[to] = 0x09
    writeWord(target, to + 1, timeUs >>> 0)
    writeWord(target, to + 5, Math.floor(timeUs / 0x100000000))
    to += 9
  }
  if (source !== 0) {
    target[to++] = 0x10
    target[to++] = source
  }
  if (step !== 0) {
    target[to++] = 0x18
    to = writeVarint(target, to, step)
  }
  if (dataBytes !== 0) {
    target[to++] = 0x22
    to = writeVarint(target, to, dataBytes)
    copyBytes(data, dataStart, dataEnd, target, to)
    to += dataBytes
  }
  if (replacesPrevious) {
    target[to++] = 0x28
    target[to++] = 1
  }
  if (gapBytes !== 0) {
    target[to++] = 0x30
    to = writeVarint(target, to, gapBytes)
  }
  if (gapReason !== 0) {
    target[to++] = 0x38
    target[to++] = gapReason
  }
  return to
}

function writeWord(target: Uint8Array, at: number, word: number): void {
  target[at] = word
  target[at + 1] = word >>> 8
  target[at + 2] = word >>> 16
  target[at + 3] = word >>> 24
}

/** For a few bytes, copying by hand costs less than a call into native code. */
export function copyBytes(
  from: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  at: number,
): void {
  if (end - start < 24) {
    for (let i = start, to = at; i < end; i++) target[to++] = from[i]!
  } else {
    target.set(from.subarray(start, end), at)
  }
}

/** Encodes a whole LogUp message around a region. `crc` is the sum of the data of its records, in order. */
export function encodeChunk(
  attemptId: string,
  fence: bigint,
  firstSeq: number,
  records: Uint8Array,
  crc: number,
): Buffer {
  const idBytes = Buffer.byteLength(attemptId)
  const fenceBytes = fence === 0n ? 0 : 1 + bigVarint(fence).length
  const chunkBytes =
    (idBytes === 0 ? 0 : 1 + varintSize(idBytes) + idBytes) +
    fenceBytes +
    (firstSeq === 0 ? 0 : 1 + varintSize(firstSeq)) +
    records.length +
    (crc === 0 ? 0 : 5)
  const message = Buffer.allocUnsafe(1 + varintSize(chunkBytes) + chunkBytes)
  message[0] = 0x12
  let to = writeVarint(message, 1, chunkBytes)
  if (idBytes !== 0) {
    message[to++] = 0x0a
    to = writeVarint(message, to, idBytes)
    to += message.write(attemptId, to, 'utf8')
  }
  if (fence !== 0n) {
    message[to++] = 0x10
    for (const byte of bigVarint(fence)) message[to++] = byte
  }
  if (firstSeq !== 0) {
    message[to++] = 0x18
    to = writeVarint(message, to, firstSeq)
  }
  message.set(records, to)
  to += records.length
  if (crc !== 0) {
    message[to++] = 0x2d
    writeWord(message, to, crc)
  }
  return message
}

function bigVarint(value: bigint): number[] {
  const bytes: number[] = []
  for (let rest = BigInt.asUintN(64, value); ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)]
    bytes.push(Number(rest & 127n) | 128)
  }
}

/** The first message of the stream. */
export function encodeLogOpen(
  sessionId: string,
  cursors: { attemptId: string; firstSeq: number; lastSeq: number }[],
): Buffer {
  const open = create(LogOpenSchema, {
    sessionId,
    cursors: cursors.map((cursor) => ({
      attemptId: cursor.attemptId,
      firstSeq: BigInt(cursor.firstSeq),
      lastSeq: BigInt(cursor.lastSeq),
    })),
  })
  const bytes = toBinary(LogUpSchema, create(LogUpSchema, { msg: { case: 'open', value: open } }))
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
