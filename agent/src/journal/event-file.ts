// `events.log` of one attempt: the runner appends framed Events, the daemon copies new ones to its outbox. Frame:
// length, ordinal (from 1), CRC-32C over ordinal and body, body. Preallocated zeros follow the frames, so that the end
// of an attempt fits on a full disk; a length of zero means "not yet". Invariants: an event is complete or absent;
// `sync` survives a power loss; an event has at most EVENTS.eventBytes, and its texts for users are cut first.
import { closeSync, fdatasyncSync, openSync, readSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { EVENTS } from '@berth/shared'
import { crc32c, type Event, EventSchema } from '@berth/shared/wire'
import { clone, fromBinary, toBinary } from '@bufbuild/protobuf'
import { syncFolder } from '../machine/atomic-files.ts'
import { isDiskFull } from '../spool/files.ts'

const FRAME_BYTES = 12

export class EventFileWriter {
  readonly #fd: number
  #at = 0
  #ordinal = 0
  /** The file has space on disk up to here. */
  #reserved = 0

  private constructor(fd: number) {
    this.#fd = fd
    this.#reserve(0)
  }

  /** Creates the file, which must not exist. */
  static create(file: string): EventFileWriter {
    const writer = new EventFileWriter(openSync(file, 'wx', 0o600))
    fdatasyncSync(writer.#fd)
    syncFolder(dirname(file))
    return writer
  }

  /** Appends one event and returns its ordinal. With `sync` it is on the disk when this returns. */
  append(event: Event, options: { sync?: boolean } = {}): number {
    const body = encodeEvent(event)
    const frame = Buffer.allocUnsafe(FRAME_BYTES + body.length)
    const ordinal = this.#ordinal + 1
    frame.writeUInt32LE(body.length, 0)
    frame.writeUInt32LE(ordinal, 4)
    frame.set(body, FRAME_BYTES)
    frame.writeUInt32LE(sumOf(frame), 8)
    this.#reserve(this.#at + frame.length)
    writeAll(this.#fd, frame, this.#at)
    this.#at += frame.length
    this.#ordinal = ordinal
    if (options.sync === true) fdatasyncSync(this.#fd)
    return ordinal
  }

  close(): void {
    fdatasyncSync(this.#fd)
    closeSync(this.#fd)
  }

  /**
   * Reserves space ahead of `end`. A full disk is an error only if the event does not fit in the space reserved before.
   */
  #reserve(end: number): void {
    const wanted = end + EVENTS.fileReserveBytes
    if (this.#reserved - end >= EVENTS.fileReserveBytes / 2) return
    try {
      writeAll(this.#fd, Buffer.alloc(wanted - this.#reserved), this.#reserved)
      this.#reserved = wanted
    } catch (error) {
      if (!isDiskFull(error) || this.#reserved < end) throw error
    }
  }
}

/** The checksum of a frame: ordinal and body. */
const sumOf = (frame: Buffer): number => crc32c(frame, crc32c(frame, 0, 4, 8), FRAME_BYTES)

function writeAll(fd: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(fd, bytes, done, bytes.length - done, position + done)
  }
}

// ---------------------------------------------------------------------------- size of events

/** Fields that hold text for users, which are cut when an event is too long. Ids and digests are never cut. */
const TEXT_FIELDS = new Set([
  'message',
  'title',
  'description',
  'confirm',
  'subject',
  'disabledReason',
])

function encodeEvent(event: Event): Uint8Array {
  for (const textBytes of [
    EVENTS.messageBytes,
    EVENTS.messageBytes / 8,
    EVENTS.messageBytes / 64,
  ]) {
    const cut = clone(EventSchema, event)
    cutTexts(cut, textBytes)
    const body = toBinary(EventSchema, cut)
    if (body.length <= EVENTS.eventBytes) return body
  }
  throw new RangeError(
    `The event "${event.body.case ?? 'empty'}" has more than ${EVENTS.eventBytes} bytes; send parts.`,
  )
}

function cutTexts(value: unknown, bytes: number): void {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return
  for (const [key, field] of Object.entries(value)) {
    if (typeof field !== 'string') cutTexts(field, bytes)
    else if (TEXT_FIELDS.has(key)) (value as Record<string, unknown>)[key] = cutText(field, bytes)
  }
}

/** Truncates to this many bytes of UTF-8, at a character boundary, and marks the cut. */
export function cutText(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text
  const whole = Buffer.from(text)
  let end = bytes - 3
  while (end > 0 && ((whole[end] ?? 0) & 0xc0) === 0x80) end--
  return `${whole.toString('utf8', 0, end)}…`
}

// ----------------------------------------------------------------------------------- reading

interface FiledEvent {
  ordinal: number
  event: Event
}

/** The file is damaged in the middle: later events are readable, but an event before them is not. */
export class EventFileError extends Error {
  constructor(file: string, ordinal: number) {
    super(`Event ${ordinal} in ${file} is damaged, and events follow it.`)
    this.name = 'EventFileError'
  }
}

export class EventFileReader {
  readonly #file: string
  #fd: number | undefined
  #at = 0
  #ordinal = 0
  #afterOrdinal: number
  readonly #buffer = Buffer.allocUnsafe(2 * (FRAME_BYTES + EVENTS.eventBytes))

  private constructor(file: string, afterOrdinal: number) {
    this.#file = file
    this.#afterOrdinal = afterOrdinal
  }

  /** Reading begins after `afterOrdinal`. The file may not exist yet. */
  static open(file: string, afterOrdinal = 0): EventFileReader {
    return new EventFileReader(file, afterOrdinal)
  }

  /** New events, at most EVENTS.fileReadEvents; call it until it returns none. */
  read(): FiledEvent[] {
    const events: FiledEvent[] = []
    let isSecondLook = false
    while (events.length < EVENTS.fileReadEvents) {
      const before = this.#at
      const isDamaged = this.#take(this.#fill(), events)
      if (this.#at !== before) isSecondLook = false
      else if (!isDamaged) break
      // The writer may have been writing while the bytes were copied, so only damage that is read twice counts.
      else if (isSecondLook) throw new EventFileError(this.#file, this.#ordinal + 1)
      else isSecondLook = true
    }
    return events
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  #fill(): Buffer {
    try {
      this.#fd ??= openSync(this.#file, 'r')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0)
      throw error
    }
    const bytes = readSync(this.#fd, this.#buffer, 0, this.#buffer.length, this.#at)
    return this.#buffer.subarray(0, bytes)
  }

  /** Takes the complete frames in the buffer; true when they end with a damaged one. */
  #take(bytes: Buffer, events: FiledEvent[]): boolean {
    let from = 0
    while (events.length < EVENTS.fileReadEvents) {
      const body = bodyAt(bytes, from, this.#ordinal + 1)
      if (body === undefined) return this.#isDamagedAt(bytes, from)
      this.#ordinal++
      from += FRAME_BYTES + body.length
      this.#at += FRAME_BYTES + body.length
      if (this.#ordinal > this.#afterOrdinal) {
        events.push({ ordinal: this.#ordinal, event: fromBinary(EventSchema, Buffer.from(body)) })
      }
    }
    return false
  }

  /** Unreadable bytes are the end (not yet written, or torn) unless the next event follows them. */
  #isDamagedAt(bytes: Buffer, from: number): boolean {
    if (bytes.length - from < FRAME_BYTES) return false
    const length = bytes.readUInt32LE(from)
    if (length === 0) return false
    const isLength = length <= EVENTS.eventBytes
    const first = isLength ? from + FRAME_BYTES + length : from + 1
    const last = isLength ? first : bytes.length
    for (let at = first; at <= last; at++) {
      if (bodyAt(bytes, at, this.#ordinal + 2) !== undefined) return true
    }
    return false
  }
}

/** The body of the valid frame with this ordinal at `from`, if the buffer holds it. */
function bodyAt(bytes: Buffer, from: number, ordinal: number): Buffer | undefined {
  if (bytes.length - from < FRAME_BYTES) return undefined
  const length = bytes.readUInt32LE(from)
  const end = from + FRAME_BYTES + length
  if (length === 0 || length > EVENTS.eventBytes || end > bytes.length) return undefined
  const frame = bytes.subarray(from, end)
  const isValid = frame.readUInt32LE(4) === ordinal && frame.readUInt32LE(8) === sumOf(frame)
  return isValid ? frame.subarray(FRAME_BYTES) : undefined
}
