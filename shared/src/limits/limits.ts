// Every number that bounds something, with its reason. Nothing else in the code holds such a number, and
// no queue, loop, buffer, body or wait is without one. Times in milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** Enrolment and certificates of agents. */
export const ENROLMENT = {
  joinTokenMs: 15 * MINUTE,
  /** A lost answer can be asked again with the same key. */
  repeatMs: 10 * MINUTE,
  requestsPerMinute: 10,
  /** Of a packaged agent, 50 MB each, by address. */
  downloadsPerMinute: 10,
  bodyBytes: 16 * KiB,
  /** A P-256 request is about 300 bytes; the rest is room for a subject that is ignored anyway. */
  csrBytes: 4 * KiB,
  certificateMs: 30 * DAY,
  /** The listener's own certificate: made anew at every start, so it only has to outlive one. */
  serverCertificateMs: 365 * DAY,
  /** The certificate with which the listener tests itself when it starts. */
  probeCertificateMs: 10 * MINUTE,
  /** Names of the listener; more than this in one certificate is a mistake. */
  serverNames: 32,
  caMs: 3_650 * DAY,
  /** Clocks of servers run late. */
  backdateMs: 5 * MINUTE,
  /** Renewal happens at a random point of this part of a certificate's life. */
  renewFrom: 0.5,
  renewTo: 0.8,
  renewAfterExpiryMs: 90 * DAY,
  challengeMs: MINUTE,
} as const

/** One control plane a database. */
export const REPLICAS = {
  /** The former one may be stopping, or its connection may not be known to be dead. */
  waitMs: 5 * SECOND,
  againMs: 100,
} as const

/** After a database was restored from a backup. */
export const RESTORE = {
  /** A server that joined after the backup asks again this seldom: a person has to make it join. */
  unknownAgentMs: 5 * MINUTE,
  /** Rows that were lost; more than a day of a busy installation makes. */
  numbers: 100_000,
} as const

/** Secrets at rest. */
export const SECRET_STORE = {
  kekBytes: 32,
  /** 32 random bytes have about 30 different ones; fewer than this was typed, not drawn. */
  kekDistinctBytes: 16,
  /** More than a key file can hold: it is read no further. */
  kekFileBytes: 256,
  /** Above every secret there is (a variable has 64 KiB at most). */
  plainBytes: MiB,
  /** Of each kind, in a second: a rotation must not be felt. */
  rewrittenAtOnce: 50,
  /** Longer than any request lives that may still write with the key before. */
  retiredKeptMs: HOUR,
} as const

/** One connection between an agent and the control plane. */
export const SESSION = {
  dialMs: 10 * SECOND,
  helloMs: 10 * SECOND,
  welcomeMs: 10 * SECOND,
  completeSetMs: 10 * SECOND,
  keepaliveMs: 20 * SECOND,
  keepaliveTimeoutMs: 10 * SECOND,
  heartbeatMinMs: 10 * SECOND,
  heartbeatMaxMs: 20 * SECOND,
  /** Heartbeats a second that the control plane is willing to take together. */
  heartbeatsPerSecond: 200,
  /** Session timeout, in heartbeat intervals. */
  timeoutIntervals: 3,
  /** After a start nobody is called offline for this many session timeouts. */
  graceTimeouts: 2,
  backoffMs: SECOND,
  /** Two windows and a handshake fit into a minute: however long it was away, a control plane has every server back by then. */
  backoffCapMs: 24 * SECOND,
  /** The back-off starts anew after this long without trouble. */
  backoffResetMs: 60 * SECOND,
  supersededBackoffMs: 60 * SECOND,
  unsupportedBackoffMs: 10 * MINUTE,
  pendingHandshakes: 64,
  /** 5,000 agents with two connections each, and room for those that reconnect. */
  connections: 20_000,
  /** One line of log for each kind of failed handshake in this time: scanners must not fill the disk. */
  handshakeLogMs: MINUTE,
  sessionsPerSecond: 50,
  drainMs: 5 * SECOND,
  /** An event loop that lagged this long judges nobody. */
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
  /** Two instances that push each other out this often are two copies of one disk. */
  supersedesForDuplicate: 3,
  supersedeWindowMs: 5 * MINUTE,
  revocationMs: 5 * SECOND,
  /** The owner re-reads the desired state of its agents: a lost wake-up costs this much. */
  rereadMs: 5 * SECOND,
} as const

