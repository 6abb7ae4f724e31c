// When a new version is kept and when the old one returns. PURE. Times are monotonic milliseconds.
import { UPDATES } from '../limits/maintenance.ts'

export interface WatchFacts {
  /** Since the switch, or since the new version ended for the last time. */
  elapsedMs: number
  /** Ended starts of the new version. */
  ends: number
  /** Whether a daemon of the new version lives now. */
  isAlive: boolean
  /** Since the first active session of the process that lives; undefined: it had none. */
  activeForMs: number | undefined
  /** Any process of the new version had a session. */
  wasActive: boolean
  stayMs: number
}

export type Verdict = { do: 'wait' } | { do: 'keep' } | { do: 'return'; why: string }

export function judge(f: WatchFacts): Verdict {
  if (f.ends >= UPDATES.ends) {
    const when = f.wasActive ? 'soon after it was connected' : 'before it was connected'
    return { do: 'return', why: `It ended ${f.ends} times ${when}.` }
  }
  if (f.activeForMs === undefined) {
    if (f.elapsedMs < UPDATES.activeMs) return { do: 'wait' }
    return { do: 'return', why: `It was not connected within ${UPDATES.activeMs / 1_000} s.` }
  }
  return f.isAlive && f.activeForMs >= f.stayMs ? { do: 'keep' } : { do: 'wait' }
}
