// Limits that several packages share, each with its reason. What one package alone uses is in its own `limits` folder.
// The code contains such numbers nowhere else, and every queue, loop, buffer, body and wait has one. Times are in
// milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** One connection between an agent and the control plane. */
export const SESSION = {
  dialMs: 10 * SECOND,
  helloMs: 10 * SECOND,
  welcomeMs: 10 * SECOND,
  /** An agent in line hears this often that it is. */
  waitingMs: 3 * SECOND,
  /** An agent leaves a line in which no turn comes. */
  lineMs: 10 * MINUTE,
  completeSetMs: 10 * SECOND,
  keepaliveMs: 20 * SECOND,
  keepaliveTimeoutMs: 10 * SECOND,
  /** After Welcome; sshd is usually up by then. */
  firstHeartbeatMs: SECOND,
  heartbeatMinMs: 10 * SECOND,
  heartbeatMaxMs: 20 * SECOND,
  /** Heartbeats per second that the control plane accepts in total. */
  heartbeatsPerSecond: 200,
  /** Session timeout, in heartbeat intervals. */
  timeoutIntervals: 3,
  /** After a start, no server counts as offline for this many session timeouts. */
  graceTimeouts: 2,
  backoffMs: SECOND,
  /** Two windows and a handshake fit into a minute, so every server is back within a minute after any outage. */
  backoffCapMs: 24 * SECOND,
  /** The back-off resets after this long without trouble. */
  backoffResetMs: 60 * SECOND,
  supersededBackoffMs: 60 * SECOND,
  unsupportedBackoffMs: 10 * MINUTE,
  /** Under way at once: they share one processor with everything else, and more only delay each other. */
  handshakesAtOnce: 16,
  /** A slower client goes on without a turn. 64 such a second: fewer than a control plane serves, so none piles up. */
  handshakeTurnMs: 250,
  /** Connections that are silent or slow: a returning fleet connects faster than it is read. Above it the oldest end. */
  pendingHandshakes: 1_024,
  /** Hellos that are applied to the rows at once; the other connections to the database serve people. */
  openingsAtOnce: 4,
  /** A turn that would come later is refused now: agents wait 10 s for a connection, and old ones 10 s for Welcome. */
  admissionMs: 7 * SECOND,
  /** 5,000 agents with two connections each, and spare ones for reconnects. */
  connections: 20_000,
  /** One log line per kind of failed handshake in this time, so that scanners do not fill the disk. */
  handshakeLogMs: MINUTE,
  /** New sessions that a control plane admits at least; more are admitted if it is faster. */
  sessionsPerSecond: 50,
  /** Longest window over which agents spread their return. */
  reconnectSpreadMs: MINUTE,
  drainMs: 5 * SECOND,
  /** After an event-loop lag this long, no session is judged. */
  lagMs: 5 * SECOND,
  messageUpBytes: 64 * KiB,
  messageDownBytes: MiB,
  receiveBytes: MiB,
  streamsPerConnection: 16,
  streamWindowBytes: 4 * MiB,
  connectionWindowBytes: 8 * MiB,
  appliedMs: 15 * SECOND,
  appliedTries: 3,
  unaryMs: 10 * SECOND,
  helloAttempts: 500,
  helloFences: 500,
  /** Two instances that supersede each other this often are two copies of one disk. */
  supersedesForDuplicate: 3,
  supersedeWindowMs: 5 * MINUTE,
  revocationMs: 5 * SECOND,
  /**
   * The session re-reads the desired state of its agent; a wake-up that was lost everywhere costs this much. It is ten
   * statements for each agent, and nearly all of what a large fleet without work costs.
   */
  rereadMs: 5 * MINUTE,
} as const

/** Events from the agent's journal to the control plane. */
export const EVENTS = {
  batchMs: 50,
  batchBytes: 64 * KiB,
  unackedBytes: 256 * KiB,
  eventBytes: 48 * KiB,
  messageBytes: 4 * KiB,
  planSteps: 200,
  keptMs: 7 * DAY,
  reserveBytes: 16 * MiB,
  /** Space preallocated for an attempt's event file, so that its end can be recorded on a full disk. */
  fileReserveBytes: 128 * KiB,
  /** Events taken from an event file in one read. */
  fileReadEvents: 500,
} as const

/** Tasks and attempts. */
export const TASKS = {
  serverOfflineMs: 15 * MINUTE,
  startWithinMs: 60 * MINUTE,
  lostAfterMs: 10 * MINUTE,
  lostAfterMinMs: MINUTE,
  lostAfterMaxMs: DAY,
  timeoutMs: 60 * MINUTE,
  timeoutMaxMs: 6 * HOUR,
  backstopMs: 5 * MINUTE,
  killGraceMs: 10 * SECOND,
  cleanupMs: 60 * SECOND,
  /** REFUSED draining or not_started leads to a new attempt, this often. */
  attempts: 5,
  /** Of the name of a commit's author, which anybody can set. */
  authorChars: 200,
  tombstoneMs: 30 * DAY,
  acceptFreeBytes: 512 * MiB,
  /** A removal frees the disk; it needs space only for its log. */
  destroyFreeBytes: 16 * MiB,
  actionsQueued: 5,
} as const

