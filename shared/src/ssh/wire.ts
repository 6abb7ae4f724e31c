// The byte format of SSH (RFC 4251, section 5): integers and length-prefixed strings. Invariant: every read is checked
// against the available bytes, and `end()` refuses leftovers, so a blob has one meaning or none. It tolerates nothing
// and knows nothing of keys.
import { SSH } from '../limits/ssh.ts'

/** Bytes that are not what they claim to be. The message names the defect, never the bytes. */
export class SshFormatError extends Error {
  override readonly name = 'SshFormatError'
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A cursor over one blob. */
export class SshReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  #take(count: number): Buffer {
    if (count > this.#bytes.length - this.#at) throw new SshFormatError('it is cut short')
    const start = this.#at
    this.#at += count
    return this.#bytes.subarray(start, this.#at)
  }

  u32(): number {
    return this.#take(4).readUInt32BE(0)
  }

  u64(): bigint {
    return this.#take(8).readBigUInt64BE(0)
  }

  /** The bytes of a string; a view of the blob. */
  string(): Buffer {
    const length = this.u32()
    if (length > SSH.fieldBytes) throw new SshFormatError('a field is too long')
    return this.#take(length)
  }

  /** A string that must be UTF-8; two byte sequences never become one text. */
  text(): string {
    const bytes = this.string()
    try {
      return UTF8.decode(bytes)
    } catch {
      throw new SshFormatError('a text is not UTF-8')
    }
  }

  get offset(): number {
    return this.#at
  }

  get more(): boolean {
    return this.#at < this.#bytes.length
  }

  /** Requires the end of the blob. */
  end(): void {
    if (this.more) throw new SshFormatError('it has trailing bytes')
  }
}

export function encodeU32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export function encodeU64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(value)
  return bytes
}

const sizeOf = (value: string | Uint8Array): number =>
  typeof value === 'string' ? Buffer.byteLength(value) : value.length

function writeString(bytes: Buffer, at: number, value: string | Uint8Array): number {
  const size = sizeOf(value)
  bytes.writeUInt32BE(size, at)
  if (typeof value === 'string') bytes.write(value, at + 4)
  else bytes.set(value, at + 4)
  return at + 4 + size
}

export function encodeString(value: string | Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(4 + sizeOf(value)) // every byte is written below
  writeString(bytes, 0, value)
  return bytes
}

/** Several strings, one after the other. */
export function encodeStrings(values: readonly (string | Uint8Array)[]): Buffer {
  let size = 0
  for (const value of values) size += 4 + sizeOf(value)
  const bytes = Buffer.allocUnsafe(size) // every byte is written below
  let at = 0
  for (const value of values) at = writeString(bytes, at, value)
  return bytes
}