/** Facts of the agent's journal on their way up. */
export const EVENTS = {
  batchMs: 50,
  batchBytes: 64 * KiB,
  unackedBytes: 256 * KiB,
  eventBytes: 48 * KiB,
  messageBytes: 4 * KiB,
  planSteps: 200,
  keptMs: 7 * DAY,
  reserveBytes: 16 * MiB,
  /** Room that an attempt's event file holds ahead, so that its end can be told on a full disk. */
  fileReserveBytes: 128 * KiB,
  /** Events that one look at an event file takes at most. */
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
  tombstoneMs: 30 * DAY,
  acceptFreeBytes: 512 * MiB,
  /** A removal frees the disk; it needs room for its log alone. */
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
  /** Full segments that may wait for their sync; one more, and the writer waits for the disk. */
  unsyncedSegments: 4,
  spoolSyncMs: SECOND,
  /** The runner's beat: what a process wrote is in the spool file at most this much later. */
  tickMs: 50,
  /** Records of one block of the spool; a block fits a chunk. */
  blockBytes: 32 * KiB,
  /** A full disk is tried again after this much output was dropped, and at each beat. */
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
  /** Half of what one attempt may have under way: the other half travels while this one is written. */
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
  /** Lexical tokens without blanks and comments: no file of 2,000 values needs more. */
  tokens: 16_000,
  /** Comments, blanks and line ends, which cost time as well. */
  blankTokens: 24_000,
  /** Open constructs of the parser: twelve levels need at most three each. */
  openConstructs: 40,
  problems: 20,
  /** Problems that are kept at all: a file of nothing but mistakes must not fill a journal. */
  problemsKept: 200,
  /** A value in a message. */
  quotedCharacters: 40,
  /** A line of the file in a message, so that one long line does not fill a log. */
  excerptCharacters: 120,
  services: 20,
  steps: 50,
  actions: 50,
  volumes: 20,
  env: 200,
  titleCharacters: 80,
  descriptionCharacters: 500,
  questionCharacters: 300,
  pathCharacters: 256,
  imageCharacters: 512,
  artifactPatterns: 50,
  /** `**` and braces of one pattern: each multiplies the work of matching. */
  patternWildcards: 5,
  healthRetries: 100,
  cpus: 256,
  /** Larger than any server, small enough to be counted in bytes. */
  memoryBytes: 4_096 * GiB,
  actionTimeoutMs: 30 * MINUTE,
  retentionMs: 7 * DAY,
  /** The longest values that may be written: a typo such as 10d for 10s must not hold a server. */
  actionTimeoutMaxMs: 6 * HOUR,
  retentionMaxMs: 90 * DAY,
  stopTimeoutMaxMs: 10 * MINUTE,
  healthMaxMs: HOUR,
  branchLabelCharacters: 40,
  parseMs: 200,
} as const

/** REST. */
export const REST = {
  bodyBytes: MiB,
  headerBytes: 16 * KiB,
  uriBytes: 8 * KiB,
  headersMs: 10 * SECOND,
  /** Head and body together; repository hosts themselves wait no longer for a delivery of 25 MiB. */
  requestMs: 15 * SECOND,
  /** How often the two above are looked at. */
  timesMs: SECOND,
  /** Requests of one address that are not whole yet; the oldest beyond are cut. */
  halfOpen: 128,
  /** The same at any moment: many connections of one client begin at once and are whole an instant later. */
  halfOpenBurst: 1_024,
  idleMs: 60 * SECOND,
  perPage: 30,
  perPageMax: 100,
  /** Task history of one environment that a page may join with its steps. */
  followStreams: 20,
  badTokensPerMinute: 60,
  requestsPerMinute: 600,
  /** What starts work or makes something of value: deployments, certificates, variables. */
  strictPerMinute: 60,
  /** Keys a rate limit remembers at once: a flood of new ones drops the oldest, never memory. */
  rateLimitKeys: 10_000,
  idempotencyKeyChars: 255,
  idempotencyMs: DAY,
  /** A request that has not answered by now never will: the control plane was killed meanwhile. */
  idempotencyInFlightMs: 5 * MINUTE,
  /** A longer reply is not kept for a repeated key. */
  idempotencyReplyBytes: 256 * KiB,
  /** Browsers send about 20, proxies add some. */
  headerCount: 200,
  auditMs: 400 * DAY,
  setupPerMinute: 10,
  variables: 200,
  variableBytes: 64 * KiB,
  variablesBytes: 512 * KiB,
  environmentsPerProject: 20,
  projectsPerOrganization: 200,
  serversPerOrganization: 100,
} as const

/** The control plane's database when it is another machine's. */
export const DATABASE = {
  /** A server that does not answer by now is away; requests are then told so. */
  connectMs: 5 * SECOND,
} as const

