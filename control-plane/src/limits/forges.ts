// Limits of webhooks, and of requests to forges. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { DAY, HOUR, KiB, MINUTE, MiB, SECOND } from '@berth/shared/units'

/** Webhooks of forges, and the pull requests that they report. */
export const WEBHOOKS = {
  /** GitHub's own limit. */
  bodyBytes: 25 * MiB,
  /** Larger bodies are counted while they are in memory. */
  largeBytes: MiB,
  largeAtOnce: 16,
  /** Wrong signatures from one address to one project; more are refused before the body is read. */
  failuresPerMinute: 100,
  /**
   * Wrong signatures in total; above this, only addresses with a recent valid signature are served for the rest of the
   * second.
   */
  failuresPerSecond: 100,
  knownAddressMs: DAY,
  /** GitLab's signed time may differ this much from ours. */
  timestampMs: 5 * MINUTE,
  /** Forges wait 5 to 10 s; the answer stays well below. */
  answerMs: SECOND,
  /** When an undecided row is retried, by the number of tries so far. */
  retryMs: [2 * SECOND, 2 * SECOND, 10 * SECOND],
  tries: 3,
  /** Undecided rows per tick. */
  batch: 20,
  duplicateMs: 7 * DAY,
  /** An event from the future would make every later one stale. */
  aheadMs: MINUTE,
  /** A first event about an unknown pull request this late: it may be closed by now, so its branch is read first. */
  lateMs: 10 * MINUTE,
  /** Reads per try, if the branch changes meanwhile. */
  looks: 3,
  reconcileMs: 30 * SECOND,
  keptMs: 30 * DAY,
  keptPerProject: 5_000,
  keptBodyMs: 7 * DAY,
  keptBodyBytes: 256 * KiB,
  refusedKept: 20,
  /** Projects whose rejected attempts wait in memory to be written. */
  refusedProjects: 1_000,
  /** Refs of one push that are processed; more are an import, which a reconcile round sees. */
  changes: 1_000,
  /** Changed paths of one push; more are not compared, so it is deployed. */
  paths: 3_000,
  pathCharacters: 4_096,
  titleCharacters: 500,
  messageCharacters: 2_000,
  nameCharacters: 200,
  urlCharacters: 2_000,
  /** Waiting pull requests that are checked for one freed slot. */
  waiting: 1_000,
} as const

/** The secret with which a project authenticates its forge. */
export const WEBHOOK_SECRETS = {
  bytes: 32,
  /** Time to enter the new one at the forge; a delivery with it ends the former immediately. */
  previousMs: DAY,
} as const

/** Globs of a project's settings. */
export const GLOBS = {
  patterns: 50,
  characters: 256,
  /** Expansions of the braces of one pattern. */
  alternatives: 32,
  /** Comparisons per match: some milliseconds for any pattern and name. */
  steps: 2_000_000,
} as const

/** Reconcile rounds. */
export const RECONCILE = {
  everyMs: 5 * MINUTE,
  /** Part of the interval over which rounds of different projects are spread. */
  jitter: 0.2,
  /** Delay after a server returned; a flapping server causes one round in this time. */
  afterReturnMs: 10 * SECOND,
  /** After a start, and for a new project, rounds are spread over this time. */
  afterStartMs: 30 * SECOND,
  /** A user may ask once in this time. */
  askedMs: MINUTE,
  /** The branch of an open pull request must be missing in two rounds this far apart. */
  goneMs: 10 * MINUTE,
  presumedMs: DAY,
  dueAtOnce: 20,
  tickMs: SECOND,
} as const

/** Commit statuses and comments to be sent to a forge. */
export const COMMIT_STATUSES = {
  dueAtOnce: 50,
  /** Pending reports of one project: the newest status of each commit, so this many commits. */
  perProject: 500,
  tries: 10,
  backoffMs: 15 * SECOND,
  backoffCapMs: HOUR,
  /** A sender that died holds a report this long. */
  claimMs: 2 * MINUTE,
  keptMs: 7 * DAY,
  /** The shortest limit of all forges. */
  descriptionCharacters: 140,
} as const

/** Connections to forges. */
export const FORGE_CONNECTIONS = {
  /** One for each forge and team; every token is one more secret to look after. */
  perOrganization: 50,
  /** Requests of one user that make calls to a forge. */
  callsPerMinute: 30,
  /** How long a request waits for the delivery that it asked the forge for; below the deadline of requests. */
  deliveryMs: 10 * SECOND,
  /** A look at the database while it waits, in case another replica received the delivery. */
  lookMs: 500,
  checkEveryMs: DAY,
  /** Part of a day over which the checks of different projects are spread. */
  jitter: 0.2,
  /** When a check could not reach the forge; an outage is not a broken connection. */
  retryMs: HOUR,
  dueAtOnce: 5,
  /** A process that died holds a row this long. */
  claimMs: 5 * MINUTE,
  removalTries: 8,
  removalBackoffMs: 5 * MINUTE,
} as const

/** POST …/repository_check: each starts git up to three times. */
export const REPOSITORY_CHECKS = { perMinute: 12 } as const

/** Looks at the names of a project's environments. */
export const DOMAIN_CHECKS = {
  /** Names of one project; a project has at most 20 environments by default, with a few names each. */
  hosts: 60,
  atOnce: 6,
  /** A server that is there answers within a second. */
  handshakeMs: 5 * SECOND,
  /** Results of all projects; the oldest go first. */
  kept: 5_000,
} as const
