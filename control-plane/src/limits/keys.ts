// Limits of enrolment, certificates, stored secrets and passwords of environments. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { DAY, HOUR, KiB, MINUTE, MiB } from '@berth/shared/units'

/** Enrolment and certificates of agents. */
export const ENROLMENT = {
  joinTokenMs: 15 * MINUTE,
  /** A lost answer can be requested again with the same key. */
  repeatMs: 10 * MINUTE,
  bodyBytes: 16 * KiB,
  /** A P-256 request is about 300 bytes; the rest is for a subject that is ignored anyway. */
  csrBytes: 4 * KiB,
  certificateMs: 30 * DAY,
  /** The listener's own certificate is issued at every start, so it only has to outlive one. */
  serverCertificateMs: 365 * DAY,
  /** The certificate with which the listener tests itself when it starts. */
  probeCertificateMs: 10 * MINUTE,
  /** Names of the listener; more in one certificate are a mistake. */
  serverNames: 32,
  caMs: 3_650 * DAY,
  /** Clocks of servers run late. */
  backdateMs: 5 * MINUTE,
  /** Renewal happens at a random point from this part of a certificate's lifetime on. */
  renewFrom: 0.5,
  renewTo: 0.8,
  renewAfterExpiryMs: 90 * DAY,
  challengeMs: MINUTE,
  /** Open ones of one certificate, which is no secret: strangers must not evict its agent's. */
  challenges: 200,
} as const

/** Secrets at rest. */
export const SECRET_STORE = {
  kekBytes: 32,
  /** 32 random bytes have about 30 different ones; with fewer than this, a human typed them. */
  kekDistinctBytes: 16,
  /** More than a key file can hold; reading stops here. */
  kekFileBytes: 256,
  /** Larger than every secret (a variable has at most 64 KiB). */
  plainBytes: MiB,
  /** Of each kind per second, so that a rotation stays unnoticeable. */
  rewrittenAtOnce: 50,
  /** Longer than any request that may still write with the previous key. */
  retiredKeptMs: HOUR,
} as const

/** Basic Auth in front of an environment. */
export const BASIC_AUTH = {
  /** The edge pays this for each new visitor: about 60 ms of one core. */
  cost: 10,
  /** Passwords that wait to be hashed, one after the other. */
  waitingHashes: 16,
} as const
