// When a new version is kept and when the old one returns. PURE. Times are monotonic milliseconds.
import { UPDATES } from '../limits/maintenance.ts'

export interface WatchFacts {
  /** Since the switch. */
  elapsedMs: number
  /** Ended starts of the new version. */
  ends: number
  /** Whether a daemon of the new version lives now. */
  isAlive: boolean
  /** Since the first active session of the new version; undefined: it had none. */
  activeForMs: number | undefined
  stayMs: number
}

export type Verdict = { do: 'wait' } | { do: 'keep' } | { do: 'return'; why: string }

export function judge({ elapsedMs, ends, isAlive, activeForMs, stayMs }: WatchFacts): Verdict {
  if (ends >= UPDATES.ends) {
    const when =
      activeForMs === undefined ? 'before it was connected' : 'soon after it was connected'
    return { do: 'return', why: `It ended ${ends} times ${when}.` }
  }
  if (activeForMs === undefined) {
    if (elapsedMs < UPDATES.activeMs) return { do: 'wait' }
    const seconds = UPDATES.activeMs / 1_000
    return { do: 'return', why: `It was not connected within ${seconds} s.` }
  }
  return isAlive && activeForMs >= stayMs ? { do: 'keep' } : { do: 'wait' }
}
