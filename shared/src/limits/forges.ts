// Numbers that bound what the control plane does outside of itself: looks at repositories, calls to repository hosts,
// reconcile, reports. The rest stands in limits.ts, under the same rule: every number with its reason.
import { DAY, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** One look at a repository (`git ls-remote`) and the check that also reads its `.service.yml`. */
export const LOOKS = {
  timeoutMs: 15 * SECOND,
  /** About 100,000 refs; more is no repository that people deploy from. */
  outputBytes: 10 * MiB,
  errorBytes: 64 * KiB,
  /** git and ssh are two processes each; the control plane has other work too. */
  atOnce: 4,
  /** Looks that wait for a place; more than that many projects are due again anyway. */
  waiting: 200,
  /** Names and trees of one commit, without its files. */
  checkBytes: 64 * MiB,
  /** git holds all refs in memory before it prints the first: a host that sends for ever is stopped here. */
  memoryBytes: 256 * MiB,
  /** Host keys of one project that are kept: one host has a few. */
  knownHostsBytes: 64 * KiB,
  /** Time for a name to be resolved, before anything is started. */
  resolveMs: 5 * SECOND,
  addresses: 16,
} as const

/** Calls to the API of a repository host. */
export const HOST_API = {
  timeoutMs: 10 * SECOND,
  answerBytes: 8 * MiB,
  pageSize: 50,
  /** 1,000 open pull requests, and comments of one of them; what is beyond is not looked at. */
  pages: 20,
  /** Known pull requests that left the list of open ones, asked one by one in a round. */
  closedPerRound: 50,
  tokenLength: 1_000,
  /** What is kept of a pull request's texts. */
  titleCharacters: 500,
  nameCharacters: 200,
  urlCharacters: 2_000,
} as const

/** Reconcile. */
export const RECONCILE = {
  everyMs: 5 * MINUTE,
  /** Part of the interval by which rounds of different projects are spread. */
  jitter: 0.2,
  /** After a server came back; one that comes and goes makes one round in this time. */
  afterReturnMs: 10 * SECOND,
  /** After a start, and for a new project: spread over this time. */
  afterStartMs: 30 * SECOND,
  /** A person may ask once in this time. */
  askedMs: MINUTE,
  /** The branch of an open pull request must be gone in two rounds this far apart. */
  goneMs: 10 * MINUTE,
  presumedMs: DAY,
  dueAtOnce: 20,
  tickMs: SECOND,
} as const

/** Commit statuses and comments on their way to a repository host. */
export const HOST_REPORTS = {
  dueAtOnce: 50,
  /** Waiting reports of one project: the newest status of each commit, so this many commits. */
  perProject: 500,
  tries: 10,
  backoffMs: 15 * SECOND,
  backoffCapMs: HOUR,
  /** A sender that died holds a report this long. */
  claimMs: 2 * MINUTE,
  keptMs: 7 * DAY,
  /** The shortest of the hosts' limits. */
  descriptionCharacters: 140,
} as const

/** POST …/repository_check: each starts git up to three times. */
export const REPOSITORY_CHECKS = { perMinute: 12 } as const
