// What the child that reads a static root says to the parent that writes the copy: a header (4 bytes of length, JSON),
// and after the header of a file exactly its bytes. PURE. The parent believes nothing: names are checked again there.
import { STATIC } from '@berth/shared'

export type StaticHeader =
  /** Its bytes follow. */
  | { kind: 'file'; path: string; size: number }
  | { kind: 'end'; skipped: number }
  /** The sentence for the deployment. */
  | { kind: 'fail'; message: string }

export function encodeHeader(header: StaticHeader): Buffer {
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.length)
  return Buffer.concat([length, text])
}

/** Longer is no header of ours. */
const HEADER_BYTES = STATIC.pathLength * 6 + 1_024

/** Undefined: more bytes are needed. */
export function decodeHeader(bytes: Buffer): { header: StaticHeader; bytes: number } | undefined {
  if (bytes.length < 4) return undefined
  const length = bytes.readUInt32BE(0)
  if (length > HEADER_BYTES) throw new Error('a header is too long')
  if (bytes.length < 4 + length) return undefined
  const header = JSON.parse(bytes.subarray(4, 4 + length).toString('utf8')) as StaticHeader
  return { header, bytes: 4 + length }
}

/** Relative, without dots at the beginning of a name: nothing hidden is copied, and no name leads out. */
export function isStaticPath(path: unknown): path is string {
  if (typeof path !== 'string' || path.length === 0 || path.length > STATIC.pathLength) return false
  if (path.includes('\0')) return false
  const parts = path.split('/')
  return parts.length <= STATIC.depth && parts.every((name) => name !== '' && !name.startsWith('.'))
}
