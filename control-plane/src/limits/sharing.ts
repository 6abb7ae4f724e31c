// Limits of what several control planes count and remember together. Every number has its reason; times are in
// milliseconds.
import { MINUTE, SECOND } from '@berth/shared/units'

/** Rate limits on PostgreSQL. */
export const SHARED_LIMITS = {
  /** The default limit is exchanged this often. A control plane learns this late of the others' counts... */
  exchangeMs: 500,
  /** ...but at once when it has counted this part of a limit, so that a burst exceeds the limit by little. */
  unsentShare: 0.1,
  /** A key above its limit is refused without asking the database again for this long. */
  refusedMs: SECOND,
  sweepMs: 30 * SECOND,
  /** Longer than a window by more than clocks of control planes differ. */
  windowMs: 10 * MINUTE,
  /** Windows of all limits; a flood of addresses drops the oldest. About 20 MiB. */
  windows: 100_000,
} as const

/** Codes that work once. */
export const ONE_USE_CODES = {
  /** Of one kind; a flood drops the oldest. */
  kept: 10_000,
} as const

/** Work that one control plane does at a time. */
export const LEASES = {
  /** Renewed three times before it ends. */
  leaseMs: 20 * SECOND,
  renewMs: 5 * SECOND,
  againMs: 500,
  /** Longer than a lease whose control plane was killed. */
  waitMs: 30 * SECOND,
} as const

/** Data keys that another control plane made. Those of values that are read are found at once. */
export const KEY_REFRESH = { everyMs: 10 * SECOND } as const
