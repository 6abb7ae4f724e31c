// Bounds of what browsers get: ranges of logs, searches in them, downloads, the dashboard's own files. As limits.ts:
// every number with its reason, times in milliseconds, sizes in bytes.
import { KiB, MiB, SECOND } from './units.ts'

/** The dashboard's view of one log. */
export const LOG_PAGES = {
  /** One range of the viewer. */
  lines: 1_000,
  /** A range ends earlier when its lines are this long; the next begins where it ended. */
  bytes: 2 * MiB,
  /** One search reads at most this much and says where to go on: no search holds up everybody else. */
  searchBytes: 32 * MiB,
  /** Lines named by one search; more is asked for from the last one on. */
  matches: 1_000,
  queryChars: 200,
  /** Of a longer line only the beginning is searched. */
  lineBytes: 256 * KiB,
  searchesPerMinute: 120,
} as const

/** One-use links to what a browser downloads. */
export const DOWNLOADS = {
  ticketMs: 60 * SECOND,
  /** Tickets that wait, of everybody together and of one person; the oldest goes first. */
  tickets: 10_000,
  ticketsPerUser: 50,
  /** Downloads of one person at once. */
  atOnce: 20,
} as const

/** The built dashboard, held in memory: a few hundred kilobytes. More is no dashboard of ours. */
export const DASHBOARD = { bytes: 16 * MiB, files: 500 } as const
