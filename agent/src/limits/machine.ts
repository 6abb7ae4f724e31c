// Limits of processes, masking, slots, disk space and packet rules. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { KiB, MINUTE, MiB, SECOND } from '@berth/shared/units'

/** Processes of commands and services on a server. */
export const PROCESSES = {
  /** Berth's own tools (useradd, git on local files) answer immediately, or something is wrong. */
  programMs: 30 * SECOND,
  programBytes: MiB,
  /** A release may hold 200,000 files on a slow disk. */
  removeMs: 10 * MINUTE,
  /** The search for files that an application wrote delays a deployment; a large release is searched in part. */
  writtenFilesMs: 5 * SECOND,
  writtenFilesBytes: 64 * KiB,
  /** After a process ended, the kernel holds less than 128 KiB of its terminal. */
  drainBytes: MiB,
  /** Pipes that another process keeps open after the end are read this much longer. */
  drainMs: 500,
  /** How often the stop file and processes that should end are checked. */
  stopPollMs: SECOND,
  endPollMs: 20,
  /** How often a command that wants to be activated before its end is checked. */
  activatePollMs: 100,
  /** SIGKILL is repeated until no process is left, because a tree may fork while it is being killed. */
  killRounds: 250,
  freezeMs: 2 * SECOND,
  serviceMemoryBytes: 512 * MiB,
  serviceCpus: 1,
  pids: 512,
  /** A supervisor's time to answer, beyond the time its service may take to stop. */
  supervisorMs: 10 * SECOND,
  /** It starts in a fraction of a second, but a server may be busy with builds. */
  supervisorStartMs: MINUTE,
  supervisorLogChars: 2_000,
  /** How long a new supervisor waits for the former one to end. */
  supervisorTurnMs: 3 * SECOND,
  /** Between the end of one deployment's process and the start of the next one, so that it need not start again. */
  supervisorIdleMs: 10 * SECOND,
  /** A request names one folder. */
  requestChars: 16 * KiB,
  serviceLineBytes: 256 * KiB,
  serviceLogBytes: 50 * MiB,
  /** Read from the end of a log for the last lines of a service. */
  serviceTailBytes: 256 * KiB,
  /** A command that failed with less free disk space than this failed because of it. */
  fullBytes: 4 * MiB,
  secretsBytes: MiB,
  secretsMs: 30 * SECOND,
  accountTries: 20,
  inodes: 50_000,
} as const

/** Masking of secret values in output. */
export const MASKING = {
  /** Shorter values would mask half of every log. */
  valueBytes: 6,
  lineBytes: 8,
  patterns: 20_000,
  /** Bytes of all patterns together: one automaton state each, about 20 bytes of memory. */
  patternsBytes: 4 * MiB,
  /** A colour code inside a value is skipped up to this length; longer ones are not colour codes. */
  sgrBytes: 64,
  /** A value with colour codes inside is followed this far, which bounds what is held back. */
  spanBytes: MiB,
} as const

/** Work with limited concurrency on a server, across all processes. */
export const SLOTS = {
  /** Memory of a runner that waits for a build slot, and the part of the server's memory for all of them. */
  runnerBytes: 80 * MiB,
  buildersPart: 1 / 16,
  buildersMin: 4,
  /** More concurrent pulls only share the same connection. */
  pulls: 3,
  /** How often a waiting process checks the queue; a dead holder is noticed at the next check. */
  pollMs: 200,
} as const

export const DISK_SPACE = {
  /** A deployment may need this factor of the largest recent one. */
  growthFactor: 1.5,
  growths: 5,
  /** How often free space is checked while something is built, pulled or copied. */
  watchMs: 2 * SECOND,
  /** Below this part of the reserve the step is stopped, so that there is space to undo it. */
  stopPart: 0.5,
  /** Environments named in the message about a full disk. */
  named: 3,
  /** A developer's machine keeps no reserve; below this nothing is built. */
  developmentStopBytes: 64 * MiB,
} as const

/** Packet rules. */
export const FIREWALL = {
  /** After another program emptied the firewall, our rules are back within this time. */
  supervisionMs: MINUTE,
  /** Other programs hold iptables' own lock for moments. */
  waitSeconds: 10,
  programMs: 30 * SECOND,
  /** Rules of other programs in the tables that we read: some ten thousand. */
  savedBytes: 16 * MiB,
  reasonLength: 200,
  /** Our own processes take turns; each takes milliseconds. */
  turnMs: 60 * SECOND,
  turnPollMs: 5,
} as const
