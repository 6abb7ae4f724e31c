// Limits of the logs of services on a server, and of a server's reports about itself. As in limits.ts, every number has
// its reason; times are in milliseconds, sizes in bytes.
import { DAY, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** What services wrote, on the server that runs them. */
export const SERVICE_LOGS = {
  /** Covers a holiday; older lines belong in a log store of the application's choice. */
  keptMs: 14 * DAY,
  /** All services of one environment together. */
  environmentBytes: 500 * MiB,
  /** A part of a day; a full one is closed and compressed. Thirty services stay below the limit above. */
  partBytes: 16 * MiB,
  /** How often past days and full parts are looked for. */
  sweepMs: 10 * MINUTE,
  /** A writer may still use a part that was just closed. */
  quietMs: MINUTE,
  /** One line of a file: 256 KiB of text, each byte escaped as \u0000 at worst. */
  lineBytes: 2 * MiB,
  /** Read from the end of a part to find where its writer stopped; at least one longest line. */
  resumeBytes: 2 * MiB,
  /** A container's stdout and stderr are stamped separately, so a line may be this much older than the one before. */
  skewMs: 2 * SECOND,
  chunkBytes: 64 * KiB,
  /** Concurrent log streams of the engine; further containers are read in turn. */
  followers: 500,
  pollMs: 30 * SECOND,
  /** Delay before a broken log stream is reopened, doubling up to the cap. */
  againMs: SECOND,
  againCapMs: MINUTE,
  /** How long the removal of a container waits for its follower to reach the end. */
  claimMs: 5 * SECOND,
  claimPollMs: 20,
  /** How often containers with logs are looked for, besides the engine's events. */
  lookMs: MINUTE,
  /** How often a live reader checks for new lines. */
  followMs: 250,
  /** How often a reader of all services looks for new ones. */
  relistMs: 2 * SECOND,
  /** Last lines that can be requested, and their memory for one service. */
  tailLines: 10_000,
  tailBytes: 8 * MiB,
  /** Files that an application writes itself (`shared/log/*.log`). */
  ownFiles: 16,
  ownFileBytes: 50 * MiB,
  ownFileMs: 5 * SECOND,
} as const

/** Lines of services sent to the control plane. */
export const LOG_SENDING = {
  streams: 8,
  /** One batch: this many bytes, or this long after its first line. */
  batchBytes: 32 * KiB,
  batchMs: 200,
  /** An empty batch keeps a quiet stream alive. */
  aliveMs: 10 * SECOND,
  followMs: 4 * HOUR,
  /** Lines that a viewer gets by default. */
  lines: 1_000,
} as const

/** Lines of services and requests by pages. */
export const RUNTIME_LOGS = {
  /** Lines of one page at most, and if the reader does not say. */
  lines: 1_000,
  defaultLines: 500,
  searchChars: 200,
  /** An opaque position: the services of an environment, with a few numbers each. */
  cursorChars: 4_000,
  services: 50,
  /** One download; a longer range ends with a sentence that says so. */
  downloadBytes: 100 * MiB,
} as const

/** What a server reports about itself, and what the control plane keeps of it. */
export const USAGE = {
  /** Interval of measurements and reports, the smallest step of the charts. */
  everyMs: MINUTE,
  environments: 200,
  /** One point per minute for a day, one per hour for 30 days, so a server's rows are bounded. */
  minutes: DAY / MINUTE,
  hours: (30 * DAY) / HOUR,
  /** Services of one environment in a report. */
  services: 50,
  /** Minutes of requests in one report; a backlog leaves with the next reports. */
  requestMinutes: 20,
  /** Minutes of requests that wait for a control plane, and the oldest one that it stores. */
  backlogMinutes: (2 * HOUR) / MINUTE,
} as const

/**
 * Upper bounds of the classes in which durations of requests are counted; slower ones have a class of their own. Close
 * enough for a percentile that people can act on.
 */
export const LATENCY_BOUNDS_MS = [
  5, 10, 20, 35, 50, 75, 100, 150, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000,
  30_000,
] as const

/** Points of an environment's metrics: an hour, a day and a week each have at most 168. */
export const METRIC_STEPS = {
  hour: { stepMs: MINUTE, points: HOUR / MINUTE },
  day: { stepMs: 10 * MINUTE, points: DAY / (10 * MINUTE) },
  week: { stepMs: HOUR, points: (7 * DAY) / HOUR },
} as const
export type MetricRange = keyof typeof METRIC_STEPS
