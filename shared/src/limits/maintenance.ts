// Limits of maintenance on a server: slots, disk space, garbage collection, intervals of checks. As in limits.ts, every
// number has its reason; times are in milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, MINUTE, MiB, SECOND } from './units.ts'

/** Work with limited concurrency on a server, across all processes. */
export const SLOTS = {
  /** A build keeps about two cores busy. */
  coresPerBuild: 2,
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

export const MAINTENANCE = {
  /** How often, how deep and how long world-writable folders are searched for. */
  searchEveryMs: DAY,
  searchDepth: 6,
  searchMs: 2 * MINUTE,
  /** The running version and earlier ones, so that returning to an earlier commit needs no build. */
  keptImages: 3,
  /** A volume that the service file no longer names may still be wanted. */
  unnamedVolumeMs: 7 * DAY,
  cacheBytes: 10 * GiB,
  cacheAgeMs: 7 * DAY,
  collectMs: HOUR,
  /** How often what runs is compared with what was deployed, besides the engine's events. */
  driftMs: MINUTE,
  /** How often listeners on the ports of services are checked. */
  listenersMs: 15 * SECOND,
  /** Events within this time cause one check. */
  eventsMs: 500,
  /** Delay before the events of a lost engine are requested again. */
  eventsAgainMs: 5 * SECOND,
  /** Delay before the recovery of an environment is retried (edge or engine unreachable). */
  againMs: 10 * SECOND,
  /** Changes are reported at most this often. */
  observedMs: 5 * SECOND,
  /** A service that exits this often within the window is in a crash loop. */
  crashEnds: 3,
  crashWindowMs: 5 * MINUTE,
  /** Containers whose last exit is remembered; more than run on a server. */
  rememberedEnds: 2_000,
  /** Environments in one message of a complete set. */
  observedPerMessage: 200,
  /** Environments whose size is reported with the server's facts, largest first. */
  factEnvironments: 50,
  /** To measure the folders of one environment; the rest is counted next time. */
  measureMs: 30 * SECOND,
} as const
