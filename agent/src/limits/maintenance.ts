// Intervals and bounds of the rounds on a server. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, MINUTE, SECOND } from '@berth/shared/units'

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
  /** How often replaced services are looked at that still answer requests. */
  drainMs: SECOND,
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

/** Checks of running services. A frozen process is noticed after three looks, in less than 30 s. */
export const HEALTH = {
  tickMs: SECOND,
  /** Start to start: three failures and the time-out of the last one stay below 30 s. */
  everyMs: 7 * SECOND,
  /** A command starts a process in the container, so it runs less often. */
  commandEveryMs: 30 * SECOND,
  /** The least that a file may ask for. */
  leastMs: 5 * SECOND,
  /** A restarted edge soon knows again which replicas to leave out. */
  repeatMs: 15 * SECOND,
  /** Between restarts of a service that stays unhealthy: doubled each time, up to the cap. */
  restartMs: 30 * SECOND,
  restartCapMs: 30 * MINUTE,
  /** Healthy for this long, a service may be restarted at once again. */
  forgetMs: 10 * MINUTE,
  /** To end the processes of a check that takes too long. */
  killMs: 2 * SECOND,
  endPollMs: 100,
} as const

/** Requests of monitoring; every account of the server can open connections. */
export const METRICS = {
  connections: 8,
  requestMs: 10 * SECOND,
} as const

/** An update of the agent. A new version that only hangs is noticed after `activeMs`, one that crashes within seconds. */
export const UPDATES = {
  /** From the switch until the new version has an active session. */
  activeMs: 2 * MINUTE,
  /** It must stay up for this long afterwards. */
  stayMs: MINUTE,
  /** Ends of the new version before it counts as broken; one may be chance. */
  ends: 2,
  /** The service manager has this long to start the daemon again; then the updater does it. */
  restartMs: 10 * SECOND,
  /** For the old or the new daemon to end after SIGTERM. */
  endMs: 20 * SECOND,
  pollMs: 250,
  /** How often the daemon looks for the updater's verdict. */
  verdictMs: SECOND,
  /** To unpack 150 MB on a slow disk. */
  unpackMs: 5 * MINUTE,
  /** No byte for this long ends the download; the next session resumes it. */
  idleMs: 30 * SECOND,
  /** Downloads of one session, and the pause between them. */
  tries: 5,
  againMs: 5 * SECOND,
  /** An unpacked package is up to four times as large as its archive. */
  spaceFactor: 5,
} as const

/** `berth-agent uninstall`. */
export const UNINSTALL = {
  /** The service manager waits for the daemon's end. */
  unitMs: 2 * MINUTE,
  /** A daemon says goodbye and flushes first. */
  daemonMs: 30 * SECOND,
  /** Runners and supervisors; their commands have their own grace. */
  processMs: 10 * SECOND,
  killMs: 5 * SECOND,
  /** Containers that are stopped together. */
  parallel: 10,
  /** A package may wait for the lock of another run. */
  packageMs: 5 * MINUTE,
  /** An answer is a word. */
  answerChars: 100,
  /** Names in one sentence. */
  shownNames: 8,
  /** How deep control groups are searched: slices of slices, and groups of containers. */
  groupDepth: 6,
} as const

/** `berth-agent doctor`. */
export const DOCTOR = {
  /** For each thing on a network. */
  waitMs: 10 * SECOND,
  /** The time of an answer has a precision of a second, and the answer takes time itself. */
  clockMs: 10 * SECOND,
  /** Certificates are valid from this long before they are issued. */
  clockProblemMs: 5 * MINUTE,
  /** Certificates are renewed ten days before; by now that failed often. */
  certificateMs: 5 * DAY,
  /** Below this, a build and its services hardly fit. */
  memoryBytes: GiB,
  /** Of the memory; with less available, the kernel soon ends processes. */
  memoryPart: 0.05,
  diskBytes: 5 * GiB,
  diskProblemBytes: GiB,
  inodes: 10_000,
} as const
