// Numbers of maintenance on a server: slots, room on its disks, what is collected and when, how often it looks. Under
// the rule of limits.ts: every number with its reason, times in milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, MINUTE, MiB, SECOND } from './units.ts'

/** Work that is done a few at a time on a server, whoever asks. */
export const SLOTS = {
  /** A build keeps about two cores busy. */
  coresPerBuild: 2,
  /** More pulls at once only share the same line. */
  pulls: 3,
  /** Looks at the line while somebody waits; a holder that died is seen with the next one. */
  pollMs: 200,
} as const

export const DISK_SPACE = {
  /** A deployment may grow over the largest of its last ones by this. */
  growthFactor: 1.5,
  growths: 5,
  /** Free space is looked at this often while something is built, pulled or copied. */
  watchMs: 2 * SECOND,
  /** Below this part of the reserve the step is stopped: there must be room to take back what it made. */
  stopPart: 0.5,
  /** Environments that the sentence about a full disk names. */
  named: 3,
  /** A developer's machine keeps no reserve; below this nothing is built any more. */
  developmentStopBytes: 64 * MiB,
} as const

/** Packet rules. */
export const FIREWALL = {
  /** Somebody emptied the firewall: our rules are back after at most this long. */
  supervisionMs: MINUTE,
  /** Other programs hold iptables' own lock for moments. */
  waitSeconds: 10,
  programMs: 30 * SECOND,
  /** Rules of others in the tables that we look at: some ten thousand. */
  savedBytes: 16 * MiB,
  reasonLength: 200,
  /** Our own processes take turns; each takes milliseconds. */
  turnMs: 60 * SECOND,
  turnPollMs: 5,
} as const

export const MAINTENANCE = {
  /** Folders that everybody may write to are searched for so often, so deep and for so long. */
  searchEveryMs: DAY,
  searchDepth: 6,
  searchMs: 2 * MINUTE,
  /** Running version and those before it that an earlier commit returns to without a build. */
  keptImages: 3,
  /** A volume that the service file does not name any more may be missed. */
  unnamedVolumeMs: 7 * DAY,
  cacheBytes: 10 * GiB,
  cacheAgeMs: 7 * DAY,
  collectMs: HOUR,
  /** Comparison of what runs with what was deployed, beside the engine's events. */
  driftMs: MINUTE,
  /** Who listens on the ports of services. */
  listenersMs: 15 * SECOND,
  /** Events of one moment make one look. */
  eventsMs: 500,
  /** An engine that went away is asked again for its events. */
  eventsAgainMs: 5 * SECOND,
  /** An environment that could not be settled (edge or engine away) is tried again. */
  againMs: 10 * SECOND,
  /** Changes are told at most this often. */
  observedMs: 5 * SECOND,
  /** A service that ends this often within the window is in a crash loop. */
  crashEnds: 3,
  crashWindowMs: 5 * MINUTE,
  /** Containers whose last end is remembered: more than run on a server. */
  rememberedEnds: 2_000,
  /** Environments in one message of a complete set. */
  observedPerMessage: 200,
  /** Environments whose size is told with the server's facts, largest first. */
  factEnvironments: 50,
  /** Measuring the folders of one environment; more files are counted next time. */
  measureMs: 30 * SECOND,
} as const
