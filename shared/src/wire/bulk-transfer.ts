// The records of a bulk transfer: a connection that carries one transfer of files without HTTP/2, whose 16 KiB frames
// cost more than the encryption. One byte for the kind, four for the length, then the content: a message, or bytes of a
// file. Invariants: records are bounded; bytes of a file are copied once, into chunks of the read size.
import { TRANSFERS } from '../limits/agent.ts'

/** The protocol name of a bulk transfer in the TLS handshake (ALPN); another format needs another name. */
export const BULK_TRANSFER = 'berth-files/1'

const HEAD_BYTES = 5
const KIND = { message: 1, data: 2 } as const
type Kind = (typeof KIND)[keyof typeof KIND]

const MOST: Record<Kind, number> = {
  [KIND.message]: TRANSFERS.lineMessageBytes,
  [KIND.data]: TRANSFERS.lineRecordBytes,
}

function head(kind: Kind, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES)
  bytes[0] = kind
  bytes.writeUInt32BE(length, 1)
  return bytes
}

/** Precedes that many bytes of the file, at most `TRANSFERS.lineRecordBytes`. */
export const dataHead = (length: number): Buffer => head(KIND.data, length)

export const encodeMessage = (message: Uint8Array): Buffer =>
  Buffer.concat([head(KIND.message, message.length), message])

/** The message that bytes begin with, and where it ends; undefined until all of it is there. Throws if it is none. */
export function readMessage(bytes: Buffer): { message: Buffer; end: number } | undefined {
  if (bytes.length < HEAD_BYTES) return undefined
  const length = bytes.readUInt32BE(1)
  if (bytes[0] !== KIND.message || length === 0 || length > MOST[KIND.message])
    throw new Error('this is no message of a file line')
  const end = HEAD_BYTES + length
  return bytes.length < end ? undefined : { message: bytes.subarray(HEAD_BYTES, end), end }
}

interface LineReader {
  message(bytes: Buffer): void
  /** At most `TRANSFERS.frameBytes`; the receiver owns this memory. */
  data(bytes: Buffer): void
}

/**
 * Splits the input into records and passes on their contents. Throws for an invalid record and then reads nothing more.
 */
export class LineParser {
  readonly #reader: LineReader
  readonly #head = Buffer.alloc(HEAD_BYTES)
  #headBytes = 0
  /** Bytes left of the current record. */
  #left = 0
  #piece: Buffer = Buffer.alloc(0)
  #filled = 0

  constructor(reader: LineReader) {
    this.#reader = reader
  }

  take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      at += this.#left === 0 ? this.#takeHead(chunk, at) : this.#takeContent(chunk, at)
    }
  }

  #takeHead(chunk: Buffer, at: number): number {
    const taken = chunk.copy(this.#head, this.#headBytes, at)
    this.#headBytes += taken
    if (this.#headBytes < HEAD_BYTES) return taken
    this.#headBytes = 0
    const most = MOST[this.#head[0] as Kind] ?? 0
    this.#left = this.#head.readUInt32BE(1)
    if (this.#left === 0 || this.#left > most) throw new Error('this is no record of a file line')
    this.#begin()
    return taken
  }

  #begin(): void {
    const isData = this.#head[0] === KIND.data
    const size = isData ? Math.min(this.#left, TRANSFERS.frameBytes) : this.#left
    this.#piece = Buffer.allocUnsafeSlow(size)
    this.#filled = 0
  }

  #takeContent(chunk: Buffer, at: number): number {
    const taken = chunk.copy(this.#piece, this.#filled, at)
    this.#filled += taken
    this.#left -= taken
    if (this.#filled < this.#piece.length) return taken
    const piece = this.#piece
    if (this.#left > 0) this.#begin()
    if (this.#head[0] === KIND.data) this.#reader.data(piece)
    else this.#reader.message(piece)
    return taken
  }
}
