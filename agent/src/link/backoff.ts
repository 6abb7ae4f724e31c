// Decides when to dial again. Pure. A try happens at a random point of a window; if it fails, the next window begins
// where this one ends, so that many agents stay spread. The windows double up to a cap and are reset only after a
// minute of an ACTIVE session, not on connecting.
import { DAEMON, SESSION } from '@berth/shared'
import { GoodbyeReason } from '@berth/shared/wire'

/** How a session, or the try to open one, ended. */
export interface SessionEnd {
  /** For the daemon's log. */
  message: string
  /** Time in ACTIVE; 0 when it never got that far. */
  activeMs: number
  goodbye?: { reason: GoodbyeReason; reconnectAfterMs: number } | undefined
  /** What the control plane named last; undefined before Welcome. */
  spreadMs?: number | undefined
  /** This agent ended it to reconnect with a new certificate. */
  renewed?: boolean
}

type Next =
  | { do: 'stop'; exitCode: number }
  /** Wait this long, then dial `at_once` (the goodbye named the time) or at a random point of window `n`. */
  | { do: 'wait'; waitMs: number; n: number; dial: 'at_once' | 'in_window' }

/** The service manager must not restart the daemon, because an operator has to act. */
const EXIT_STOPPED = 78

/** `spreadMs` is what the control plane asked for: in a large fleet no window is shorter. */
export const windowMs = (n: number, spreadMs = 0): number =>
  Math.max(spreadMs, Math.min(SESSION.backoffMs * 2 ** Math.min(n, 32), SESSION.backoffCapMs))

/** The wait before a try inside window `n`; `random` is in [0, 1). */
export const waitBeforeTry = (n: number, random: number, spreadMs = 0): number =>
  windowMs(n, spreadMs) * random

/**
 * A session that did not outlive the next window counts as a failed try, so that a flapping agent does not dial faster.
 */
function nextWindow(activeMs: number, n: number): number {
  if (activeMs >= SESSION.backoffResetMs) return 0
  return activeMs >= windowMs(n + 1) ? n : n + 1
}

/** Called after a try in window `n`, which began `sinceWindowMs` ago. `random` spreads the fixed waits. */
export function decideNext(
  end: SessionEnd,
  n: number,
  sinceWindowMs: number,
  random: number,
  spreadMs = 0,
): Next {
  const { goodbye } = end
  if (end.renewed) return { do: 'wait', waitMs: 0, n, dial: 'at_once' }
  const next = nextWindow(end.activeMs, n)
  if (goodbye) {
    const { reason, reconnectAfterMs } = goodbye
    const wait = (waitMs: number): Next => ({ do: 'wait', waitMs, n: next, dial: 'at_once' })
    if (reason === GoodbyeReason.REVOKED || reason === GoodbyeReason.DUPLICATE_IDENTITY) {
      return { do: 'stop', exitCode: EXIT_STOPPED }
    }
    if (reconnectAfterMs > 0) return wait(Math.min(reconnectAfterMs, DAEMON.goodbyeMaxMs))
    const spread = 1 + random / 2
    if (reason === GoodbyeReason.SUPERSEDED) return wait(SESSION.supersededBackoffMs * spread)
    if (reason === GoodbyeReason.VERSION_UNSUPPORTED) {
      return wait(SESSION.unsupportedBackoffMs * spread)
    }
  }
  // a session that lived has used up its window; a failed try waits for the window's end
  const rest = end.activeMs > 0 ? 0 : Math.max(0, windowMs(n, spreadMs) - sinceWindowMs)
  return { do: 'wait', waitMs: rest, n: next, dial: 'in_window' }
}
