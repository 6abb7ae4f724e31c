// Serves a few at once and lets the others wait, first come, first served. There is no rate to configure: the next turn
// begins when one ends, so a slow machine admits slowly and nothing that was begun is thrown away. If a turn would come
// too late for the one who waits, it is refused at once and gets a time when there is a turn for it.

interface Entry {
  begin: () => void
  isGone: boolean
}

interface Options {
  /** Turns at once. */
  width: number
  /** Longest wait of those who name none. */
  patienceMs: number
  now?: () => number
}

type Entered =
  | { kind: 'entered'; isWaiting: boolean; leave: () => void }
  | { kind: 'refused'; againMs: number }

/** Of one turn, before any was measured. */
const FIRST_GUESS_MS = 5
/** Refused ones are sent away for at most this long: agents obey, and a later time would only be a guess. */
const LONGEST_MS = 60_000
/** Part of the newest measurement in the estimate. */
const WEIGHT = 0.1

export class WaitingLine {
  readonly #options: Required<Options>
  readonly #returned: Entry[] = []
  readonly #fresh: Entry[] = []
  #busy = 0
  /** Time between the ends of two turns while others wait. */
  #paceMs = FIRST_GUESS_MS
  #endedAt: number | undefined
  /** The refused ones have turns up to here. */
  #promisedUntil = 0

  constructor(options: Options) {
    this.#options = { now: () => performance.now(), ...options }
  }

  get busy(): number {
    return this.#busy
  }

  get waiting(): number {
    return this.#returned.length + this.#fresh.length
  }

  /** What a newcomer would wait. */
  get waitMs(): number {
    return this.#busy < this.#options.width ? 0 : this.waiting * this.#paceMs
  }

  /**
   * Calls `go` now or when its turn comes; its argument ends the turn. Those who return at the time they were given go
   * before others.
   */
  enter(
    go: (end: () => void) => void,
    { isReturned = false, patienceMs = this.#options.patienceMs } = {},
  ): Entered {
    const { width } = this.#options
    if (this.#busy < width && this.waiting === 0) {
      this.#begin(go)
      return { kind: 'entered', isWaiting: false, leave: () => {} }
    }
    const ahead = isReturned ? this.#returned.length : this.waiting
    if (ahead * this.#paceMs > patienceMs) return { kind: 'refused', againMs: this.#promise() }
    const entry: Entry = { begin: () => this.#begin(go), isGone: false }
    const line = isReturned ? this.#returned : this.#fresh
    line.push(entry)
    return {
      kind: 'entered',
      isWaiting: true,
      leave: () => {
        if (entry.isGone) return
        entry.isGone = true
        const at = line.indexOf(entry)
        if (at >= 0) line.splice(at, 1)
      },
    }
  }

  /** The next free turn behind all who wait and all who were refused before. After a minute, the times begin again. */
  #promise(): number {
    const now = this.#options.now()
    const free = now + this.waiting * this.#paceMs
    const isFull = this.#promisedUntil + this.#paceMs > now + LONGEST_MS
    this.#promisedUntil = (isFull ? free : Math.max(this.#promisedUntil, free)) + this.#paceMs
    return Math.min(this.#promisedUntil - now, LONGEST_MS)
  }

  #begin(go: (end: () => void) => void): void {
    this.#busy += 1
    let hasEnded = false
    go(() => {
      if (hasEnded) return
      hasEnded = true
      this.#end()
    })
  }

  #end(): void {
    this.#busy -= 1
    const now = this.#options.now()
    if (this.waiting === 0) {
      this.#endedAt = undefined
      return
    }
    if (this.#endedAt !== undefined) {
      this.#paceMs += WEIGHT * (Math.max(1, now - this.#endedAt) - this.#paceMs)
    }
    this.#endedAt = now
    while (this.#busy < this.#options.width) {
      const next = this.#returned.shift() ?? this.#fresh.shift()
      if (!next) return
      next.isGone = true
      next.begin()
    }
  }
}
