// biome-ignore-all lint/style/noNonNullAssertion: the runs are never empty where they are read.
// The second reading of a stream: without colour codes (ESC [ … m) and without the carriage returns that a terminal
// puts before a line feed, so that neither hides a value. It runs from the first such byte until the literal reading
// reaches the same state; in between the two are independent, so cuts cannot matter. Invariant: `start()` is the
// position of the first byte of the partial match, however much was skipped after it.
import { MASKING } from '../../limits/machine.ts'
import type { Automaton } from './automaton.ts'

const ESCAPE = 0x1b
const RETURN = 0x0d
const LINE_FEED = 0x0a
const BRACKET = 0x5b
const LETTER_M = 0x6d
/** A terminal adds one; a program that writes its own makes it two. */
const RETURNS_SKIPPED = 2

export class PlainLane {
  state = 0
  readonly #automaton: Automaton
  readonly #matched: (start: number, end: number) => void
  /** The partial match as runs of neighbouring bytes: positions and lengths. */
  #runStarts: number[] = []
  #runBytes: number[] = []
  #bytes = 0
  /** The beginning of a possible colour code, and its position. */
  #code: number[] = []
  #codeFrom = 0
  /** Positions of carriage returns that may precede a line feed. */
  #returns: number[] = []

  constructor(automaton: Automaton, matched: (start: number, end: number) => void) {
    this.#automaton = automaton
    this.#matched = matched
  }

  /** Begins with the literal reading's partial match, which ends at `position`. */
  begin(state: number, position: number): void {
    this.state = state
    this.#bytes = this.#automaton.depth[state]!
    this.#runStarts = state === 0 ? [] : [position - this.#bytes]
    this.#runBytes = state === 0 ? [] : [this.#bytes]
    this.#code = []
    this.#returns = []
  }

  push(byte: number, position: number): void {
    if (position - this.start() > MASKING.spanBytes) {
      // Endless colour codes: drops the partial match, instead of holding it forever.
      this.state = 0
      this.#keep(0)
      this.#returns = []
    }
    if (this.#code.length > 0) {
      const verdict = this.#judge(byte)
      if (verdict === 'goes on') {
        this.#code.push(byte)
        return
      }
      const code = this.#code
      this.#code = []
      if (verdict === 'colour') return
      this.#stepReturns()
      for (const [i, old] of code.entries()) this.#step(old, this.#codeFrom + i)
    }
    if (byte === ESCAPE) {
      this.#code = [byte]
      this.#codeFrom = position
    } else if (byte === RETURN) {
      if (this.#returns.length === RETURNS_SKIPPED) this.#stepReturns()
      this.#returns.push(position)
    } else {
      if (byte === LINE_FEED) this.#returns = []
      this.#stepReturns()
      this.#step(byte, position)
    }
  }

  #judge(byte: number): 'goes on' | 'colour' | 'no' {
    const bytes = this.#code.length
    if (bytes === 1) return byte === BRACKET ? 'goes on' : 'no'
    if (byte === LETTER_M) return 'colour'
    return byte >= 0x30 && byte <= 0x3b && bytes < MASKING.sgrBytes ? 'goes on' : 'no'
  }

  /** The returns were no part of a line ending. */
  #stepReturns(): void {
    if (this.#returns.length === 0) return
    for (const position of this.#returns) this.#step(RETURN, position)
    this.#returns = []
  }

  #step(byte: number, position: number): void {
    this.state = this.#automaton.next(this.state, byte)
    const last = this.#runStarts.length - 1
    if (last >= 0 && this.#runStarts[last]! + this.#runBytes[last]! === position) {
      this.#runBytes[last]!++
    } else {
      this.#runStarts.push(position)
      this.#runBytes.push(1)
    }
    this.#bytes++
    this.#keep(this.#automaton.depth[this.state]!)
    const match = this.#automaton.longest[this.state]!
    if (match !== 0) this.#matched(this.startOf(match), position + 1)
  }

  /** Forgets all but the last `bytes`. */
  #keep(bytes: number): void {
    let surplus = this.#bytes - bytes
    this.#bytes = bytes
    while (surplus > 0) {
      const first = this.#runBytes[0]!
      if (first > surplus) {
        this.#runStarts[0]! += surplus
        this.#runBytes[0] = first - surplus
        return
      }
      this.#runStarts.shift()
      this.#runBytes.shift()
      surplus -= first
    }
  }

  /** Where the last `bytes` of the partial match begin. */
  startOf(bytes: number): number {
    let rest = bytes
    for (let run = this.#runStarts.length - 1; ; run--) {
      if (rest <= this.#runBytes[run]!) return this.#runStarts[run]! + this.#runBytes[run]! - rest
      rest -= this.#runBytes[run]!
    }
  }

  /** The position of the partial match, or of returns that may begin one; Infinity when there is none. */
  start(): number {
    const first = this.#runStarts[0] ?? this.#returns[0]
    if (first === undefined) return Number.POSITIVE_INFINITY
    return this.state === 0 && this.#automaton.next(0, RETURN) === 0
      ? Number.POSITIVE_INFINITY
      : first
  }

  /** The position after the last byte of the partial match. */
  end(): number {
    return this.#runStarts.at(-1)! + this.#runBytes.at(-1)!
  }

  /** Whether returns are pending that only a line feed would make part of a match. */
  get awaitsLineFeed(): boolean {
    return this.#returns.length > 0
  }

  /** Whether nothing is pending and the literal reading at `position` is in the same state. */
  agreesWith(literal: number, position: number): boolean {
    if (literal !== this.state || this.#code.length > 0 || this.#returns.length > 0) return false
    return literal === 0 || (this.#runStarts.length === 1 && this.end() === position)
  }
}
