// biome-ignore-all lint/style/noNonNullAssertion: every index is in range by construction.
// Replaces secret values in output by `***`, before anything is stored or sent. One automaton, one MaskStream per
// source. Invariants: the output does not depend on how the input was cut; every byte of every occurrence is replaced
// (overlapping ones by one `***`); exactly the current partial match is held back. Deliberately absent: a timed flush,
// which would leak the beginning of a value that a program prints in two writes.
import { MASKING } from '../../limits/machine.ts'
import { Automaton, SHORTEST_PATTERN } from './automaton.ts'
import { PlainLane } from './lane.ts'
import { type MaskedValue, makeSecretPatterns } from './secret-patterns.ts'

const MASK = Buffer.from('***')
const NOTHING = Buffer.alloc(0)
const ESCAPE = 0x1b
const RETURN = 0x0d
const LINE_FEED = 0x0a
const BRACKET = 0x5b
const LETTER_M = 0x6d
/** How many bytes after a position rule out that a pattern began before it. */
const WINDOW = SHORTEST_PATTERN - 1

export interface MaskStream {
  /** The output that is decided so far; may be the chunk itself. */
  push(chunk: Buffer): Buffer
  /** Flushes what was held back; masks a partial match of more than half a pattern. The stream can then be reused. */
  end(): Buffer
}

export class Masker {
  /** Encoded forms of very long values that the masker does not search for (see secret-patterns.ts). */
  readonly leftOut: number
  readonly #automaton: Automaton | undefined

  constructor(values: readonly MaskedValue[]) {
    const { patterns, leftOut } = makeSecretPatterns(values)
    this.leftOut = leftOut
    this.#automaton = patterns.length === 0 ? undefined : new Automaton(patterns)
  }

  source(): MaskStream {
    return this.#automaton === undefined ? OPEN_STREAM : new PatternStream(this.#automaton)
  }

  /** A message for a person. */
  maskText(text: string): string {
    if (this.#automaton === undefined) return text
    const stream = this.source()
    const bytes = Buffer.from(text)
    const first = stream.push(bytes)
    const rest = stream.end()
    return first === bytes && rest.length === 0 ? text : Buffer.concat([first, rest]).toString()
  }
}

const OPEN_STREAM: MaskStream = { push: (chunk) => chunk, end: () => NOTHING }

/** The position after the colour code that begins at `from`; -1 when there is none, or it is incomplete. */
function colourEnd(chunk: Buffer, from: number): number {
  if (chunk[from] !== ESCAPE || chunk[from + 1] !== BRACKET) return -1
  for (let at = from + 2; at < chunk.length && at - from < MASKING.sgrBytes; at++) {
    const byte = chunk[at]!
    if (byte === LETTER_M) return at + 1
    if (byte < 0x30 || byte > 0x3b) return -1
  }
  return -1
}

class PatternStream implements MaskStream {
  readonly #automaton: Automaton
  /** State of the literal reading. */
  #state = 0
  /** The reading without colour codes and returns before line feeds; runs while it differs from the literal one. */
  readonly #plain: PlainLane
  #isForked = false
  /** Bytes pushed so far; all positions below count from the beginning of the stream. */
  #position = 0
  /** Pending matches, in order of their ends; no two overlap. */
  readonly #starts: number[] = []
  readonly #ends: number[] = []
  /** Whether the `***` of the first of them was written already. */
  #begun = false
  /** Bytes [#out, #position) between two pushes. */
  #held: Buffer = NOTHING
  #heldBytes = 0
  #out = 0
  /** In the current chunk, the next byte that `skip` must not cross. */
  #stop = -1
  readonly #window = new Uint8Array(2 * WINDOW)

  constructor(automaton: Automaton) {
    this.#automaton = automaton
    this.#plain = new PlainLane(automaton, (start, end) => this.#add(start, end))
  }

  push(chunk: Buffer): Buffer {
    if (chunk.length === 0) return chunk
    const base = this.#position
    this.#scan(chunk, base)
    this.#position = base + chunk.length
    const safe = this.#safeEnd()
    if (this.#heldBytes === 0 && this.#starts.length === 0) {
      this.#out = safe
      this.#hold(chunk, base)
      return safe === this.#position ? chunk : chunk.subarray(0, safe - base)
    }
    const output = this.#release(safe, chunk, base)
    this.#hold(chunk, base)
    return output
  }

  end(): Buffer {
    const automaton = this.#automaton
    const { depth, shortest } = automaton
    const overHalf = (from: number, mayGoOn: (state: number) => boolean): number => {
      let state = from
      while (state !== 0 && (depth[state]! * 2 <= shortest[state]! || !mayGoOn(state))) {
        state = automaton.fallback(state)
      }
      return depth[state]!
    }
    const plain = this.#plain
    // after a return, only a value with a line feed here can continue; others ended at the return
    const mayGoOn = (state: number): boolean =>
      !plain.awaitsLineFeed || depth[automaton.next(state, LINE_FEED)] === depth[state]! + 1
    const inPlain = this.#isForked ? overHalf(plain.state, mayGoOn) : 0
    if (inPlain > 0) this.#add(plain.startOf(inPlain), plain.end())
    const literal = overHalf(this.#state, () => true)
    if (literal > 0) this.#add(this.#position - literal, this.#position)
    const output = this.#release(this.#position, NOTHING, this.#position)
    this.#state = 0
    this.#isForked = false
    this.#heldBytes = 0
    return output
  }

  /** Every byte before it is either masked or part of no value. */
  #safeEnd(): number {
    const literal = this.#position - this.#automaton.depth[this.#state]!
    return this.#isForked ? Math.min(literal, this.#plain.start()) : literal
  }