/** Output of attempts: from the process to the store. */
export const LOGS = {
  recordBytes: 16 * KiB,
  /** An unfinished line is shown after this much silence. */
  unfinishedMs: 200,
  /** A line rewritten by carriage returns is written at most this often. */
  foldMs: SECOND,
  segmentBytes: 8 * MiB,
  /** Full segments that may wait for their sync; with one more, the writer waits for the disk. */
  unsyncedSegments: 4,
  spoolSyncMs: SECOND,
  /** The runner's tick: output of a process is in the spool file at most this much later. */
  tickMs: 50,
  /** Records of one block of the spool; a block fits a chunk. */
  blockBytes: 32 * KiB,
  /** A full disk is retried after this much dropped output, and at each tick. */
  retryBytes: 256 * KiB,
  headBytes: 128 * MiB,
  tailBytes: MiB,
  spoolBytes: GiB,
  spoolMs: 7 * DAY,
  chunkBytes: 32 * KiB,
  watchedFlushMs: 200,
  idleFlushMs: SECOND,
  unackedBytes: MiB,
  unackedBytesPerAttempt: 256 * KiB,
  commitMs: 100,
  /** Half of what one attempt may have in flight: the other half travels while this one is written. */
  commitBytes: 128 * KiB,
  completeMs: 24 * HOUR,
  retentionMs: 90 * DAY,
} as const

/** `.service.yml`. */
export const SERVICE_FILE = {
  bytes: 64 * KiB,
  aliases: 50,
  nodes: 2_000,
  depth: 12,
  /** Lexical tokens without blanks and comments; a file of 2,000 values needs fewer. */
  tokens: 16_000,
  /** Comments, blanks and line ends, which cost time as well. */
  blankTokens: 24_000,
  /** Open constructs of the parser: twelve levels need at most three each. */
  openConstructs: 40,
  problems: 20,
  /** Problems that are kept, so that a file full of mistakes does not fill a journal. */
  problemsKept: 200,
  /** A value in a message. */
  quotedCharacters: 40,
  /** A line of the file in a message, so that one long line does not fill a log. */
  excerptCharacters: 120,
  services: 20,
  steps: 50,
  actions: 50,
  volumes: 20,
  tools: 20,
  env: 200,
  titleCharacters: 80,
  descriptionCharacters: 500,
  questionCharacters: 300,
  pathCharacters: 256,
  imageCharacters: 512,
  artifactPatterns: 50,
  cronCharacters: 120,
  timezoneCharacters: 64,
  /** `**` and braces of one pattern; each multiplies the work of matching. */
  patternWildcards: 5,
  healthRetries: 100,
  /** More do not fit into one answer of the edge's name server, and a second server helps more. */
  replicas: 10,
  drainMaxMs: HOUR,
  cpus: 256,
  /** Larger than any server, small enough to be counted in bytes. */
  memoryBytes: 4_096 * GiB,
  actionTimeoutMs: 30 * MINUTE,
  retentionMs: 7 * DAY,
  /** The longest values that may be written: a typo such as 10d for 10s must not block a server. */
  actionTimeoutMaxMs: 6 * HOUR,
  retentionMaxMs: 90 * DAY,
  stopTimeoutMaxMs: 10 * MINUTE,
  healthMaxMs: HOUR,
  branchLabelCharacters: 40,
  parseMs: 200,
} as const

/** The REST API. */
export const REST = {
  bodyBytes: MiB,
  headerBytes: 16 * KiB,
  uriBytes: 8 * KiB,
  headersMs: 10 * SECOND,
  /** Head and body together; forges wait no longer for a delivery of 25 MiB. */
  requestMs: 15 * SECOND,
  /** How often the two above are checked. */
  timesMs: SECOND,
  /** Incomplete requests of one address; the oldest ones above the limit are cut. */
  halfOpen: 128,
  /** The same at any moment: a client opens many connections together, which complete an instant later. */
  halfOpenBurst: 1_024,
  idleMs: 60 * SECOND,
  /** For the answers to requests in progress when the control plane stops. */
  drainMs: 5 * SECOND,
  perPage: 30,
  perPageMax: 100,
  /** Logs that one user may follow concurrently. */
  followStreams: 20,
  badTokensPerMinute: 60,
  requestsPerMinute: 600,
  /** For what starts work or creates something of value: deployments, certificates, variables. */
  strictPerMinute: 60,
  /** Keys that a rate limit remembers; a flood of new ones drops the oldest. */
  rateLimitKeys: 10_000,
  idempotencyKeyChars: 255,
  idempotencyMs: DAY,
  /** A request without an answer by now never gets one, because the control plane was killed. */
  idempotencyInFlightMs: 5 * MINUTE,
  /** A longer reply is not stored for a repeated key. */
  idempotencyReplyBytes: 256 * KiB,
  /** Browsers send about 20, proxies add some. */
  headerCount: 200,
  auditMs: 400 * DAY,
  setupPerMinute: 10,
  variables: 200,
  variableBytes: 64 * KiB,
  variablesBytes: 512 * KiB,
  environmentsPerProject: 20,
} as const

