// Limits on a server that others must know: steps, claims, transfers, the daemon. As in limits.ts, every number has its reason; times are in
// milliseconds, sizes in bytes.
import { GiB, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** Steps of the recipes on a server. */
export const STEPS = {
  fetchMs: 10 * MINUTE,
  repositoryBytes: 2 * GiB,
  repositoryFiles: 200_000,
  connectMs: 15 * SECOND,
  keptReleases: 3,
  terminalColumns: 120,
  terminalRows: 40,
  outputTailLines: 50,
  healthIntervalMs: SECOND,
  healthTimeoutMs: 5 * SECOND,
  healthStartMs: 60 * SECOND,
  healthRetries: 3,
  healthFastMs: 25,
  /** Checks for the holder of a socket; a single one may miss it. */
  heldLooks: 5,
  /** Small programs answer within milliseconds of their start, so the first checks are even more frequent. */
  healthFirstMs: 10,
  healthFirstForMs: 250,
  /** Part of an unexpected answer shown in the message. */
  healthBodyBytes: 500,
  healthFastForMs: 2 * SECOND,
  /** A program that does not answer for this long is looked at: it may listen elsewhere. */
  healthExplainMs: 3 * SECOND,
  stayedUpMs: 3 * SECOND,
  stopTimeoutMs: 10 * SECOND,
  /** For the open requests of a version that was replaced. */
  drainMs: 30 * SECOND,
  restartMs: SECOND,
  restartCapMs: 60 * SECOND,
  restartResetMs: 60 * SECOND,
  portFrom: 20_000,
  portTo: 29_999,
  reserveBytesMin: 2 * GiB,
  reserveBytesMax: 10 * GiB,
  reservePart: 0.05,
  firstDeploymentBytes: 2 * GiB,
  deploymentBytes: 512 * MiB,
} as const

/** Addresses of repositories; anything longer is not one. */
export const REPOSITORY = {
  urlLength: 2_000,
  refLength: 250,
  knownHosts: 100,
  knownHostLength: 8 * KiB,
  /** First a shallow fetch, then a deep one, for a commit that its forge does not serve by hash. */
  depths: [50, 1_000],
  /** Error output of git that is kept to find the cause. */
  errorBytes: 64 * KiB,
  /** List of files of a commit: 200,000 names of usual length. */
  listBytes: 64 * MiB,
  /** Packs that may accumulate before the repository of an environment is repacked. */
  packs: 20,
  /** Objects outside packs; each deployment may add a hundred. */
  looseObjects: 5_000,
} as const

/** Claims of hostnames from a runner through the daemon to the control plane. */
export const HOST_CLAIMS = {
  /** The most that one call may name. */
  hosts: 64,
  /** Per environment, so that failed deployments with different names do not accumulate them forever. */
  perEnvironment: 200,
  /** A new name waits this long for an unreachable control plane; a redeployment needs no claim. */
  waitMs: 10 * MINUTE,
  /** After this the log says what it waits for. */
  quietMs: 2 * SECOND,
  /** How often the runner checks for its answer, and the daemon for requests. */
  pollMs: 50,
  /** A failed call is retried after this. */
  retryMs: SECOND,
  /** Stored part of a message of the control plane. */
  messageLength: 500,
} as const

/** What is kept of a process that could not begin an attempt. */
export const NOT_STARTED = {
  outputBytes: 32 * KiB,
  lines: 200,
  lineCharacters: 2_000,
  /** The line of its output that appears in the failure's message. */
  saidCharacters: 300,
} as const

/** The agent's daemon on one server. */
export const DAEMON = {
  /**
   * Delay before the next runner is started in advance: a small build is over by then. Without the delay, that build
   * would lose a third of a second on a small server.
   */
  warmAfterMs: 2 * SECOND,
  /** A runner without an attempt is kept this long; after that an idle agent costs nothing. */
  warmForMs: 10 * MINUTE,
  /** How often files of runners are checked without a hint. */
  pollMs: 250,
  /** Hints within this time cause one check. */
  hintMs: 5,
  /** A spawned runner that has not taken its claim by then never will, and loses it. */
  claimMs: 30 * SECOND,
  /** Acknowledged events are deleted and log cursors saved lazily, because the control plane repeats both. */
  sweepMs: SECOND,
  /** The longest outage after a killed supervisor, or after a runner died while it paused a version. */
  servicesMs: 5 * SECOND,
  /** While a user watches a log, chunks are sent at most this late after their bytes were written. */
  watchedSendMs: 50,
  /** Assignments of one complete set that are held in memory until its last message. */
  assignmentsPerSet: 2_000,
  /** Interactive requests. */
  requestsInFlight: 32,
  requestMs: 10 * SECOND,
  requestKeptMs: MINUTE,
  requestsKept: 256,
  /** One check of a part of the machine (`git --version`, the engine's version). */
  probeMs: 2 * SECOND,
  probeBytes: 16 * KiB,
  factsMs: MINUTE,
  /** REST calls of join and renewal. */
  enrolMs: 20 * SECOND,
  enrolTries: 3,
  enrolAnswerBytes: 64 * KiB,
  renewRetryMs: 10 * MINUTE,
  /** Former identities that stay on disk beside the current one. */
  keptGenerations: 2,
  /** The control plane may choose intervals between these. */
  intervalMinMs: 50,
  intervalMaxMs: 5 * MINUTE,
  goodbyeMaxMs: HOUR,
  /** Time to flush our Goodbye before the stream is cut. */
  goodbyeMs: 500,
} as const

/** Bytes from an agent through the control plane to a reader: files, output of services. */
export const TRANSFERS = {
  /** Concurrent ones of one agent; one more is refused. */
  files: 4,
  logStreams: 16,
  firstFrameMs: 10 * SECOND,
  /** Without a frame, and without a read of what arrived. */
  idleMs: 30 * SECOND,
  /** Received but unread; above this the stream is paused. */
  queueBytes: MiB,
  /** Each costs a turn of both event loops; four fill the queue. */
  frameBytes: 256 * KiB,
  /** The agent's second connection is closed after this long without a transfer. */
  connectionIdleMs: 60 * SECOND,
  /** From this size on a transfer gets its own connection without HTTP/2, which saves more than the handshake costs. */
  lineFromBytes: 4 * MiB,
  /** To open one; then HTTP/2 is used. Less than `firstFrameMs`, which keeps running. */
  lineDialMs: 3 * SECOND,
  /** Of one record with bytes, and with a message. */
  lineRecordBytes: MiB,
  lineMessageBytes: 16 * KiB,
} as const

/** Files that an action leaves for users to fetch. */
export const ARTIFACTS = {
  /** Per task; the first by name are offered. */
  files: 1_000,
  bytes: 5 * GiB,
  /** Per event. */
  perEvent: 200,
  perEventBytes: 32 * KiB,
  pathBytes: 1_024,
  /** Expansions of the braces of one pattern. */
  alternatives: 1_000,
  /** Directory entries to read, so that a million files do not delay the runner. */
  entries: 200_000,
  depth: 64,
  /** Skipped files that the log names; the others are counted. */
  skippedNamed: 20,
  /** Read size for a large file, because each read costs a turn of two threads. */
  readBytes: MiB,
  /** Small files are passed on in chunks of this size. */
  pieceBytes: 256 * KiB,
  /** Up to this size a file is read in one go, and shares a chunk with others. */
  smallBytes: 64 * KiB,
  /** Copies that are synced to disk concurrently. */
  syncs: 16,
  /** A container's files come in one stream; this limits the unwanted bytes that are skipped in total. */
  passedBytes: 8 * GiB,
  /** Skipped bytes of a matching file beyond the limits; what follows it is mostly beyond them too. */
  passedFileBytes: 64 * MiB,
  /** Left free on the disk of the store, so that the agent can continue. */
  spareBytes: 512 * MiB,
  /** A folder of the store without a record is an unfinished copy after this, because no task takes longer. */
  unfinishedMs: 12 * HOUR,
  /** The longest retention that a file may request. */
  retentionMaxMs: 90 * 24 * HOUR,
  /** Records outlive their files this long, so that a request learns that a file expired. */
  rememberedMs: 30 * 24 * HOUR,
  /** One frame from the child that reads the files. */
  frameBytes: 256 * KiB,
} as const
