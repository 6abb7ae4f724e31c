// Bounds of what goes out by itself: live updates, mail, alerts. As limits.ts: every number with its reason, times in
// milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** Committed events and logs on their way to subscribers. */
export const LIVE = {
  batch: 500,
  /** Of one subscriber that catches up: what it holds while it does not read. */
  backfillBatch: 50,
  /** Waiting for one subscriber; beyond it the rows are read from the table again. */
  subscriberEvents: 1_000,
  /** Everybody who waits for anything in this process: sessions, viewers of logs, dashboards. */
  listeners: 20_000,
  keptMs: 7 * DAY,
  /** Events of other processes, and those whose wake-up was lost, are seen this much later. */
  pollMs: SECOND,
  /** Who was away for longer than this many events loads the page anew instead. */
  backfillEvents: 10_000,
  /** Token, session and membership are looked at again: together with a read under the promised 5 s. */
  recheckMs: 4 * SECOND,
  /** Lines and bytes of one message of a log. */
  logLines: 200,
  logBytes: 32 * KiB,
  /** Sockets of this process, of one person, and subscriptions of one socket. */
  sockets: 5_000,
  /** Of those, sockets that have not said yet who they are: they must not take everybody's place. */
  unknownSockets: 500,
  socketsPerUser: 20,
  subscriptionsPerSocket: 50,
  /** A socket that does not say who it is goes. */
  helloMs: 10 * SECOND,
  /** What a browser sends us over a socket are names and numbers. */
  messageBytes: 64 * KiB,
  /** Nothing more is read for a socket that has this much under way... */
  bufferBytes: 64 * KiB,
  /** ...one that reads nothing for this long is closed, and so is one that has this much under way. */
  stallMs: 30 * SECOND,
  bufferedBytes: MiB,
  pingMs: 30 * SECOND,
  /** At the end of the process: time for a proper goodbye. */
  closeMs: SECOND,
  /** Calls in one HTTP request of the dashboard. */
  callsPerRequest: 20,
} as const

/** Mail. */
export const MAIL = {
  tries: 5,
  /** Between the tries: a mail server that is down for a night is waited for, and no link is sent a day late. */
  backoffMs: [MINUTE, 15 * MINUTE, 2 * HOUR, 12 * HOUR],
  giveUpMs: DAY,
  /** A sender that died holds its mail for this long. */
  leaseMs: 5 * MINUTE,
  batch: 20,
  /** A lost wake-up and a back-off that ended are seen this much later. */
  pollMs: 5 * SECOND,
  connectMs: 10 * SECOND,
  sendMs: 60 * SECOND,
  /** What is being sent when the process ends gets this long; it is sent again otherwise. */
  stopMs: 5 * SECOND,
  subjectCharacters: 200,
  addressCharacters: 254,
  errorCharacters: 500,
  /** Development without a mail server: so many letters stay in the folder. */
  keptFiles: 100,
  /** Rows of what was sent or given up. */
  keptMs: 30 * DAY,
} as const

/** When people are told that something of the installation needs them. */
export const ALERTS = {
  everyMs: 15 * SECOND,
  serverOfflineMs: 5 * MINUTE,
  /** Less than a tenth is nearly full, but never less than the one and never more than the other... */
  diskFreePart: 0.1,
  diskFreeMinBytes: GiB,
  diskFreeMaxBytes: 10 * GiB,
  /** ...and this many times as much is fine again, so that one file more or less is no news. */
  diskRecovery: 1.5,
  /** A certificate renews at 80 % of its life at the latest: less than this part left means that it does not. */
  certificatePart: 0.15,
  /** Webhooks that failed longer ago are no news. */
  deliveryMs: DAY,
  /** Ended episodes are kept for people who ask what happened. */
  keptMs: 90 * DAY,
  /** Servers, certificates and deliveries looked at together. */
  batch: 500,
} as const
