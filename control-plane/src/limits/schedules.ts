// Limits of actions that run by themselves. Times are in milliseconds.
import { DAY, MINUTE } from '@berth/shared/units'

export const SCHEDULES = {
  /** A run may begin this late: longer than a restart or an upgrade of the control plane takes. */
  lateMs: 5 * MINUTE,
  /** A server that left a moment ago is restarting or upgrading its agent, so its task waits for it. */
  offlineMs: 5 * MINUTE,
  /** Missed runs are counted up to here: each costs about 0.15 ms, and many schedules may be late at once. */
  countedMissed: 100,
  /** Schedules in one round, so that other deadlines do not wait for them. */
  batch: 50,
  /** Rows of the history for each action: more than three months of a daily action. */
  keptRuns: 100,
  keptMs: 90 * DAY,
} as const
