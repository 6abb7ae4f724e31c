// Limits of notifications and of the public stream of events. Every number has its reason; times are in milliseconds,
// sizes in bytes.
import { DAY, HOUR, KiB, MINUTE, SECOND } from '@berth/shared/units'

export const NOTICES = {
  /** After each failure in a row: about a day together, so a receiver may be down over night. */
  backoffMs: [
    5 * SECOND,
    30 * SECOND,
    2 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    4 * HOUR,
    8 * HOUR,
    8 * HOUR,
  ],
  /** A receiver that refuses one notification (4xx) gets it this often; the next ones wait meanwhile. */
  refusedTries: 4,
  /** So many refused ones in a row, and the channel is broken. */
  refusedInRow: 5,
  /** What a receiver may ask for with Retry-After; longer would hold the ones behind it for too long. */
  retryAfterMs: HOUR,
  /** Channels and addresses that are sent to concurrently. */
  lanes: 20,
  /** Waiting notifications of one channel; the oldest above this are skipped. */
  waiting: 1_000,
  /** How often the outbox is read without a wake-up. */
  pollMs: SECOND,
  /** For the sends in progress when the process ends; they are sent again under the same id. */
  stopMs: 2 * SECOND,
  /** One request to a receiver, all in all. */
  requestMs: 10 * SECOND,
  /** Read of an answer; the rest is not waited for. */
  answerBytes: KiB,
  answerCharacters: 200,
  errorCharacters: 300,
  /** Rows of the ledger, by age and by channel. */
  keptMs: 30 * DAY,
  keptPerChannel: 2_000,
  /** Both secrets of a webhook sign for this long after a rotation. */
  previousSecretMs: DAY,
  secretBytes: 24,
  /** Of one text from a repository or a log: a line, a commit's subject, a reason. */
  textCharacters: 300,
  /** Between two tests of a channel, because each may send many mails. */
  testMs: 5 * SECOND,
  /** A server that is away for a moment does not make a deployment wait. */
  offlineMs: MINUTE,
} as const

/** `GET /api/events`. */
export const EVENT_STREAMS = {
  /** Of one user, and of this process. */
  perUser: 20,
  most: 1_000,
  /** A comment that keeps proxies from closing an idle stream. */
  heartbeatMs: 15 * SECOND,
} as const
