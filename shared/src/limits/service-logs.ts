// Numbers of the logs of services on a server and of what a server tells about itself, under the rule of limits.ts:
// every number with its reason, times in milliseconds, sizes in bytes.
import { DAY, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** What services wrote, on the server that runs them. */
export const SERVICE_LOGS = {
  /** Reaches over a holiday; older lines belong into a log store of the application's choice. */
  keptMs: 14 * DAY,
  /** All services of one environment together. */
  environmentBytes: 500 * MiB,
  /** A part of a day; a full one is set aside and compressed. Thirty services stay below the bound above. */
  partBytes: 16 * MiB,
  /** Past days and full parts are looked for this often. */
  sweepMs: 10 * MINUTE,
  /** A writer may still be at work on a part that was just set aside. */
  quietMs: MINUTE,
  /** One line of a file: 256 KiB of text, each byte escaped as \u0000 at worst. */
  lineBytes: 2 * MiB,
  /** Read from the end of a part to find where its writer stopped; holds at least one longest line. */
  resumeBytes: 2 * MiB,
  /** stdout and stderr of a container are stamped apart: what comes may be older than what came before, by this. */
  skewMs: 2 * SECOND,
  chunkBytes: 64 * KiB,
  /** Streams of the engine that are open at once; containers beyond are read in turn. */
  followers: 500,
  pollMs: 30 * SECOND,
  /** A log stream that broke is opened again after this long, doubling to the cap. */
  againMs: SECOND,
  againCapMs: MINUTE,
  /** Whoever removes a container waits this long for its follower to come to the end. */
  claimMs: 5 * SECOND,
  claimPollMs: 20,
  /** Containers whose log is looked for beside the engine's events. */
  lookMs: MINUTE,
  /** A live reader looks for new lines this often. */
  followMs: 250,
  /** Services that begin to write while somebody reads all of them. */
  relistMs: 2 * SECOND,
  /** Last lines that can be asked for, and what they may take in memory for one service. */
  tailLines: 10_000,
  tailBytes: 8 * MiB,
  /** Files that an application writes itself (`shared/log/*.log`). */
  ownFiles: 16,
  ownFileBytes: 50 * MiB,
  ownFileMs: 5 * SECOND,
} as const

/** Lines of services on their way to the control plane. */
export const LOG_SENDING = {
  streams: 8,
  /** One batch: this many bytes, or this long after its first line. */
  batchBytes: 32 * KiB,
  batchMs: 200,
  /** An empty batch keeps a quiet stream alive. */
  aliveMs: 10 * SECOND,
  followMs: 4 * HOUR,
  /** Lines a viewer gets without asking for more. */
  lines: 1_000,
} as const

/** What a server tells about itself, and what the control plane keeps of it. */
export const USAGE = {
  /** Measured and told this often: the smallest step of the charts. */
  everyMs: MINUTE,
  environments: 200,
  /** One point a minute for a day, one an hour for 30 days: rows of a server never grow beyond. */
  minutes: DAY / MINUTE,
  hours: (30 * DAY) / HOUR,
} as const
