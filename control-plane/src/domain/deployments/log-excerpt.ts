// The end of a step's output as plain text: lines without escape sequences, as a terminal would show them, bounded by
// lines and bytes. PURE: takes records and stores only the excerpt, so a log of any size costs the same memory.

import { stripEscapes } from '@berth/shared'

/** Shows the last version of a line that was rewritten by carriage returns. */
const shownLine = (line: string): string => {
  const versions = line.split('\r').filter((version) => version !== '')
  return stripEscapes(versions.at(-1) ?? '').trimEnd()
}

interface ExcerptBounds {
  lines: number
  bytes: number
}

export interface Excerpt {
  lines: string[]
  /** Numbers in the whole log; null if there is no line. */
  firstLine: number | null
  lastLine: number | null
  isTruncated: boolean
}

const NEWLINE = 10

interface Piece {
  line: number
  data: Uint8Array
}

const sizeOf = (text: string): number => new TextEncoder().encode(text).length

/** The last characters of a text that fit into the given bytes. */
function cutFront(text: string, bytes: number): string {
  const encoded = new TextEncoder().encode(text)
  if (encoded.length <= bytes) return text
  return new TextDecoder().decode(encoded.subarray(encoded.length - bytes)).replace(/^\uFFFD+/, '')
}

export class ExcerptBuilder {
  readonly #bounds: ExcerptBounds
  #pieces: Piece[] = []
  #bytes = 0
  #isTruncated = false

  constructor(bounds: ExcerptBounds) {
    this.#bounds = bounds
  }

  /** Takes records in order, with the number of their first line; several may belong to one line. */
  add(line: number, data: Uint8Array): void {
    let number = line
    for (let from = 0; from < data.length; ) {
      const end = data.indexOf(NEWLINE, from)
      const until = end < 0 ? data.length : end + 1
      this.#pieces.push({ line: number, data: data.subarray(from, until) })
      from = until
      number += 1
    }
    this.#bytes += data.length
    // escape sequences and rewritten lines need more bytes than the shown text
    if (this.#bytes > this.#bounds.bytes * 8) this.#drop(this.#bounds.bytes * 4)
  }

  #drop(keptBytes: number): void {
    let from = 0
    while (this.#bytes > keptBytes && from < this.#pieces.length - 1) {
      this.#bytes -= this.#pieces[from]?.data.length ?? 0
      from += 1
    }
    if (from === 0) return
    this.#pieces = this.#pieces.slice(from)
    this.#isTruncated = true
  }

  /** `isWhole`: all records of the step were added. */
  finish(isWhole: boolean): Excerpt {
    const byLine = new Map<number, Uint8Array[]>()
    for (const { line, data } of this.#pieces) {
      const parts = byLine.get(line)
      if (parts) parts.push(data)
      else byLine.set(line, [data])
    }
    const decoder = new TextDecoder()
    const all = [...byLine].map(([line, parts]) => {
      const text = parts.map((part) => decoder.decode(part, { stream: true })).join('')
      return { line, text: shownLine(text.replace(/\r?\n$/, '')) }
    })
    while (all.length > 0 && all.at(-1)?.text === '') all.pop()
    const kept: typeof all = []
    let bytes = 0
    for (const one of all.toReversed()) {
      const size = sizeOf(one.text) + 1
      if (kept.length >= this.#bounds.lines) break
      if (bytes + size > this.#bounds.bytes) {
        if (kept.length === 0) kept.push({ ...one, text: cutFront(one.text, this.#bounds.bytes) })
        this.#isTruncated = true
        break
      }
      kept.push(one)
      bytes += size
    }
    kept.reverse()
    return {
      lines: kept.map(({ text }) => text),
      firstLine: kept[0]?.line ?? null,
      lastLine: kept.at(-1)?.line ?? null,
      isTruncated: this.#isTruncated || !isWhole || kept.length < all.length,
    }
  }
}
