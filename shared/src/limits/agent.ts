// Numbers that bound what happens on a server: steps, processes, masking, the daemon. The rest stands in limits.ts,
// under the same rule: every number with its reason, times in milliseconds, sizes in bytes.
import { GiB, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** Masking of secret values in output. */
export const MASKING = {
  /** Shorter values would mask half of every log. */
  valueBytes: 6,
  lineBytes: 8,
  patterns: 20_000,
  /** Bytes of all patterns together: one state of the automaton each, about 20 bytes of memory. */
  patternsBytes: 4 * MiB,
  /** A colour code inside a value is skipped up to this length; longer ones are no colour codes. */
  sgrBytes: 64,
  /** A value with colour codes inside is followed this far: what is held back stays bounded. */
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
  /** Looks for who holds a socket; one of them may miss it. */
  heldLooks: 5,
  /** Small programs answer some milliseconds after their start: more often still at the very beginning. */
  healthFirstMs: 10,
  healthFirstForMs: 250,
  /** Of an answer that is not the expected one, for the message. */
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

/** Addresses of repositories: what is longer is not one. */
export const REPOSITORY = {
  urlLength: 2_000,
  refLength: 250,
  knownHosts: 100,
  knownHostLength: 8 * KiB,
  /** First a shallow look, then a deep one, for a commit that its host does not hand out by hash. */
  depths: [50, 1_000],
  /** Error output of git that is kept to find out what went wrong. */
  errorBytes: 64 * KiB,
  /** List of files of a commit: 200,000 names of usual length. */
  listBytes: 64 * MiB,
  /** Packs that may gather before the repository of an environment is packed anew. */
  packs: 20,
  /** Objects outside of packs; each deployment may add a hundred. */
  looseObjects: 5_000,
} as const

/** Processes of commands and services on a server. */
export const PROCESSES = {
  /** Berth's own tools (useradd, git on local files): they answer at once, or something is wrong. */
  programMs: 30 * SECOND,
  programBytes: MiB,
  /** A release may hold 200,000 files on a slow disk. */
  removeMs: 10 * MINUTE,
  /** What the kernel still holds of a terminal after its process ended is below 128 KiB. */
  drainBytes: MiB,
  /** Pipes that somebody else keeps open after the process ended are read this much longer. */
  drainMs: 500,
  /** Looks at the stop file and at processes that should end. */
  stopPollMs: SECOND,
  endPollMs: 20,
  /** Looks for a command that wants to be activated before its end. */
  activatePollMs: 100,
  /** SIGKILL is repeated until nobody is left: a tree may fork while it is being killed. */
  killRounds: 250,
  freezeMs: 2 * SECOND,
  stepMemoryBytes: 2 * GiB,
  stepCpus: 2,
  serviceMemoryBytes: 512 * MiB,
  serviceCpus: 1,
  pids: 512,
  /** A supervisor has this long to answer, beyond the time its service may take to stop. */
  supervisorMs: 10 * SECOND,
  serviceLineBytes: 256 * KiB,
  serviceLogBytes: 50 * MiB,
  /** Read from the end of a log for the last lines of a service. */
  serviceTailBytes: 256 * KiB,
  /** A command that failed with less room than this on the disk failed for it. */
  fullBytes: 4 * MiB,
  secretsBytes: MiB,
  secretsMs: 30 * SECOND,
  accountTries: 20,
  inodes: 50_000,
} as const

/** Host names on their way from a runner through the daemon to the control plane. */
export const HOST_CLAIMS = {
  /** As many as one call may name. */
  hosts: 64,
  /** What one environment may hold: failed deployments that each ask for other names must not gather them for ever. */
  perEnvironment: 200,
  /** A redeployment asks for nothing; a new name waits this long for a control plane that is away. */
  waitMs: 10 * MINUTE,
  /** Then the log says what it waits for. */
  quietMs: 2 * SECOND,
  /** The runner looks for its answer, and the daemon for questions, this often. */
  pollMs: 50,
  /** A call that failed is tried again after this long. */
  retryMs: SECOND,
  /** A message of the control plane as it is kept. */
  messageLength: 500,
} as const

/** What is kept of a process that could not begin an attempt. */
export const NOT_STARTED = {
  outputBytes: 32 * KiB,
  lines: 200,
  lineCharacters: 2_000,
  /** The line of it that stands in the failure's sentence. */
  saidCharacters: 300,
} as const

/** The agent's daemon on one server. */
export const DAEMON = {
  /**
   * The next runner is started ahead this long after the one before got its attempt: a small build is over by then. At
   * once, it would take a third of a second from that build on a small server.
   */
  warmAfterMs: 2 * SECOND,
  /** A runner without an attempt is kept this long; then an idle agent costs nothing. */
  warmForMs: 10 * MINUTE,
  /** Files of runners are looked at this often when no hint came; a hint makes it sooner. */
  pollMs: 250,
  /** Hints of one moment make one look. */
  hintMs: 5,
  /** A spawned runner that has not taken its claim by then never will: the claim is taken from it. */
  claimMs: 30 * SECOND,
  /** Acknowledged events and log cursors are deleted and saved lazily: the control plane repeats both. */
  sweepMs: SECOND,
  /** A killed supervisor, or a version paused by a runner that died, is away at most about this long. */
  servicesMs: 5 * SECOND,
  /** Somebody watches a log: chunks leave at most this late after their bytes were written. */
  watchedSendMs: 50,
  /** Assignments of one complete set that are held in memory until its last message. */
  assignmentsPerSet: 2_000,
  /** Interactive requests. */
  requestsInFlight: 32,
  requestMs: 10 * SECOND,
  requestKeptMs: MINUTE,
  requestsKept: 256,
  /** One look at a part of the host (`git --version`, the engine's version). */
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
  /** Intervals the control plane may choose lie between these. */
  intervalMinMs: 50,
  intervalMaxMs: 5 * MINUTE,
  goodbyeMaxMs: HOUR,
  /** Attempts of different environments that run at once, also on a single processor. */
  parallelMin: 2,
  /** Time a Goodbye of ours gets to leave before the stream is cut. */
  goodbyeMs: 500,
} as const

/** Bytes that travel from an agent through the control plane to whoever asked: files, output of services. */
export const TRANSFERS = {
  /** At once from one agent; one more is refused. */
  files: 4,
  logStreams: 8,
  firstFrameMs: 10 * SECOND,
  /** Without a frame; and without anybody who takes what came. */
  idleMs: 30 * SECOND,
  /** Received and not yet taken by the reader; then the stream is paused. */
  queueBytes: MiB,
  /** Each costs a turn of both event loops; four fill the queue. */
  frameBytes: 256 * KiB,
  /** The agent's second connection is closed after this long without a transfer. */
  connectionIdleMs: 60 * SECOND,
  /** From this size on a transfer gets a connection of its own, without HTTP/2: the handshake costs less than it saves. */
  lineFromBytes: 4 * MiB,
  /** To open one; then HTTP/2 is used. Less than `firstFrameMs`, which goes on meanwhile. */
  lineDialMs: 3 * SECOND,
  /** Of one record with bytes, and with a message. */
  lineRecordBytes: MiB,
  lineMessageBytes: 16 * KiB,
} as const

/** Files that an action leaves for people to fetch. */
export const ARTIFACTS = {
  /** Of one task; the first in order of name are offered. */
  files: 1_000,
  bytes: 5 * GiB,
  /** Of one event. */
  perEvent: 200,
  perEventBytes: 32 * KiB,
  pathBytes: 1_024,
  /** What the braces of one pattern may stand for. */
  alternatives: 1_000,
  /** Entries of folders that are looked at; a million files must not hold the runner up. */
  entries: 200_000,
  depth: 64,
  /** Files that were skipped and are named in the log; the others are counted. */
  skippedNamed: 20,
  /** Of a large file, read at once: each reading costs a turn of two threads. */
  readBytes: MiB,
  /** Of small ones, passed on at once. */
  pieceBytes: 256 * KiB,
  /** Up to this size a file is read in one go, and shares a piece with others. */
  smallBytes: 64 * KiB,
  /** Copies that are synced to disk at once. */
  syncs: 16,
  /** A container's files come in one stream: what is not kept is read past, in all at most this much. */
  passedBytes: 8 * GiB,
  /** Of a file that matched and is beyond the bounds: what comes after it is mostly beyond them too. */
  passedFileBytes: 64 * MiB,
  /** Left free on the disk of the store, so that the agent can go on. */
  spareBytes: 512 * MiB,
  /** A folder of the store without a record is a copy that was never finished: no task takes longer. */
  unfinishedMs: 12 * HOUR,
  /** The longest retention a file may ask for. */
  retentionMaxMs: 90 * 24 * HOUR,
  /** Records outlive their files this long: who asks hears that they expired, not that they never were. */
  rememberedMs: 30 * 24 * HOUR,
  /** From the child that reads the files, in one frame. */
  frameBytes: 256 * KiB,
} as const

/** Steps of the docker recipe. */
export const DOCKER_STEPS = {
  /** Containers of one deployment that are started at once. */
  parallel: 4,
  buildMs: 30 * MINUTE,
  pullMs: 30 * MINUTE,
  releaseMs: 15 * MINUTE,
  /** Lines of a failed build or service in the message; more of them are in the output. */
  messageLines: 5,
  messageLineLength: 300,
} as const

/** Steps that move requests to a version, of both recipes. */
export const ROUTE_STEPS = {
  /** A proxy that is just being started is waited for; one that is not installed is told at once. */
  proxyWaitMs: 10 * SECOND,
  /** Requests that were on their way to the old version at the switch; then those that still run; then no longer. */
  drainMinMs: 2 * SECOND,
  drainMaxMs: 30 * SECOND,
  drainPollMs: 100,
  /** One handshake: a certificate may be issued just then. */
  handshakeMs: 5 * SECOND,
  probeMs: 10 * SECOND,
} as const

/** Copies of static roots. */
export const STATIC = {
  bytes: 2 * GiB,
  files: 100_000,
  /** Nobody nests pages deeper; each level holds a descriptor open. */
  depth: 64,
  /** As long as a path may be. */
  pathLength: 4_096,
  /** A whole copy of that size from a slow disk to itself. */
  copyMs: 10 * MINUTE,
  /** Read and written at once. */
  chunkBytes: 256 * KiB,
} as const

/** The edge and Caddy on one server. */
export const PROXY = {
  /** How long Caddy believes an answer of the name server: every switch waits for it, every busy host asks this often. */
  refreshMs: 200,
  /** After a switch: the refresh, and a bit for what was being asked just then. */
  settleMs: 300,
  /** A restart of an application, or of the edge, that is shorter is waited for and not seen. */
  tryMs: 5 * SECOND,
  dialMs: 2 * SECOND,
  /** Below what common servers keep idle connections (Node: 5 s): they are never the first to close one. */
  idleMs: 4 * SECOND,
  /** Requests that run get this long when the configuration changes. */
  graceMs: 10 * SECOND,
  /** WebSockets get this long, where Caddy lets them. */
  streamsMs: 6 * HOUR,
  /** One call of Caddy's admin socket. */
  adminMs: 5 * SECOND,
  /** A push may wait for requests that run; so may whoever asked for it. */
  pushMs: 20 * SECOND,
  /** Pushes cut connections: changes of one moment travel together. */
  pushEveryMs: SECOND,
  /** Changes that travel in one push. */
  pushBatch: 100,
  /** `switch` waits this long for a Caddy that is being restarted. */
  waitForCaddyMs: 30 * SECOND,
  /** A call of the edge; above all that it may have to wait for. */
  callMs: 60 * SECOND,
  connectMs: 2 * SECOND,
  lineBytes: 4 * MiB,
  connections: 64,
  routesPerEnvironment: 100,
  /** Looks at edge and Caddy; a killed one is away at most about this long. */
  supervisionMs: 500,
  /** Of edge and Caddy; everything else has 0, and the lowest number goes first. */
  priority: -10,
  restartMs: SECOND,
  restartCapMs: 30 * SECOND,
  /** Up this long: the next end is a first one again. */
  steadyMs: 60 * SECOND,
  /** A new edge waits this long for an engine that says nothing, well below `startMs`. */
  firstLookMs: 3 * SECOND,
  /** An edge or a Caddy that does not answer by then did not start. */
  startMs: 10 * SECOND,
  stopMs: 15 * SECOND,
  /** Longer names do not fit into a name of the edge's zone. */
  hostLength: 230,
  probeMs: 5 * SECOND,
  probePollMs: 50,
  /** Addresses of containers are looked up this often when the engine's events are silent or away. */
  addressesMs: 30 * SECOND,
  /** Looks at sockets that are routed: a program that starts again is dialled after this. */
  socketsMs: 100,
  /** A socket that keeps changing is linked this often. */
  relinkMs: SECOND,
  /** Of Caddy's own folders: certificates are four deep. */
  homeDepth: 16,
  /** A package of 40 MB over a slow line. */
  installMs: 10 * MINUTE,
  accessLogMiB: 50,
  accessLogs: 5,
  retryAfterSeconds: 5,
  portFrom: 30_000,
  portTo: 32_000,
} as const
