// Limits of the control plane's outbound work: reading repositories, calls to forges, reconcile rounds, reports. As in
// limits.ts, every number has its reason.
import { DAY, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** Reading a repository (`git ls-remote`), and the check that also reads its `.service.yml`. */
export const LOOKS = {
  timeoutMs: 15 * SECOND,
  /** About 100,000 refs; users do not deploy from larger repositories. */
  outputBytes: 10 * MiB,
  errorBytes: 64 * KiB,
  /** git and ssh are two processes each, and the control plane has other work. */
  atOnce: 4,
  /** Reads that wait for a slot; if there are more, those projects become due again anyway. */
  waiting: 200,
  /** Names and trees of one commit, without its files. */
  checkBytes: 64 * MiB,
  /** git holds all refs in memory before it prints the first, so an endless answer is stopped here. */
  memoryBytes: 256 * MiB,
  /** Host keys that are kept for one project; a forge has a few. */
  knownHostsBytes: 64 * KiB,
  /** To resolve a name, before anything is started. */
  resolveMs: 5 * SECOND,
  addresses: 16,
} as const

/** Calls to the API of a forge. */
export const FORGE_API = {
  timeoutMs: 10 * SECOND,
  answerBytes: 8 * MiB,
  pageSize: 50,
  /** 1,000 open pull requests, and comments of one of them; the rest is not read. */
  pages: 20,
  /** Known pull requests that left the list of open ones, queried one by one in a round. */
  closedPerRound: 50,
  tokenLength: 1_000,
  /** Stored length of a pull request's texts. */
  titleCharacters: 500,
  nameCharacters: 200,
  urlCharacters: 2_000,
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

/** POST …/repository_check: each starts git up to three times. */
export const REPOSITORY_CHECKS = { perMinute: 12 } as const