/** Characters of a generated value. 16 letters and digits hold 95 bits, which no one can guess. */
export const GENERATED = { least: 16, usual: 32, most: 256 } as const

/** Credentials of image registries. All of a deployment reach its server in one message, with its variables. */
export const REGISTRIES = {
  /** Of an organization, and of each project. */
  most: 10,
  /** The longest host name, and a port. */
  hostCharacters: 259,
  usernameCharacters: 256,
  /** Tokens of clouds have up to 3,000 characters. */
  passwordCharacters: 4_096,
} as const

/** Why a deployment failed: the end of the failed step's output. */
export const DIAGNOSTICS = {
  /** For a request right after the end of a task, whose last output is still in transit. */
  settleMs: 2 * SECOND,
  lines: 200,
  linesMax: 2_000,
  /** For this many lines; more lines may have as much space each. */
  bytes: 16 * KiB,
  /** Lines of the log searched for those of one step, because parallel steps mix their lines. */
  scanLines: 50_000,
  /** Keys that changed since the last success, in one answer. */
  keys: 200,
} as const

/** People: passwords, logins, tokens, invitations. */
export const PEOPLE = {
  passwordChars: 10,
  /** Slow-hashing a very long text would keep a processor busy. */
  passwordMaxChars: 128,
  /** A browser that stays away this long must sign in again; use renews it once a day. */
  sessionMs: 14 * DAY,
  sessionRenewMs: DAY,
  resetMs: HOUR,
  /** Reset mails to one address in `lockMs`, so that no mailbox can be flooded. */
  resetMails: 3,
  /** Reset requests that are processed after their answers. */
  resetsUnderWay: 50,
  wrongPasswords: 10,
  lockMs: 15 * MINUTE,
  wrongSignInsPerMinute: 10,
  authBodyBytes: 16 * KiB,
  invitationMs: 7 * DAY,
  members: 500,
  openInvitations: 200,
  tokensPerUser: 100,
  tokenDays: 365,
  accessTokenMs: 30 * DAY,
  refreshIdleMs: 90 * DAY,
  /** The answer with the new refresh token may get lost, so the old one works once more for this long. */
  refreshGraceMs: 30 * SECOND,
  deviceMs: 15 * MINUTE,
  devicePollMs: 5 * SECOND,
  deviceSlowDownMs: 5 * SECOND,
  /** Even an impatient client gets its answer before the code expires. */
  devicePollMaxMs: MINUTE,
  deviceStartsPerMinute: 10,
  deviceNameChars: 64,
  wrongUserCodes: 5,
  /** How long a password or a provider's word waits for the second factor. */
  awaitFactorMs: 10 * MINUTE,
  /** Wrong codes and recovery codes of one user in `lockMs`. */
  wrongFactors: 5,
  /** Changes of factors need a sign-in that is not older. */
  recentSignInMs: 15 * MINUTE,
  recoveryCodes: 10,
  passkeys: 20,
  passkeyNameChars: 64,
  passkeyChallengeMs: 5 * MINUTE,
  /** Sign-ins with a passkey or the provider that one address may begin; an office shares an address. */
  ceremoniesPerMinute: 60,
  /** Rows of ended logins and used codes, kept to distinguish reuse from an invalid token. */
  endedMs: 30 * DAY,
} as const

/** Several files in one answer. Some proxies limit addresses to 8 KiB. */
export const ARTIFACT_BATCH = { queryChars: 6 * KiB } as const

/** Buckets of S3-compatible storage, for backups. */
export const BUCKETS = {
  /** One part of an upload; S3 takes at most 10,000 parts, so 320 GiB fit. */
  uploadBytes: 32 * MiB,
  /** Storage that does not answer a request by now is unreachable. */
  requestMs: 5 * MINUTE,
  /** Objects that are looked at for a list. */
  listed: 10_000,
} as const

/** Backups of environments' data. */
export const VOLUME_BACKUPS = {
  /** Without settings: a week of daily ones. */
  keepCount: 7,
  keepCountMost: 366,
  keepDaysMost: 3_650,
  /** Backups shown of one environment; retention keeps fewer, failed ones go with the next that succeeds. */
  listed: 500,
  /** Backups in a bucket outlive a removed environment for this long; the project's next backup removes them. */
  abandonedMs: 30 * DAY,
  abandonedAtOnce: 50,
  expiredAtOnce: 100,
  parts: 200,
  endpointCharacters: 255,
  prefixCharacters: 200,
  keyCharacters: 256,
} as const
