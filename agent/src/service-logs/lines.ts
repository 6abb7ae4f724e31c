// Reads the lines of one part of a service's log forward in pieces, so memory stays at one piece for any size of the
// part. A plain part may still be written, so its end is only the end so far.
import { closeSync, createReadStream, fstatSync, openSync, read as readFd } from 'node:fs'
import { promisify } from 'node:util'
import { createGunzip } from 'node:zlib'
import { SERVICE_LOGS } from '@berth/shared'

const readBytes = promisify(readFd)
const NEWLINE = 0x0a
const NOTHING = Buffer.alloc(0)

export interface PartLine {
  /** Without its line end. */
  bytes: Buffer
  /** The offset after its line end, in the uncompressed part. */
  end: number
}

/** Splits a stream of bytes into lines; leaves out a line that is too long to be ours. */
export class Splitter {
  #rest: Buffer = NOTHING
  #isSkipping = false
  /** The offset of the rest. */
  #at: number

  constructor(at = 0) {
    this.#at = at
  }

  push(chunk: Buffer): PartLine[] {
    let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk
    const lines: PartLine[] = []
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      this.#at += end + 1
      if (!this.#isSkipping) lines.push({ bytes: rest.subarray(0, end), end: this.#at })
      this.#isSkipping = false
      rest = rest.subarray(end + 1)
    }
    if (rest.length > SERVICE_LOGS.lineBytes) this.#isSkipping = true
    if (this.#isSkipping) this.#at += rest.length
    this.#rest = this.#isSkipping ? NOTHING : Buffer.from(rest)
    return lines
  }
}

export interface PartReader {
  /** Identifies the file of a plain part, also after a rename. */
  readonly inode: number
  /** The next lines; undefined when there are no more for now. */
  next(): Promise<PartLine[] | undefined>
  close(): void
}

function readPlain(file: string, from: number): PartReader {
  const fd = openSync(file, 'r')
  const splitter = new Splitter(from)
  let isOpen = true
  let at = from
  return {
    inode: fstatSync(fd).ino,
    async next() {
      for (;;) {
        if (!isOpen) return undefined
        const chunk = Buffer.allocUnsafe(SERVICE_LOGS.chunkBytes)
        const { bytesRead } = await readBytes(fd, chunk, 0, chunk.length, at)
        if (bytesRead === 0) return undefined
        at += bytesRead
        const lines = splitter.push(chunk.subarray(0, bytesRead))
        if (lines.length > 0) return lines
      }
    },
    close() {
      if (isOpen) closeSync(fd)
      isOpen = false
    },
  }
}

function readCompressed(file: string, from: number): PartReader {
  const source = createReadStream(file)
  const stream = source.pipe(createGunzip())
  source.on('error', (error) => stream.destroy(error))
  const splitter = new Splitter(from)
  let skip = from
  const chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  // a removed or damaged part ends here; the other parts stay readable
  const read = () => chunks.next().catch(() => ({ value: undefined, done: true as const }))
  return {
    inode: 0,
    async next() {
      for (;;) {
        const { value, done } = await read()
        if (done) return undefined
        const lines = splitter.push(value.subarray(Math.min(skip, value.length)))
        skip -= Math.min(skip, value.length)
        if (lines.length > 0) return lines
      }
    },
    close() {
      source.destroy()
      stream.destroy()
    },
  }
}

/**
 * Reads from an offset that begins a line. Throws ENOENT for a part that was just removed or compressed; the caller then
 * lists its folder again.
 */
export const readPart = (file: string, isCompressed: boolean, from = 0): PartReader =>
  isCompressed ? readCompressed(file, from) : readPlain(file, from)

const HEAD = '{"t":"'

/** The time of a line, without its Z, so that times of different precision compare as text. */
export function timeOf(line: Buffer): string | undefined {
  if (line.toString('latin1', 0, HEAD.length) !== HEAD) return undefined
  const end = line.indexOf(0x5a, HEAD.length)
  return end < 0 || end > 40 ? undefined : line.toString('latin1', HEAD.length, end)
}

export const plainTime = (t: string): string => t.replace(/Z$/, '')
