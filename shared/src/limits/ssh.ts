// Limits of SSH certificates, each with its reason.
import { DAY, KiB, SECOND } from './units.ts'

/** SSH certificates and the keys that users submit for them. OpenSSH uses whole seconds. */
export const SSH = {
  /** An RSA key of 8192 bits is a line of 1.5 KiB; anything longer is not a key. */
  lineChars: 8 * KiB,
  /** The longest field of a certificate is the list of extensions with a grant inside. */
  fieldBytes: 16 * KiB,
  certificateBytes: 32 * KiB,
  /** Names of principals and options that one certificate may list. */
  listEntries: 32,
  keyIdChars: 200,
  grantBytes: 4 * KiB,
  rsaMinBits: 3_072,
  rsaMaxBits: 8_192,
  /** The default port of sshd. */
  port: 22,
  ttlSeconds: 300,
  ttlMinSeconds: 60,
  ttlMaxSeconds: 3_600,
  /** Clocks of servers run late. */
  backdateSeconds: 60,
  /** A session outlives its certificate; the grant limits it. */
  logsSessionSeconds: 12 * 3_600,
  artifactSessionSeconds: 3_600,
  shellSessionSeconds: 8 * 3_600,
  forwardSessionSeconds: 8 * 3_600,
  /** Time for a copy of the largest size over a slow line. */
  copySessionSeconds: 3 * 3_600,
  hostCertificateSeconds: 30 * 86_400,
  /** The agent renews its host certificate at this part of its lifetime. */
  hostRenewPart: 2 / 3,
  /** An agent that asks more often than this is in a loop. */
  hostCertificateEveryMs: 5 * SECOND,
  /** Of one list; certificates live for minutes, and a server takes 64 sessions. */
  liveRows: 500,
  /** Two keys overlap in a rotation; the rest is for unfinished ones. */
  authoritiesOpened: 8,
  /** Rows of issued certificates are kept as long as the audit log that names them. */
  keptMs: 400 * DAY,
} as const
