// Converts a server's time to the control plane's clock by the offset of the server's clock. Only for display:
// deadlines run from the arrival of reports. PURE.

const KEPT = 8 // heartbeats, which cover a minute or two

/**
 * How far a server's clock is behind ours. Each message with a time gives a sample that is too large by its transit
 * time, so the smallest of the last few is the closest.
 */
export class ClockOffset {
  readonly #samples: number[] = []

  note(agentTime: number, now: number): void {
    this.#samples.push(now - agentTime)
    if (this.#samples.length > KEPT) this.#samples.shift()
  }

  /** Undefined before the server's first time. */
  get ms(): number | undefined {
    return this.#samples.length === 0 ? undefined : Math.min(...this.#samples)
  }
}

interface Happened {
  /** By the server's clock; undefined if not reported. */
  at: number | undefined
  offsetMs: number | undefined
  /** The earlier event that it followed, by our clock. */
  notBefore: number
  /** When we received the report; the event cannot be later. */
  heardAt: number
}

export function whenHappened({ at, offsetMs, notBefore, heardAt }: Happened): number {
  if (at === undefined || offsetMs === undefined) return heardAt
  return Math.min(Math.max(Math.round(at + offsetMs), notBefore), heardAt)
}
