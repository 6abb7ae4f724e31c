// Limits on a server: steps, processes, masking, the daemon. As in limits.ts, every number has its reason; times are in
// milliseconds, sizes in bytes.
import { GiB, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** Masking of secret values in output. */
export const MASKING = {
  /** Shorter values would mask half of every log. */
  valueBytes: 6,
  lineBytes: 8,
  patterns: 20_000,
  /** Bytes of all patterns together: one automaton state each, about 20 bytes of memory. */
  patternsBytes: 4 * MiB,
  /** A colour code inside a value is skipped up to this length; longer ones are not colour codes. */
  sgrBytes: 64,
  /** A value with colour codes inside is followed this far, which bounds what is held back. */
  spanBytes: MiB,
} as const

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
  stayedUpMs: 3 * SECOND,
  stopTimeoutMs: 10 * SECOND,
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

/** Processes of commands and services on a server. */
export const PROCESSES = {
  /** Berth's own tools (useradd, git on local files) answer immediately, or something is wrong. */
  programMs: 30 * SECOND,
  programBytes: MiB,
  /** A release may hold 200,000 files on a slow disk. */
  removeMs: 10 * MINUTE,
  /** After a process ended, the kernel holds less than 128 KiB of its terminal. */
  drainBytes: MiB,
  /** Pipes that another process keeps open after the end are read this much longer. */
  drainMs: 500,
  /** How often the stop file and processes that should end are checked. */
  stopPollMs: SECOND,
  endPollMs: 20,
  /** How often a command that wants to be activated before its end is checked. */
  activatePollMs: 100,
  /** SIGKILL is repeated until no process is left, because a tree may fork while it is being killed. */
  killRounds: 250,
  freezeMs: 2 * SECOND,
  stepMemoryBytes: 2 * GiB,
  stepCpus: 2,
  serviceMemoryBytes: 512 * MiB,
  serviceCpus: 1,
  pids: 512,
  /** A supervisor's time to answer, beyond the time its service may take to stop. */
  supervisorMs: 10 * SECOND,
  /** It starts in a fraction of a second, but a server may be busy with builds. */
  supervisorStartMs: MINUTE,
  supervisorLogChars: 2_000,
  serviceLineBytes: 256 * KiB,
  serviceLogBytes: 50 * MiB,
  /** Read from the end of a log for the last lines of a service. */
  serviceTailBytes: 256 * KiB,
  /** A command that failed with less free disk space than this failed because of it. */
  fullBytes: 4 * MiB,
  secretsBytes: MiB,
  secretsMs: 30 * SECOND,
  accountTries: 20,
  inodes: 50_000,
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
  /** Concurrent attempts of different environments, even on a single processor. */
  parallelMin: 2,
  /** Time to flush our Goodbye before the stream is cut. */
  goodbyeMs: 500,
} as const

/** Bytes from an agent through the control plane to a reader: files, output of services. */
export const TRANSFERS = {
  /** Concurrent ones of one agent; one more is refused. */
  files: 4,
  logStreams: 8,
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

/** Steps of the docker recipe. */
export const DOCKER_STEPS = {
  /** Containers of one deployment that are started concurrently. */
  parallel: 4,
  buildMs: 30 * MINUTE,
  pullMs: 30 * MINUTE,
  releaseMs: 15 * MINUTE,
  /** Lines of a failed build or service in the message; the output has more. */
  messageLines: 5,
  messageLineLength: 300,
} as const

/** Steps of both recipes that move requests to a version. */
export const ROUTE_STEPS = {
  /** How long to wait for a proxy that is just starting; a missing one is reported immediately. */
  proxyWaitMs: 10 * SECOND,
  /** Least and longest drain of the old version after the switch, for requests in flight. */
  drainMinMs: 2 * SECOND,
  drainMaxMs: 30 * SECOND,
  drainPollMs: 100,
  /** One handshake; a certificate may be issued just then. */
  handshakeMs: 5 * SECOND,
  probeMs: 10 * SECOND,
} as const

/** Copies of static roots. */
export const STATIC = {
  bytes: 2 * GiB,
  files: 100_000,
  /** Real sites are less deep; each level holds a descriptor open. */
  depth: 64,
  /** The longest path that the system allows. */
  pathLength: 4_096,
  /** A whole copy of that size on a slow disk. */
  copyMs: 10 * MINUTE,
  /** Size of one read and write. */
  chunkBytes: 256 * KiB,
} as const

/** The edge and Caddy on one server. */
export const PROXY = {
  /**
   * How long Caddy caches an answer of the name server: every switch waits for it, every busy hostname is looked up
   * this often.
   */
  refreshMs: 200,
  /** After a switch: the refresh, plus a margin for lookups in flight. */
  settleMs: 300,
  /** A shorter restart of an application or of the edge is bridged, so clients do not see it. */
  tryMs: 5 * SECOND,
  dialMs: 2 * SECOND,
  /** Below the idle timeout of common servers (Node: 5 s), so that they never close a connection first. */
  idleMs: 4 * SECOND,
  /** Time for running requests when the configuration changes. */
  graceMs: 10 * SECOND,
  /** Time for WebSockets, where Caddy supports it. */
  streamsMs: 6 * HOUR,
  /** One call of Caddy's admin socket. */
  adminMs: 5 * SECOND,
  /** A push, and its caller, may wait for running requests. */
  pushMs: 20 * SECOND,
  /** Pushes cut connections, so changes within this time are combined. */
  pushEveryMs: SECOND,
  /** Changes in one push. */
  pushBatch: 100,
  /** How long `switch` waits for a restarting Caddy. */
  waitForCaddyMs: 30 * SECOND,
  /** A call of the edge; longer than everything that it may wait for. */
  callMs: 60 * SECOND,
  connectMs: 2 * SECOND,
  lineBytes: 4 * MiB,
  connections: 64,
  routesPerEnvironment: 100,
  /** How often edge and Caddy are checked, and about the longest outage after one was killed. */
  supervisionMs: 500,
  /** Priority of edge and Caddy; every other process has 0, and the lowest number goes first. */
  priority: -10,
  restartMs: SECOND,
  restartCapMs: 30 * SECOND,
  /** After this uptime the back-off starts again. */
  steadyMs: 60 * SECOND,
  /** A new edge waits this long for a silent engine, well below `startMs`. */
  firstLookMs: 3 * SECOND,
  /** An edge or a Caddy that does not answer by then failed to start. */
  startMs: 10 * SECOND,
  stopMs: 15 * SECOND,
  /** Longer names do not fit into a name of the edge's zone. */
  hostLength: 230,
  probeMs: 5 * SECOND,
  probePollMs: 50,
  /** How often addresses of containers are looked up without the engine's events. */
  addressesMs: 30 * SECOND,
  /** How often routed sockets are checked; a restarted program is dialled after this. */
  socketsMs: 100,
  /** A socket that keeps changing is linked at most this often. */
  relinkMs: SECOND,
  /** Depth of Caddy's own folders; certificates are four deep. */
  homeDepth: 16,
  /** A package of 40 MB over a slow connection. */
  installMs: 10 * MINUTE,
  accessLogMiB: 50,
  accessLogs: 5,
  retryAfterSeconds: 5,
  portFrom: 30_000,
  portTo: 32_000,
} as const