/** Webhooks of repository hosts, and the pull requests they tell of. */
export const WEBHOOKS = {
  /** GitHub's own bound. */
  bodyBytes: 25 * MiB,
  /** Bodies above this are counted while they are in memory. */
  largeBytes: MiB,
  largeAtOnce: 16,
  /** Wrong signatures from one address to one project; more are refused before the body is read. */
  failuresPerMinute: 100,
  /** Wrong signatures of everybody together: beyond, the rest of the second is for addresses that signed rightly lately. */
  failuresPerSecond: 100,
  knownAddressMs: DAY,
  /** GitLab's signed time may differ this much from ours. */
  timestampMs: 5 * MINUTE,
  /** Hosts wait 5 to 10 s; the answer does not use it up. */
  answerMs: SECOND,
  /** A row nobody decided is tried again this long after its receipt, by the number of tries so far. */
  retryMs: [2 * SECOND, 2 * SECOND, 10 * SECOND],
  tries: 3,
  /** Undecided rows that one tick takes. */
  batch: 20,
  duplicateMs: 7 * DAY,
  /** An event from the future would make every later one stale. */
  aheadMs: MINUTE,
  /** A pull request that nobody knew, told of this late: it may be over by now, so its branch is looked at first. */
  lateMs: 10 * MINUTE,
  /** Looks of one try, when the branch's state changes while it is looked at. */
  looks: 3,
  reconcileMs: 30 * SECOND,
  keptMs: 30 * DAY,
  keptPerProject: 5_000,
  keptBodyMs: 7 * DAY,
  keptBodyBytes: 256 * KiB,
  refusedKept: 20,
  /** Projects with refused attempts that wait in memory to be written. */
  refusedProjects: 1_000,
  /** Refs of one push that are looked at; more than this is an import, which reconcile sees. */
  changes: 1_000,
  /** Changed paths of one push; more are not compared, so it is deployed. */
  paths: 3_000,
  pathCharacters: 4_096,
  titleCharacters: 500,
  messageCharacters: 2_000,
  nameCharacters: 200,
  urlCharacters: 2_000,
  /** Pull requests in line that one freed place may look through. */
  line: 1_000,
} as const

/** Globs of a project's settings. */
export const GLOBS = {
  patterns: 50,
  characters: 256,
  /** What the braces of one pattern may stand for. */
  alternatives: 32,
  /** Comparisons that one question may cost: some milliseconds, whatever pattern meets whatever name. */
  steps: 2_000_000,
} as const

/** Why a deployment failed: the end of the failed step's output. */
export const DIAGNOSTICS = {
  /** Somebody asks right after the end of a task: the last of its output is on its way. */
  settleMs: 2 * SECOND,
  lines: 200,
  linesMax: 2_000,
  /** For so many lines; more lines may have as much room each. */
  bytes: 16 * KiB,
  /** Lines of the log that are looked through for those of one step, when steps side by side mix theirs. */
  scanLines: 50_000,
  /** Keys that changed since the last success, in one answer. */
  keys: 200,
} as const

/** The secret by which a project knows its repository host. */
export const WEBHOOK_SECRETS = {
  bytes: 32,
  /** Time to put the new one in at the host; a delivery with it ends the former at once. */
  previousMs: DAY,
} as const

/** Basic Auth before an environment. */
export const BASIC_AUTH = {
  /** The edge pays this for each new visitor: about 60 ms of one core. */
  cost: 10,
  /** Passwords that wait to be hashed, one after the other. */
  waitingHashes: 16,
} as const

/** Settings of the edge on their way to a server. */
export const EDGE = {
  /** About 200 bytes each: a message stays far below what gRPC takes. */
  environmentsPerMessage: 500,
} as const

/** People: passwords, sessions, tokens, invitations. */
export const PEOPLE = {
  passwordChars: 10,
  /** A slow hash of a novel is a way to keep a processor busy. */
  passwordMaxChars: 128,
  /** A browser that stays away this long signs in again; use renews it once a day. */
  sessionMs: 14 * DAY,
  sessionRenewMs: DAY,
  resetMs: HOUR,
  /** Reset mails to one address in `lockMs`: nobody's mailbox is filled from here. */
  resetMails: 3,
  /** Reset requests that are being worked on behind their answers. */
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
  /** The answer with the new refresh token may get lost: the old one works once more for so long. */
  refreshGraceMs: 30 * SECOND,
  deviceMs: 15 * MINUTE,
  devicePollMs: 5 * SECOND,
  deviceSlowDownMs: 5 * SECOND,
  /** However impatient a client is, it gets its answer before the code ends. */
  devicePollMaxMs: MINUTE,
  deviceStartsPerMinute: 10,
  deviceNameChars: 64,
  wrongUserCodes: 5,
  /** Rows of ended logins and used codes, kept to tell reuse from nonsense. */
  endedMs: 30 * DAY,
} as const
