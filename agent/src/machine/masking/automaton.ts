// biome-ignore-all lint/style/noNonNullAssertion: states and bytes are in range by construction.
// Aho–Corasick over bytes, in typed arrays, shared by all streams of a masker; it holds no state of a stream. A state's
// first child is the next state, so a long pattern costs 20 bytes per state; a hash holds other children. A table of
// block shifts skips text in which no pattern can begin, at best four bytes per step. Invariant: `next` is the longest
// suffix of the input that begins a pattern; `skip` never passes such a beginning.

/** The length of the shortest allowed pattern; the shifts rely on it. */
export const SHORTEST_PATTERN = 6

const NO_CHILD = 256
const HAS_BRANCHES = 512
const BLOCK_SHIFT = SHORTEST_PATTERN - 2
const hashBlock = (a: number, b: number, c: number): number =>
  ((a << 11) ^ (b << 5) ^ c ^ (a >>> 3)) & 0xffff

export class Automaton {
  /** Bytes of the partial match that a state represents. */
  readonly depth: Int32Array
  /** Length of the longest pattern that ends in this state; 0 when none does. */
  readonly longest: Int32Array
  /** Length of the shortest pattern that goes through this state. */
  readonly shortest: Int32Array
  /** A pattern has a line feed among its first bytes, so carriage returns matter to `skip`. */
  readonly earlyNewline: boolean
  readonly #root = new Int32Array(256)
  readonly #children: Int16Array
  readonly #fail: Int32Array
  readonly #branchKeys: Int32Array
  readonly #branchStates: Int32Array
  readonly #shifts = new Uint8Array(0x10000).fill(BLOCK_SHIFT)
  #states = 1

  constructor(patterns: readonly Uint8Array[]) {
    const room = patterns.reduce((sum, pattern) => sum + pattern.length, 1)
    let slots = 16
    while (slots < patterns.length * 2 + 2) slots *= 2
    this.depth = new Int32Array(room)
    this.longest = new Int32Array(room)
    this.shortest = new Int32Array(room)
    this.#children = new Int16Array(room).fill(NO_CHILD)
    this.#fail = new Int32Array(room)
    this.#branchKeys = new Int32Array(slots).fill(-1)
    this.#branchStates = new Int32Array(slots)
    const parents = new Int32Array(room)
    const bytes = new Uint8Array(room)
    for (const pattern of patterns) this.#insert(pattern, parents, bytes)
    this.#link(parents, bytes)
    this.earlyNewline = patterns.some((pattern) =>
      pattern.subarray(0, SHORTEST_PATTERN).includes(10),
    )
  }

  /** The state after one more byte. */
  next(from: number, byte: number): number {
    let state = from
    while (state !== 0) {
      const children = this.#children[state]!
      if ((children & 511) === byte) return state + 1
      if (children >= HAS_BRANCHES) {
        const child = this.#branch(state, byte)
        if (child !== 0) return child
      }
      state = this.#fail[state]!
    }
    return this.#root[byte]!
  }

  /** The next shorter partial match. */
  fallback(state: number): number {
    return this.#fail[state]!
  }

  /**
   * The first position at or after `from` where a pattern may begin, judged by the bytes before `end`. The last few
   * positions always count as possible.
   */
  skip(bytes: Uint8Array, from: number, end: number): number {
    const shifts = this.#shifts
    let at = from
    for (const last = end - SHORTEST_PATTERN; at <= last; ) {
      const shift = shifts[hashBlock(bytes[at + 3]!, bytes[at + 4]!, bytes[at + 5]!)]!
      if (shift === 0) return at
      at += shift
    }
    return at
  }

  #insert(pattern: Uint8Array, parents: Int32Array, bytes: Uint8Array): void {
    if (pattern.length < SHORTEST_PATTERN)
      throw new RangeError('A secret pattern is too short to be masked.')
    for (let last = 2; last < SHORTEST_PATTERN; last++) {
      const hash = hashBlock(pattern[last - 2]!, pattern[last - 1]!, pattern[last]!)
      this.#shifts[hash] = Math.min(this.#shifts[hash]!, SHORTEST_PATTERN - 1 - last)
    }
    let state = 0
    for (const byte of pattern) {
      let child = this.#child(state, byte)
      if (child === 0) {
        child = this.#states++
        this.#adopt(state, byte, child)
        parents[child] = state
        bytes[child] = byte
        this.depth[child] = this.depth[state]! + 1
        this.shortest[child] = pattern.length
      }
      state = child
      if (pattern.length < this.shortest[state]!) this.shortest[state] = pattern.length
    }
    this.longest[state] = pattern.length
  }

  #child(state: number, byte: number): number {
    if (state === 0) return this.#root[byte]!
    const children = this.#children[state]!
    if ((children & 511) === byte) return state + 1
    return children >= HAS_BRANCHES ? this.#branch(state, byte) : 0
  }

  #adopt(state: number, byte: number, child: number): void {
    if (state === 0) {
      this.#root[byte] = child
    } else if (child === state + 1) {
      this.#children[state] = byte
    } else {
      this.#children[state] = this.#children[state]! | HAS_BRANCHES
      const slot = this.#slot(state * 256 + byte)
      this.#branchKeys[slot] = state * 256 + byte
      this.#branchStates[slot] = child
    }
  }

  #branch(state: number, byte: number): number {
    return this.#branchStates[this.#slot(state * 256 + byte)]!
  }

  /** The slot of the key, or the free slot for it; the table is at most half full, so the search ends. */
  #slot(key: number): number {
    const keys = this.#branchKeys
    const mask = keys.length - 1
    let slot = (Math.imul(key, 0x9e3779b1) >>> 12) & mask
    while (keys[slot] !== key && keys[slot] !== -1) slot = (slot + 1) & mask
    return slot
  }

  /** Sets the fail links, shallow states first, since a link always leads to a shallower state. */
  #link(parents: Int32Array, bytes: Uint8Array): void {
    for (const state of this.#shallowFirst()) {
      const parent = parents[state]!
      if (parent !== 0) this.#fail[state] = this.next(this.#fail[parent]!, bytes[state]!)
      if (this.longest[state] === 0) this.longest[state] = this.longest[this.#fail[state]!]!
    }
  }

  #shallowFirst(): Int32Array {
    let deepest = 0
    for (let state = 1; state < this.#states; state++) {
      deepest = Math.max(deepest, this.depth[state]!)
    }
    const paths = new Int32Array(deepest + 2)
    for (let state = 1; state < this.#states; state++) paths[this.depth[state]! + 1]!++
    for (let depth = 1; depth < paths.length; depth++) paths[depth]! += paths[depth - 1]!
    const order = new Int32Array(this.#states - 1)
    for (let state = 1; state < this.#states; state++) order[paths[this.depth[state]!]!++] = state
    return order
  }
}
