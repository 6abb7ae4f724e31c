// Reads lines of numbered parts backwards from a position: plain parts in windows from their end, compressed ones as a
// whole, because they can only be read forwards. Shared by the logs of services and the proxy's log of requests.
// Invariants: memory is bounded by the wanted lines and their bytes; every line between two results is looked at once.
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { open as openFile } from 'node:fs/promises'
import { LOG_PAGES } from '../limits/log-pages.ts'
import { type PartLine, readPart, Splitter } from './lines.ts'

export interface ScannedPart {
  file: string
  isCompressed: boolean
}

/** The end of the last whole line of a plain file; a line may just be written. 0 when the file was just removed. */
export function findLineEnd(file: string): number {
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch {
    return 0
  }
  try {
    const { size } = fstatSync(fd)
    for (let window = 1; ; window *= 64) {
      const tail = Buffer.alloc(Math.min(size, window))
      const read = readSync(fd, tail, 0, tail.length, size - tail.length)
      const end = tail.subarray(0, read).lastIndexOf(0x0a)
      const isAll = tail.length === size || window > LOG_PAGES.longestBytes
      if (end >= 0 || isAll) return end < 0 ? 0 : size - tail.length + end + 1
    }
  } finally {
    closeSync(fd)
  }
}

/** What was found between the position where a scan stopped and the one where it began. */
export interface ScanResult<T> {
  /** Oldest first. */
  found: { value: T; start: number; end: number }[]
  /** The scan continues before this offset; 0: the part is done. */
  at: number
  bytes: number
  /** The first line of what was scanned, wanted or not. */
  first: Buffer | undefined
}

interface ScanQuery<T> {
  /** Undefined: not wanted. */
  take(line: Buffer): T | undefined
  /** The last so many are kept. */
  most: number
  signal: AbortSignal
}

/** The last wanted lines, bounded in number and bytes. */
class Last<T> {
  readonly #query: ScanQuery<T>
  #kept: ScanResult<T>['found'] = []
  #bytes = 0
  #first: Buffer | undefined
  #isOver = false

  constructor(query: ScanQuery<T>) {
    this.#query = query
  }

  add({ bytes, end }: PartLine): void {
    this.#first ??= Buffer.from(bytes.subarray(0, LOG_PAGES.headBytes))
    const value = this.#query.take(bytes)
    if (value === undefined) return
    this.#kept.push({ value, start: end - bytes.length - 1, end })
    this.#bytes += bytes.length
    const isOver = (): boolean =>
      this.#kept.length > this.#query.most ||
      (this.#bytes > LOG_PAGES.bytes && this.#kept.length > 1)
    while (isOver()) {
      const dropped = this.#kept.shift()
      this.#bytes -= dropped ? dropped.end - dropped.start - 1 : 0
      this.#isOver = true
    }
  }

  /** `from` is where the scanned lines begin. */
  result(from: number, bytes: number): ScanResult<T> {
    const at = this.#isOver ? (this.#kept[0]?.start ?? from) : from
    return { found: this.#kept, at, bytes, first: this.#first }
  }
}

/** The lines before `to`; of a plain part at least one window, and at least one line. */
export async function scanBack<T>(
  part: ScannedPart,
  to: number,
  query: ScanQuery<T>,
): Promise<ScanResult<T>> {
  if (part.isCompressed) return scanWhole(part, to, query)
  const handle = await openFile(part.file, 'r')
  try {
    const { size } = await handle.stat()
    const end = Math.min(to, size)
    for (let window: number = LOG_PAGES.windowBytes; ; window *= 2) {
      query.signal.throwIfAborted()
      const from = Math.max(0, end - window)
      const buffer = Buffer.allocUnsafe(end - from)
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, from)
      const bytes = buffer.subarray(0, bytesRead)
      // a window may begin within a line, which belongs to the next one
      const begin = from === 0 ? 0 : bytes.indexOf(0x0a) + 1
      const isLine = from === 0 || (begin > 0 && begin < bytes.length)
      if (!isLine && window <= LOG_PAGES.longestBytes) continue
      const last = new Last(query)
      if (isLine) {
        const splitter = new Splitter(from + begin)
        for (const line of splitter.push(bytes.subarray(begin))) last.add(line)
      }
      return last.result(isLine ? from + begin : from, bytes.length)
    }
  } finally {
    await handle.close()
  }
}

async function scanWhole<T>(
  part: ScannedPart,
  to: number,
  query: ScanQuery<T>,
): Promise<ScanResult<T>> {
  const last = new Last(query)
  const reader = readPart(part.file, true)
  let bytes = 0
  try {
    for (let lines = await reader.next(); lines; lines = await reader.next()) {
      query.signal.throwIfAborted()
      for (const line of lines) {
        if (line.end > to) return last.result(0, bytes)
        bytes = line.end
        last.add(line)
      }
    }
    return last.result(0, bytes)
  } finally {
    reader.close()
  }
}
