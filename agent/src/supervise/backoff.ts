// How long to wait before a service is started again. PURE: 1 s, doubled with each end up to 60 s, from the beginning
// after it had been up for 60 s.
import { STEPS } from '@berth/shared'

/** `previousMs` undefined: it has not ended before. */
export function restartDelay(upMs: number, previousMs: number | undefined): number {
  if (previousMs === undefined || upMs >= STEPS.restartResetMs) return STEPS.restartMs
  return Math.min(previousMs * 2, STEPS.restartCapMs)
}
