// Limits of reading logs by pages. Every number has its reason; sizes are in bytes.
import { KiB, MiB } from '@berth/shared/units'

export const LOG_PAGES = {
  /** Lines of one page; a screen shows about fifty. */
  lines: 1_000,
  /** Lines of one page and service in memory; also the size of a page. At least one longest line is sent. */
  bytes: MiB,
  /** Read from the end of a file at once; about a thousand lines. */
  windowBytes: 256 * KiB,
  /** A line that is longer is not one of ours; windows do not grow beyond it. */
  longestBytes: 4 * MiB,
  /** The start of a line, which has its time. */
  headBytes: 64,
  /** Searched for one page, of all services together; then the reader gets what was found and continues. */
  searchBytes: 48 * MiB,
  /** Pages that are read at the same time; each may hold `bytes` for each service. */
  atOnce: 4,
  /** Of a request's path, host and method. */
  pathChars: 2_048,
  hostChars: 255,
  methodChars: 32,
  /** One line of the proxy's log; its longest header line has 1 MiB. */
  requestLineBytes: 2 * MiB,
  /** How often a live reader looks for new requests. */
  requestFollowMs: 500,
  /** Hosts without a route whose last environment is remembered. */
  formerHosts: 1_000,
} as const
