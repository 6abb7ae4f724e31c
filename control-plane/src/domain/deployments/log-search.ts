// Finds the lines of a log that contain a text, while the log arrives in pieces. PURE. A line is searched as users see
// it, without escape sequences; only line ends separate lines, which is how the log numbers them.
import { stripEscapes } from '@berth/shared'

const NEWLINE = 10

/** Words that mark a line as an error; "0 errors" and names of files do not count. */
const ERROR_LINE =
  /(?:^|[\s[(:!>])(?:error|fatal|panic|exception|traceback|segfault|err!|failed|failure)(?:$|[\s\]):!,.[]|E\d)/i
const NO_ERROR = /\b(?:0|no) (?:errors?|failures?|failed)\b/i

export const isErrorLine = (text: string): boolean => ERROR_LINE.test(text) && !NO_ERROR.test(text)

export const holdsText = (query: string, isCaseSensitive: boolean): ((text: string) => boolean) => {
  if (isCaseSensitive) return (text) => text.includes(query)
  const wanted = query.toLowerCase()
  return (text) => text.toLowerCase().includes(wanted)
}

interface SearchBounds {
  /** The first line that counts, from 1. */
  fromLine: number
  matches: number
  lineBytes: number
  /** Characters of the found lines that are kept, of one and of all; beyond it only their numbers. */
  lineChars: number
  chars: number
}

export class LineSearch {
  readonly #isWanted: (text: string) => boolean
  readonly #bounds: SearchBounds
  readonly #found: number[] = []
  readonly #texts: string[] = []
  readonly #decoder = new TextDecoder()
  #line = 1
  #rest: Uint8Array[] = []
  #restBytes = 0
  #chars = 0

  constructor(isWanted: (text: string) => boolean, bounds: SearchBounds) {
    this.#isWanted = isWanted
    this.#bounds = bounds
  }

  get found(): readonly number[] {
    return this.#found
  }

  /** The beginnings of the found lines with their colours, as far as they fit: at most as many as were found. */
  get texts(): readonly string[] {
    return this.#texts
  }

  get isFull(): boolean {
    return this.#found.length >= this.#bounds.matches
  }

  /** The number of the next line to search. */
  get line(): number {
    return this.#line
  }

  add(piece: Uint8Array): void {
    let from = 0
    while (!this.isFull) {
      const end = piece.indexOf(NEWLINE, from)
      if (end < 0) break
      this.#keep(piece.subarray(from, end))
      this.#endLine()
      from = end + 1
    }
    if (!this.isFull && from < piece.length) this.#keep(piece.subarray(from))
  }

  /** Text after the last line end is a line too. */
  finish(): void {
    if (!this.isFull && this.#restBytes > 0) this.#endLine()
  }

  #keep(part: Uint8Array): void {
    if (this.#line < this.#bounds.fromLine) return
    const room = this.#bounds.lineBytes - this.#restBytes
    if (room <= 0 || part.length === 0) return
    const kept = part.subarray(0, room)
    this.#rest.push(kept)
    this.#restBytes += kept.length
  }

  #take(raw: string): void {
    this.#found.push(this.#line)
    const text = raw.slice(0, this.#bounds.lineChars)
    this.#chars += text.length
    if (this.#chars <= this.#bounds.chars) this.#texts.push(text)
  }

  #endLine(): void {
    if (this.#line >= this.#bounds.fromLine) {
      const text = this.#rest.map((part) => this.#decoder.decode(part, { stream: true })).join('')
      const raw = text + this.#decoder.decode()
      if (this.#isWanted(stripEscapes(raw))) this.#take(raw)
    }
    this.#rest = []
    this.#restBytes = 0
    this.#line += 1
  }
}
