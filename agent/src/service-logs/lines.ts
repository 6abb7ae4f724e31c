// Reads the lines of one part of a service's log forward in pieces, so memory stays at one piece for any size of the
// part. A plain part may still be written, so its end is only the end so far.
import { closeSync, createReadStream, fstatSync, openSync, read as readFd } from 'node:fs'
import { promisify } from 'node:util'
import { createGunzip } from 'node:zlib'
import { SERVICE_LOGS } from '@berth/shared'

const readBytes = promisify(readFd)
const NEWLINE = 0x0a
const NOTHING = Buffer.alloc(0)

/** Splits a stream of bytes into lines; leaves out a line that is too long to be ours. */
class Splitter {
  #rest: Buffer = NOTHING
  #isSkipping = false

  push(chunk: Buffer): Buffer[] {
    let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk
    const lines: Buffer[] = []
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      if (!this.#isSkipping) lines.push(rest.subarray(0, end))
      this.#isSkipping = false
      rest = rest.subarray(end + 1)
    }
    if (rest.length > SERVICE_LOGS.lineBytes) this.#isSkipping = true
    this.#rest = this.#isSkipping ? NOTHING : Buffer.from(rest)
    return lines
  }
}

export interface PartReader {
  /** Identifies the file of a plain part, also after a rename. */
  readonly inode: number
  /** The next lines; undefined when there are no more for now. */
  next(): Promise<Buffer[] | undefined>
  close(): void
}

function readPlain(file: string): PartReader {
  const fd = openSync(file, 'r')
  const splitter = new Splitter()
  let isOpen = true
  let at = 0
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

function readCompressed(file: string): PartReader {
  const source = createReadStream(file)
  const stream = source.pipe(createGunzip())
  source.on('error', (error) => stream.destroy(error))
  const splitter = new Splitter()
  const chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  // a removed or damaged part ends here; the other parts stay readable
  const read = () => chunks.next().catch(() => ({ value: undefined, done: true as const }))
  return {
    inode: 0,
    async next() {
      for (;;) {
        const { value, done } = await read()
        if (done) return undefined
        const lines = splitter.push(value)
        if (lines.length > 0) return lines
      }
    },
    close() {
      source.destroy()
      stream.destroy()
    },
  }
}

/** Throws ENOENT for a part that was just removed or compressed; the caller then lists its folder again. */
export const readPart = (file: string, isCompressed: boolean): PartReader =>
  isCompressed ? readCompressed(file) : readPlain(file)

const HEAD = '{"t":"'

/** The time of a line, without its Z, so that times of different precision compare as text. */
export function timeOf(line: Buffer): string | undefined {
  if (line.toString('latin1', 0, HEAD.length) !== HEAD) return undefined
  const end = line.indexOf(0x5a, HEAD.length)
  return end < 0 || end > 40 ? undefined : line.toString('latin1', HEAD.length, end)
}

export const plainTime = (t: string): string => t.replace(/Z$/, '')
