// Limits of reading repositories and of calls to forges. As in limits.ts, every number has its reason.
import { KiB, MiB, SECOND } from './units.ts'

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
  /** The newest commits of a branch, to find the one that a short SHA names. About 200 KiB each 1,000. */
  commits: 2_000,
  /** Commits and branches that a page offers to choose from. */
  offeredCommits: 30,
  offeredBranches: 200,
  /** Names of the files that differ between two commits: about 10,000, of which a page shows the first. */
  differenceBytes: MiB,
  shownFiles: 200,
  /** Differences that the control plane remembers; two commits never differ in another way later. */
  differences: 200,
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
  /** Pages of repositories that one search reads where the forge cannot search by itself. */
  searchPages: 10,
  /** Known pull requests that left the list of open ones, queried one by one in a round. */
  closedPerRound: 50,
  tokenLength: 1_000,
  /** Stored length of a pull request's texts. */
  titleCharacters: 500,
  nameCharacters: 200,
  urlCharacters: 2_000,
} as const
