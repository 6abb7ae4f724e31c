// The protocol from the child that reads a static root to the parent that writes the copy: a header (4 bytes of length,
// JSON), and after the header of a file exactly its bytes. PURE. The parent trusts nothing and checks names again.
import { STATIC } from '../limits/files.ts'

export type StaticHeader =
  /** Its bytes follow. */
  | { kind: 'file'; path: string; size: number }
  | { kind: 'end'; skipped: number }
  /** The message for the deployment. */
  | { kind: 'fail'; message: string }

export function encodeHeader(header: StaticHeader): Buffer {
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.length)
  return Buffer.concat([length, text])
}

/** The bound for a valid header. */
const HEADER_BYTES = STATIC.pathLength * 6 + 1_024

/** Undefined when more bytes are needed. */
export function decodeHeader(bytes: Buffer): { header: StaticHeader; bytes: number } | undefined {
  if (bytes.length < 4) return undefined
  const length = bytes.readUInt32BE(0)
  if (length > HEADER_BYTES) throw new Error('a header is too long')
  if (bytes.length < 4 + length) return undefined
  const header = JSON.parse(bytes.subarray(4, 4 + length).toString('utf8')) as StaticHeader
  return { header, bytes: 4 + length }
}

/** Relative, and no name begins with a dot, so no hidden file is copied and no path leads outside. */
export function isStaticPath(path: unknown): path is string {
  if (typeof path !== 'string' || path.length === 0 || path.length > STATIC.pathLength) return false
  if (path.includes('\0')) return false
  const parts = path.split('/')
  return parts.length <= STATIC.depth && parts.every((name) => name !== '' && !name.startsWith('.'))
}
