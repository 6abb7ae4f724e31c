// biome-ignore-all lint/style/noNonNullAssertion: indexes are found by indexOf.
// Splits the bytes of one source into records: a line, a piece of a long line, or an unfinished line after a silence.
// Records are ranges of a reused buffer, valid only in the callback. Invariant: without bare carriage returns they are
// the program's output byte for byte. A line rewritten after bare returns emits a version at most once a second, each
// replacing the last one, and always its final version. Has no timers or clocks; the caller passes the time.
import { LOGS } from '@berth/shared'

const LINE_FEED = 0x0a
const RETURN = 0x0d
/** Returns kept in front of a line feed; more of them are noise. */
const RETURNS_KEPT = 16

type Emit = (data: Buffer, start: number, end: number, replacesPrevious: boolean) => void

export class LineSplitter {
  readonly #isTerminal: boolean
  readonly #emit: Emit
  /** The part of the unfinished line that no record holds yet; for a rewritten line, its whole current version. */
  readonly #open = Buffer.allocUnsafe(LOGS.recordBytes)
  #openBytes = 0
  /** How many of those bytes the last record already showed (rewritten lines only). */
  #shownBytes = 0
  /** Returns after them; the next byte decides whether they end the line or begin its next version. */
  #returns = 0
  #isRewritten = false
  /** Records that show the current line and cannot be replaced one by one: none, one, or many. */
  #shown: 0 | 1 | 2 = 0
  #versionHasRecord = false
  #versionIsInPieces = false
  #versionAt = Number.NEGATIVE_INFINITY
  #heardAt = 0

  constructor(isTerminal: boolean, emit: Emit) {
    this.#isTerminal = isTerminal
    this.#emit = emit
  }

  push(input: Buffer, nowMs: number): void {
    if (input.length === 0) return
    this.#heardAt = nowMs
    let chunk = input
    let from = 0
    let carriage = chunk.indexOf(RETURN)
    if (carriage >= 0 && this.#isTerminal) chunk = Buffer.from(input) // the return that a terminal adds is removed
    for (let feed = chunk.indexOf(LINE_FEED); feed >= 0; feed = chunk.indexOf(LINE_FEED, from)) {
      const hasReturn = carriage >= 0 && carriage < feed
      const isFresh = this.#openBytes === 0 && this.#returns === 0 && !this.#isRewritten
      if (isFresh && (!hasReturn || carriage === feed - 1)) {
        let end = feed + 1
        if (hasReturn && this.#isTerminal) {
          chunk[feed - 1] = LINE_FEED
          end = feed
        }
        this.#emitLine(chunk, from, end)
      } else {
        this.#take(chunk, from, feed, hasReturn)
        this.#finishLine()
      }
      from = feed + 1
      if (hasReturn) carriage = chunk.indexOf(RETURN, from)
    }
    if (from < chunk.length) this.#take(chunk, from, chunk.length, carriage >= 0)
  }

  /** Emits an unfinished line after a silence. Returns at its end wait, because they may belong to its ending. */
  tick(nowMs: number): void {
    if (this.#openBytes === this.#shownBytes || nowMs - this.#heardAt < LOGS.unfinishedMs) return
    if (this.#isRewritten && nowMs - this.#versionAt < LOGS.foldMs) return
    this.#show()
    this.#versionAt = nowMs
  }

  /** Ends the input: emits everything that was held back. */
  end(): void {
    if (this.#openBytes > this.#shownBytes || !this.#isRewritten) {
      for (; this.#returns > 0; this.#returns--) this.#append(RETURN)
    }
    if (this.#openBytes > this.#shownBytes) this.#show()
    this.#startLine()
  }

  /** A whole line inside the chunk, in one or more records. */
  #emitLine(chunk: Buffer, from: number, end: number): void {
    let at = from
    for (; end - at > LOGS.recordBytes; at += LOGS.recordBytes) {
      this.#emit(chunk, at, at + LOGS.recordBytes, false)
    }
    this.#emit(chunk, at, end, false)
    if (this.#shown !== 0) this.#startLine()
  }

  /** A piece of a line, without a line feed. */
  #take(chunk: Buffer, from: number, end: number, hasReturns: boolean): void {
    let at = from
    if (!hasReturns) {
      this.#takeText(chunk, from, end)
      at = end
    }
    while (at < end) {
      if (chunk[at] === RETURN) {
        if (this.#returns < RETURNS_KEPT) this.#returns++
        at++
        continue
      }
      const carriage = chunk.indexOf(RETURN, at)
      const textEnd = carriage < 0 || carriage > end ? end : carriage
      this.#takeText(chunk, at, textEnd)
      at = textEnd
    }
  }

  #takeText(chunk: Buffer, from: number, end: number): void {
    if (from >= end) return
    if (this.#returns > 0) this.#rewrite()
    let at = from
    while (at < end) {
      const bytes = Math.min(end - at, LOGS.recordBytes - this.#openBytes)
      chunk.copy(this.#open, this.#openBytes, at, at + bytes)
      this.#openBytes += bytes
      at += bytes
      if (this.#openBytes === LOGS.recordBytes && at < end) this.#showPiece()
    }
  }

  /** Text after bare returns ends the current version, which is shown if the last one is old enough. */
  #rewrite(): void {
    if (this.#openBytes === 0 && !this.#versionHasRecord) {
      // At the beginning of a line they rewrite nothing.
      for (; this.#returns > 0; this.#returns--) this.#append(RETURN)
      return
    }
    if (this.#openBytes > this.#shownBytes && this.#heardAt - this.#versionAt >= LOGS.foldMs) {
      this.#show()
      this.#versionAt = this.#heardAt
    }
    this.#isRewritten = true
    this.#openBytes = 0
    this.#shownBytes = 0
    this.#returns = 0
    this.#versionHasRecord = false
    this.#versionIsInPieces = false
  }

  #finishLine(): void {
    const kept = this.#isTerminal && this.#returns > 0 ? this.#returns - 1 : this.#returns
    for (let n = 0; n < kept; n++) this.#append(RETURN)
    this.#append(LINE_FEED)
    this.#show()
    this.#startLine()
  }

  #startLine(): void {
    this.#openBytes = 0
    this.#shownBytes = 0
    this.#returns = 0
    this.#isRewritten = false
    this.#shown = 0
    this.#versionHasRecord = false
    this.#versionIsInPieces = false
  }

  #append(byte: number): void {
    if (this.#openBytes === LOGS.recordBytes) this.#showPiece()
    this.#open[this.#openBytes++] = byte
  }

  #showPiece(): void {
    this.#show()
    this.#versionIsInPieces = true
    this.#openBytes = 0
    this.#shownBytes = 0
  }

  /**
   * Emits the open bytes as one record; for a rewritten line it replaces the previous record, if there is exactly one.
   */
  #show(): void {
    const isWholeVersion = this.#isRewritten && !this.#versionIsInPieces
    const replaces = isWholeVersion && this.#shown === 1
    const continues = this.#versionHasRecord && !isWholeVersion
    this.#emit(this.#open, 0, this.#openBytes, replaces)
    this.#shown = continues ? 2 : 1
    this.#versionHasRecord = true
    if (isWholeVersion) this.#shownBytes = this.#openBytes
    else this.#openBytes = 0
  }
}