  /** Runs the automaton over the chunk; `#jump` skips the text where no pattern can begin. */
  #scan(chunk: Buffer, base: number): void {
    const automaton = this.#automaton
    const { depth, longest } = automaton
    const length = chunk.length
    let anchor = -1
    let at = 0
    let state = this.#state
    this.#stop = -1
    if (state === 0 && !this.#isForked) {
      at = this.#jump(chunk, 0)
      anchor = at
    }
    while (at < length) {
      const byte = chunk[at]!
      if (this.#isForked || byte === ESCAPE || byte === RETURN) {
        if (!this.#isForked) this.#plain.begin(state, base + at)
        state = this.#stepBoth(state, byte, base + at++)
        if (this.#isForked) continue
      } else {
        state = automaton.next(state, byte)
        at++
        const match = longest[state]!
        if (match !== 0) this.#add(base + at - match, base + at)
      }
      const bytes = depth[state]!
      const start = at - bytes
      // Leaves short partial matches to `#jump`, which checks them again and always advances.
      if (bytes < SHORTEST_PATTERN && start > anchor) {
        at = this.#jump(chunk, start)
        anchor = at
        state = 0
      }
    }
    this.#state = state
  }

  /**
   * The first position at or after `from` where a pattern may begin. `skip` reads literal bytes, so it stops before
   * colour codes (and before returns, where they matter). A code is passed when no pattern begins inside it or in the
   * few bytes before it, read with or without the code.
   */
  #jump(chunk: Buffer, from: number): number {
    const automaton = this.#automaton
    let at = from
    for (;;) {
      if (at > this.#stop) this.#stop = this.#nextStop(chunk, at)
      const stop = this.#stop
      at = automaton.skip(chunk, at, stop)
      if (at + SHORTEST_PATTERN <= stop || stop === chunk.length || at > stop) return at
      const after = colourEnd(chunk, stop)
      const before = stop - at
      if (after < 0 || after + WINDOW > chunk.length) return at
      for (let i = 0; i < before; i++) this.#window[i] = chunk[at + i]!
      for (let i = 0; i < WINDOW; i++) {
        const byte = chunk[after + i]!
        if (byte === ESCAPE || byte === RETURN) return at
        this.#window[before + i] = byte
      }
      if (automaton.skip(this.#window, 0, before + WINDOW) < before) return at
      if (automaton.skip(chunk, at, after + WINDOW) < after) return at
      at = after
    }
  }

  #nextStop(chunk: Buffer, from: number): number {
    const code = chunk.indexOf(ESCAPE, from)
    const first = code < 0 ? chunk.length : code
    if (!this.#automaton.earlyNewline) return first
    const carriage = chunk.indexOf(RETURN, from)
    return carriage < 0 ? first : Math.min(first, carriage)
  }

  #stepBoth(state: number, byte: number, position: number): number {
    const next = this.#automaton.next(state, byte)
    const match = this.#automaton.longest[next]!
    if (match !== 0) this.#add(position + 1 - match, position + 1)
    this.#plain.push(byte, position)
    this.#isForked = !this.#plain.agreesWith(next, position + 1)
    return next
  }

  /** Adds a match, joined with those it overlaps. */
  #add(from: number, to: number): void {
    let start = from
    let end = to
    while (this.#ends.length > 0 && this.#ends.at(-1)! > start) {
      start = Math.min(start, this.#starts.pop()!)
      end = Math.max(end, this.#ends.pop()!)
    }
    this.#starts.push(start)
    this.#ends.push(end)
  }

  /** Writes everything before `safe`; the chunk begins at `base`, and `#held` has older bytes. */
  #release(safe: number, chunk: Buffer, base: number): Buffer {
    const parts: Buffer[] = []
    const copy = (to: number): void => {
      if (this.#out < base) {
        const heldFrom = base - this.#heldBytes
        const end = Math.min(to, base)
        parts.push(this.#held.subarray(this.#out - heldFrom, end - heldFrom))
        this.#out = end
      }
      if (to > this.#out) parts.push(chunk.subarray(this.#out - base, to - base))
      this.#out = Math.max(this.#out, to)
    }
    let passed = 0
    while (passed < this.#starts.length && this.#starts[passed]! < safe) {
      if (!this.#begun) {
        copy(this.#starts[passed]!)
        parts.push(MASK)
      }
      this.#begun = this.#ends[passed]! > safe
      this.#out = Math.min(this.#ends[passed]!, safe)
      if (this.#begun) break
      passed++
    }
    this.#starts.splice(0, passed)
    this.#ends.splice(0, passed)
    if (this.#out < safe) copy(safe)
    // Always a copy, because the buffer of held bytes is reused.
    return parts.length === 1 ? Buffer.from(parts[0]!) : Buffer.concat(parts)
  }

  /** Keeps [#out, end of chunk); appends when the match began in an earlier chunk. */
  #hold(chunk: Buffer, base: number): void {
    const end = base + chunk.length
    const kept = end - this.#out
    const fromHeld = Math.max(0, base - this.#out)
    const fromChunk = kept - fromHeld
    if (kept > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(64, kept * 2))
      this.#held.copy(larger, 0, this.#heldBytes - fromHeld, this.#heldBytes)
      this.#held = larger
    } else if (fromHeld > 0 && fromHeld < this.#heldBytes) {
      this.#held.copyWithin(0, this.#heldBytes - fromHeld, this.#heldBytes)
    }
    if (fromChunk > 0) chunk.copy(this.#held, fromHeld, chunk.length - fromChunk)
    this.#heldBytes = kept
  }
}
