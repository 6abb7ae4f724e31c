// Limits of live updates, mail and alerts. As in limits.ts, every number has its reason; times are in milliseconds,
// sizes in bytes.
import { DAY, GiB, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** Committed events and logs sent to subscribers. */
export const LIVE = {
  batch: 500,
  /** Rows that one subscriber holds during a backfill while it does not read. */
  backfillBatch: 50,
  /** Queued for one subscriber; above this the rows are read from the table again. */
  subscriberEvents: 1_000,
  /** All waiters in this process: sessions, viewers of logs, dashboards. */
  listeners: 20_000,
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

/** Mail. */
export const MAIL = {
  tries: 5,
  /** Between tries: survives a night without the mail server, but never sends a link a day late. */
  backoffMs: [MINUTE, 15 * MINUTE, 2 * HOUR, 12 * HOUR],
  giveUpMs: DAY,
  /** A sender that died holds its mail for this long. */
  leaseMs: 5 * MINUTE,
  batch: 20,
  /** Delay after a lost wake-up, or after a back-off ended. */
  pollMs: 5 * SECOND,
  connectMs: 10 * SECOND,
  sendMs: 60 * SECOND,
  /** Time to finish sending when the process ends; otherwise the mail is sent again. */
  stopMs: 5 * SECOND,
  subjectCharacters: 200,
  addressCharacters: 254,
  errorCharacters: 500,
  /** Mails kept in the folder in development without a mail server. */
  keptFiles: 100,
  /** Rows of mails that were sent or given up. */
  keptMs: 30 * DAY,
} as const

/** When users are notified that the installation needs attention. */
export const ALERTS = {
  everyMs: 15 * SECOND,
  serverOfflineMs: 5 * MINUTE,
  /** Less than a tenth is nearly full, between these two bounds... */
  diskFreePart: 0.1,
  diskFreeMinBytes: GiB,
  diskFreeMaxBytes: 10 * GiB,
  /** ...and this many times as much ends the alert, so that small changes do not repeat it. */
  diskRecovery: 1.5,
  /** A certificate renews at 80 % of its lifetime at the latest; with less than this part left, renewal has failed. */
  certificatePart: 0.15,
  /** Older webhook failures are not reported. */
  deliveryMs: DAY,
  /** Ended episodes are kept for later questions. */
  keptMs: 90 * DAY,
  /** Servers, certificates and deliveries checked together. */
  batch: 500,
} as const
