// Limits for browsers: ranges of logs, downloads, live streams, the files of the dashboard. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { DAY, HOUR, KiB, MiB, SECOND } from '@berth/shared/units'

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
  /** Text of found lines in one result, of one line and of all; the viewer cuts a line here too. */
  foundLineChars: 4_000,
  foundChars: 512 * KiB,
  /** Only the beginning of a longer line is searched. */
  lineBytes: 256 * KiB,
  searchesPerMinute: 120,
} as const

/** One-use links for downloads. */
export const DOWNLOADS = {
  ticketMs: 60 * SECOND,
  /** Unused tickets of one user; the oldest is dropped first. */
  ticketsPerUser: 50,
  /** Concurrent downloads of one user at one control plane. */
  atOnce: 20,
} as const

/** Secrets that are shown once, until they are confirmed. */
export const ONE_TIME_SECRETS = {
  /** Long enough for a closed laptop or a walk to another machine. */
  keptMs: HOUR,
  /** Tokens and recovery codes, which their maker needs again when the page was closed too early. */
  ownMs: DAY,
  /** Unconfirmed ones of one person; the oldest is dropped first. */
  perUser: 20,
} as const

/** The first page of the dashboard. */
export const OVERVIEW = {
  /** Deployments in the list of activity. */
  activity: 10,
  /** Projects whose newest deployments are merged; each costs one short read. */
  projects: 50,
  /** Entries of each kind that wait for a person; the pages of the projects have the rest. */
  waiting: 20,
} as const

/** The built dashboard in memory, usually a few hundred kilobytes. Anything larger is not ours. */
export const DASHBOARD = { bytes: 16 * MiB, files: 500 } as const

/** Committed events and logs sent to subscribers. */
export const LIVE = {
  batch: 500,
  /** Rows that one subscriber holds during a backfill while it does not read. */
  backfillBatch: 50,
  /** Queued for one subscriber; above this the rows are read from the table again. */
  subscriberEvents: 1_000,
  /** All waiters in this process: sessions, viewers of logs, dashboards. */
  listeners: 20_000,
  /** How often a reader of a log tells the other control planes that it is there. */
  watchedMs: 5_000,
  keptMs: 7 * DAY,
  /** Events of other processes, and those whose wake-up was lost, arrive this much later. */
  pollMs: SECOND,
  /** A subscriber that missed more events reloads the page instead. */
  backfillEvents: 10_000,
  /** Token, login and membership are checked again; together with a read this stays below the promised 5 s. */
  recheckMs: 4 * SECOND,
  /** Lines and bytes of one message of a log. */
  logLines: 200,
  logBytes: 32 * KiB,
  /** Sockets of this process and of one user, and subscriptions of one socket. */
  sockets: 5_000,
  /** Unauthenticated sockets among them, which must not use up all slots. */
  unknownSockets: 500,
  socketsPerUser: 20,
  subscriptionsPerSocket: 50,
  /** A socket that does not authenticate within this time is closed. */
  helloMs: 10 * SECOND,
  /** Browsers send only names and numbers over a socket. */
  messageBytes: 64 * KiB,
  /** Nothing more is read for a socket with this much in flight... */
  bufferBytes: 64 * KiB,
  /** ...one that reads nothing for this long is closed, and so is one with this much in flight. */
  stallMs: 30 * SECOND,
  bufferedBytes: MiB,
  pingMs: 30 * SECOND,
  /** Time for a proper goodbye at the end of the process. */
  closeMs: SECOND,
  /** Calls in one HTTP request of the dashboard. */
  callsPerRequest: 20,
} as const
