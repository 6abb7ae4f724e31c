// Limits of sshd and of SSH sessions on a server. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, KiB, MINUTE, SECOND } from '@berth/shared/units'

/** Setting up sshd on a server. */
export const SSHD = {
  programMs: 20 * SECOND,
  /** Until it greets again after a reload or a start. */
  greetMs: 5 * SECOND,
  /** A restarted sshd listens again long before. */
  reloadMs: 30 * SECOND,
  reloadPollMs: 20,
  /** One check of its greeting. */
  probeMs: 2 * SECOND,
  loginMs: 20 * SECOND,
  /** Users with a login shell whose configuration is compared before and after. */
  comparedAccounts: 200,
  /** How often everything is checked again, because an administrator or a package may have changed a file. */
  checkMs: DAY,
  supervisionMs: 10 * SECOND,
  renewCheckMs: MINUTE,
  renewRetryMs: 5 * MINUTE,
  probeCertificateSeconds: 60,
  /** A failed set-up is retried, because sshd may have been installed meanwhile. */
  retryMs: HOUR,
} as const

/** Sessions on a server. */
export const SSH_SESSIONS = {
  perUser: 8,
  /** Each is a process of its own that outlives the agent: about 60 MB. */
  perServer: 64,
  requestBytes: 64 * KiB,
  /** A frame between the forced command and the session's process; larger output is split. */
  frameBytes: 256 * KiB,
  /** Unread output above which the source must wait. */
  backlogBytes: 1024 * KiB,
  /** The daemon itself sends files of this total size, without starting a process. */
  shortBytes: 16 * 1024 * KiB,
  /** Concurrent ones; one more gets a process. Each may hold a backlog in the daemon's memory. */
  shortAtOnce: 8,
  /** From the forced command's start to the agent's answer, and from there to its connection. */
  answerMs: 15 * SECOND,
  /** For a client that connects before it has read the list of files. */
  idsMs: MINUTE,
  connectMs: 15 * SECOND,
  /** An idle shell. */
  idleMs: 30 * MINUTE,
  execSeconds: 3_600,
  /** Between SIGTERM and SIGKILL. */
  killMs: 2 * SECOND,
  pollMs: 500,
  argvWords: 256,
  pathBytes: 4_096,
  /** Of one copy, in either direction. */
  copyBytes: 16 * GiB,
  /** To a port of a service. */
  dialMs: 10 * SECOND,
  tailLines: 100_000,
  /** How long ended sessions stay listed. */
  keptMs: 7 * DAY,
} as const
