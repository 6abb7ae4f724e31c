// Reads the lines that a growing log file gained, through renames and truncation by its writer. The open file is read to its
// end before the next one, so a rotation loses nothing. Invariants: memory is bounded, because a longer line is skipped; a
// position always is the start of a line, so reading from it again yields the same lines.
import { constants, type Stats, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { REQUEST_LOG } from '../../limits/proxy.ts'

/** Where to go on, and in which file; another file may get the same name. */
export interface LogPosition {
  dev: number
  ino: number
  bornMs: number
  offset: number
}

const NEWLINE = 0x0a

export class LogTail {
  readonly #file: string
  #handle: FileHandle | undefined
  #position: LogPosition | undefined
  /** The start of a line whose end is not written yet. */
  #rest = Buffer.alloc(0)
  #isSkipping = false
  /** Bytes of the current line that were passed over. */
  #skipped = 0
  readonly #chunk = Buffer.alloc(REQUEST_LOG.chunkBytes)

  constructor(file: string, position?: LogPosition) {
    this.#file = file
    this.#position = position
  }

  /** Undefined: the file was never there. */
  get position(): LogPosition | undefined {
    return this.#position && { ...this.#position }
  }

  /** Passes on what was written since; true: up to the end. Bytes beyond the bound wait for the next call. */
  async read(onLine: (line: Buffer) => void): Promise<boolean> {
    let left: number = REQUEST_LOG.bytesPerRound
    while (left > 0) {
      // looked at before reading: a file that was replaced by then is not written to any more
      const isReplaced = this.#handle !== undefined && !this.#isCurrent()
      if (!this.#handle && !(await this.#open())) return true
      left = await this.#readOpen(onLine, left)
      if (left <= 0) return false
      if (!isReplaced) return true
      await this.close()
      this.#position = undefined
    }
    return false
  }

  async close(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    this.#startLine()
    await handle?.close()
  }

  #startLine(): void {
    this.#rest = Buffer.alloc(0)
    this.#isSkipping = false
    this.#skipped = 0
  }

  #isCurrent(): boolean {
    const named = statSync(this.#file, { throwIfNoEntry: false })
    return named === undefined || isSame(this.#position, named)
  }

  async #open(): Promise<boolean> {
    // a file of another account: neither a link nor a pipe that would block
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
    try {
      this.#handle = await open(this.#file, flags)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw error
    }
    const stat = await this.#handle.stat()
    if (!stat.isFile()) {
      await this.close()
      throw new Error(`${this.#file} is not a file`)
    }
    if (!isSame(this.#position, stat)) {
      this.#position = { dev: stat.dev, ino: stat.ino, bornMs: stat.birthtimeMs, offset: 0 }
    }
    return true
  }

  /** Returns what is left of the bound. */
  async #readOpen(onLine: (line: Buffer) => void, bound: number): Promise<number> {
    const [handle, position] = [this.#handle, this.#position]
    if (!handle || !position) return bound
    if ((await handle.stat()).size < position.offset) {
      position.offset = 0
      this.#startLine()
    }
    let left = bound
    let at = position.offset + this.#rest.length + this.#skipped
    while (left > 0) {
      const { bytesRead } = await handle.read(this.#chunk, 0, this.#chunk.length, at)
      if (bytesRead === 0) return left
      at += bytesRead
      left -= bytesRead
      this.#split(this.#chunk.subarray(0, bytesRead), onLine)
    }
    return left
  }

  #split(chunk: Buffer, onLine: (line: Buffer) => void): void {
    const position = this.#position as LogPosition
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const part = chunk.subarray(start, end)
      const length = this.#rest.length + this.#skipped + part.length
      if (!this.#isSkipping && length <= REQUEST_LOG.lineBytes) {
        onLine(this.#rest.length > 0 ? Buffer.concat([this.#rest, part]) : part)
      }
      position.offset += length + 1
      this.#startLine()
      start = end + 1
    }
    const rest = chunk.subarray(start)
    if (this.#isSkipping || this.#rest.length + rest.length > REQUEST_LOG.lineBytes) {
      this.#skipped += this.#rest.length + rest.length
      this.#isSkipping = true
      this.#rest = Buffer.alloc(0)
    } else if (rest.length > 0) {
      this.#rest = Buffer.concat([this.#rest, rest])
    }
  }
}

const isSame = (position: LogPosition | undefined, stat: Stats): boolean =>
  position !== undefined &&
  position.dev === stat.dev &&
  position.ino === stat.ino &&
  position.bornMs === stat.birthtimeMs
