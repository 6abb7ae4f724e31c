// When something happened on a server, by the control plane's clock: the server's own time, corrected by how far its clock
// is off. Shown to people, never decided on: deadlines run from the arrival of reports. PURE.

const KEPT = 8 // heartbeats: a minute or two

/**
 * How far a server's clock is behind ours. Each message that tells its time says so, too large by the time it was under
 * way; the smallest of the last few is the closest.
 */
export class ClockOffset {
  readonly #samples: number[] = []

  note(agentTime: number, now: number): void {
    this.#samples.push(now - agentTime)
    if (this.#samples.length > KEPT) this.#samples.shift()
  }

  /** Undefined: the server has not told its time. */
  get ms(): number | undefined {
    return this.#samples.length === 0 ? undefined : Math.min(...this.#samples)
  }
}

export interface Happened {
  /** By the server's clock; undefined: not told. */
  at: number | undefined
  offsetMs: number | undefined
  /** What it followed, by our clock. */
  notBefore: number
  /** When we heard of it: nothing is told before it happens. */
  heardAt: number
}

export function whenHappened({ at, offsetMs, notBefore, heardAt }: Happened): number {
  if (at === undefined || offsetMs === undefined) return heardAt
  return Math.min(Math.max(Math.round(at + offsetMs), notBefore), heardAt)
}
