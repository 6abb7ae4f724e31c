// Limits for browsers: ranges of logs, searches in them, downloads, the dashboard's own files. As in limits.ts, every
// number has its reason; times are in milliseconds, sizes in bytes.
import { KiB, MiB, SECOND } from './units.ts'

/** The dashboard's view of one log. */
export const LOG_PAGES = {
  /** One range of the viewer. */
  lines: 1_000,
  /** A range ends earlier if its lines are this long; the next one begins there. */
  bytes: 2 * MiB,
  /** One search reads at most this much and returns where to continue, so that it does not block others. */
  searchBytes: 32 * MiB,
  /** Lines in one result; the next search continues after the last one. */
  matches: 1_000,
  queryChars: 200,
  /** Only the beginning of a longer line is searched. */
  lineBytes: 256 * KiB,
  searchesPerMinute: 120,
} as const

/** One-use links for downloads. */
export const DOWNLOADS = {
  ticketMs: 60 * SECOND,
  /** Unused tickets in total and per user; the oldest is dropped first. */
  tickets: 10_000,
  ticketsPerUser: 50,
  /** Concurrent downloads of one user. */
  atOnce: 20,
} as const

/** The built dashboard in memory, usually a few hundred kilobytes. Anything larger is not ours. */
export const DASHBOARD = { bytes: 16 * MiB, files: 500 } as const
