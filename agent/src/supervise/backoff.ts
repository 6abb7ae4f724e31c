// Decides how long to wait before a service is restarted. PURE: 1 s, doubled with each exit up to 60 s, reset by 60 s
// up.
import { STEPS } from '@berth/shared'

/** `previousMs` is undefined before the first exit. */
export function restartDelay(upMs: number, previousMs: number | undefined): number {
  if (previousMs === undefined || upMs >= STEPS.restartResetMs) return STEPS.restartMs
  return Math.min(previousMs * 2, STEPS.restartCapMs)
}
