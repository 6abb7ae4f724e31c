// Limits of one installation: its database, its restore, mail and alerts. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, KiB, MINUTE, MiB, SECOND } from '@berth/shared/units'

/** The control plane's database on another machine. */
export const DATABASE = {
  /** A server that does not answer by now is unreachable, and requests fail with that reason. */
  connectMs: 5 * SECOND,
  /** While statements run, the pool looks this often whether one waits too long. */
  watchMs: SECOND,
  /** A statement that takes longer lets the pool ask the database, over another connection, whether it is still there. */
  slowMs: 4 * SECOND,
  /** For that connection and its answer. */
  probeMs: 4 * SECOND,
  /** So often in a row without an answer, about 13 seconds after the last word, the connections are given up. */
  failures: 2,
  /** The server waits for us, and we for the server: what was on its way is lost. TCP repeats for less than this. */
  deafMs: 10 * SECOND,
  /** A database that was away is looked for this often; requests fail at once until it answers. */
  returnMs: SECOND / 2,
  /** Nothing but statements happens in a transaction, so a control plane that is silent this long is paused or gone. */
  idleInTransactionMs: 10 * SECOND,
  /** For the server, which notices within 20 seconds that the machine of a control plane is gone. */
  keepAliveSeconds: 5,
  keepAlives: 3,
} as const

/** Several control planes on one PostgreSQL; on SQLite there is one. */
export const REPLICAS = {
  /** The former process may be stopping, or its dead connection may be unnoticed. */
  waitMs: 5 * SECOND,
  againMs: 100,
  /** After this long without a renewal the others end its sessions and take its duties... */
  leaseMs: 10 * SECOND,
  /** ...so a lease survives three renewals that fail or are late. */
  renewMs: 2 * SECOND,
  /** One that serves already waits this long for another that starts, before it leaves the agents' upgrade to that one. */
  rolloutMs: 10 * SECOND,
  /** The connection of hints asks this often whether PostgreSQL answers, and waits this long. */
  pulseMs: 5 * SECOND,
  silentMs: 10 * SECOND,
  reconnectMs: 500,
  closeMs: SECOND,
  /** Hints that are sent together; those of a burst are one statement. */
  hintMs: 5,
  hints: 10_000,
  /** A lost hint costs this long: an agent's wake-ups are also rows. */
  wakesMs: 5 * SECOND,
  /** Rows become visible late, when their transaction commits. */
  wakesWithinMs: 30 * SECOND,
  wakesKeptMs: 10 * MINUTE,
  /** One that stops serves on until balancers have noticed: they look every second or two. */
  noticeMs: 4 * SECOND,
  /** Sessions that are ended in one transaction. */
  sessionsTogether: 500,
} as const

/** Heartbeats of many agents are written together. */
export const HEARTBEATS = {
  /** They wait for each other this long at most; a heartbeat is due in ten seconds or more. */
  togetherMs: 500,
  /** Of one statement. */
  together: 200,
} as const

/** Changes of the tables at a start, while other control planes may use them. */
export const MIGRATIONS = {
  /** A statement that waits for its table makes all others wait behind it. */
  lockMs: SECOND,
  /** Others pass in between. */
  againMs: 250,
  /** Then the start fails, and the service manager begins another one. */
  giveUpMs: MINUTE,
  /** Another control plane that starts or migrates; an index of a table with millions of rows takes a part of it. */
  otherStartMs: 10 * MINUTE,
} as const

/** After a database was restored from a backup. */
export const RESTORE = {
  /** Retry interval of a server that joined after the backup; a user must let it join again. */
  unknownAgentMs: 5 * MINUTE,
  /** Lost rows; more than a busy installation creates in a day. */
  numbers: 100_000,
} as const

/** Backups of the control plane. */
export const BACKUPS = {
  /** Rows in memory together. The largest is a webhook's body, so they fit into a small machine. */
  rows: 100,
  /** Rows of a table in one file of the archive; the reader holds one such file in memory. */
  partBytes: MiB,
  /** The largest file of an archive that is read as a whole: a part and one row beyond it. */
  fileBytes: 128 * MiB,
  /** Work factor of scrypt, as the age program uses it: about a second and 256 MiB for each guess. */
  scryptLogN: 18,
  scryptMostLogN: 20,
  scryptBytes: 2 * GiB,
  passphraseBytes: 1_024,
  /** A partial file of this age belongs to a process that died. */
  staleMs: DAY,
  /** Objects or files that are looked at for a list. */
  listed: 10_000,
  /** The running control plane looks this often whether a backup is due. */
  lookMs: SECOND,
  /** Rows of runs, for `backup list`. */
  keptRuns: 200,
  errorCharacters: 1_000,
  /** A database takes at most this times its rows as text: indexes, and pages that are not full... */
  databaseFactor: 2,
  /** ...and this much without a row. */
  emptyBytes: 4 * MiB,
} as const

/** Logs that move from a disk into PostgreSQL. */
export const LOG_IMPORT = {
  /** Attempts that are looked up together. */
  batch: 500,
  /** Files stay this long, because the release before reads them if an upgrade is undone. */
  keptMs: DAY,
  /** A restore keeps one log at a time on the disk; hardly one is larger. */
  spoolBytes: GiB,
} as const

/** Settings of the edge sent to a server. */
export const EDGE = {
  /** About 200 bytes each, so a message stays far below gRPC's limit. */
  environmentsPerMessage: 500,
} as const

/** Mail. */
export const MAIL = {
  tries: 5,
  /** Between tries: survives a night without the mail server, but never sends a link a day late. */
  backoffMs: [MINUTE, 15 * MINUTE, 2 * HOUR, 12 * HOUR],
  giveUpMs: DAY,
  /** A sender that died holds its mail for this long. */
  leaseMs: 5 * MINUTE,
  batch: 20,
  /** Delay after a lost wake-up, or after a back-off ended. */
  pollMs: 5 * SECOND,
  connectMs: 10 * SECOND,
  sendMs: 60 * SECOND,
  /** Time to finish sending when the process ends; otherwise the mail is sent again. */
  stopMs: 5 * SECOND,
  subjectCharacters: 200,
  addressCharacters: 254,
  errorCharacters: 500,
  /** Mails kept in the folder in development without a mail server. */
  keptFiles: 100,
  /** Rows of mails that were sent or given up. */
  keptMs: 30 * DAY,
} as const

/** When users are notified that the installation needs attention. */
export const ALERTS = {
  everyMs: 15 * SECOND,
  serverOfflineMs: 5 * MINUTE,
  /** Less than a tenth is nearly full, between these two bounds... */
  diskFreePart: 0.1,
  diskFreeMinBytes: GiB,
  diskFreeMaxBytes: 10 * GiB,
  /** ...and this many times as much ends the alert, so that small changes do not repeat it. */
  diskRecovery: 1.5,
  /** A certificate renews at 80 % of its lifetime at the latest; with less than this part left, renewal has failed. */
  certificatePart: 0.15,
  /** Older webhook failures are not reported. */
  deliveryMs: DAY,
  /** Ended episodes are kept for later questions. */
  keptMs: 90 * DAY,
  /** Servers, certificates and deliveries checked together. */
  batch: 500,
} as const

/** `berth-server doctor`. */
export const DOCTOR = {
  /** For each thing on a network; all are asked together. */
  waitMs: 5 * SECOND,
  answerBytes: 64 * KiB,
  /** Two clocks on one network agree to a fraction of this... */
  clockMs: 10 * SECOND,
  /** ...and certificates are valid from this long before they are issued. */
  clockProblemMs: 5 * MINUTE,
  /** Authorities renew a month or more before; by now they have failed. */
  certificateMs: 14 * DAY,
  /** Every server must learn a new authority before. */
  authorityMs: 180 * DAY,
  /** Less than this, and a busy day fills the disk. */
  inodes: 10_000,
} as const

/** HTTPS that the control plane serves itself. */
export const HTTPS = {
  /** Renewed with this part of its lifetime left: a month of the usual 90 days, two days of six. */
  renewPart: 1 / 3,
  /** After each failure in a row. At most five tries in an hour: public authorities allow five failed ones. */
  retryMs: [MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR],
  /** An authority that limits orders counts for an hour or longer. */
  limitedMs: HOUR,
  /** What it may ask for at most; a longer wait would outlast short certificates. */
  longestWaitMs: DAY,
  /** How often the running control plane looks whether something is due. */
  lookMs: 5 * SECOND,
  /** One request to the authority. */
  requestMs: 30 * SECOND,
  answerBytes: MiB,
  /** Between looks at an order, and how many: five minutes together. */
  pollMs: SECOND,
  longestPollMs: 10 * SECOND,
  polls: 33,
  /** A try that is under way when the process ends. */
  stopMs: 5 * SECOND,
  /** Of an authority's sentence. */
  messageCharacters: 500,
  /** Port 80 only sends people on. */
  redirect: {
    connections: 1_000,
    headerBytes: 16 * KiB,
    requestMs: 10 * SECOND,
    pathBytes: 4 * KiB,
  },
} as const

/** server.toml. */
export const SETTINGS_FILE = {
  path: '/etc/berth/server.toml',
  /** All settings with comments take a tenth of it. */
  bytes: 64 * KiB,
} as const

/** What a fleet may reach unless the operator sets something else (settings/table.ts). */
export const FLEET = {
  /**
   * Per address: a fleet behind one gateway joins a hundred servers in two minutes. Each costs a signature of about a
   * millisecond, and a token has 256 random bits, so guessing is no concern.
   */
  enrolmentsPerMinute: 60,
  /** Of a packaged agent, 50 MB each, by address: 400 Mbit/s at most. */
  downloadsPerMinute: 60,
  /** They stop a runaway script, not a fleet. */
  serversPerOrganization: 1_000,
  projectsPerOrganization: 2_000,
} as const

/** The file for people who help. */
export const SUPPORT = {
  lines: 5_000,
  bytes: 16 * MiB,
  waitMs: 20 * SECOND,
  /** A shorter value would mask ordinary words. */
  shortestSecret: 6,
} as const

/** Traces on their way to a collector. */
export const TRACES = {
  /** Spans that wait; more are dropped. */
  queue: 4_096,
  batch: 512,
  exportMs: 10_000,
} as const

/** An upgrade of the control plane itself. */
export const UPGRADE = {
  /** Until the new version is ready, unless the operator says otherwise; with the way back it stays below a minute. */
  readyMs: 40 * SECOND,
  /** Ends of the new version before it counts as broken; one may be chance. */
  ends: 2,
  /** For the old version to answer again after a return. */
  backMs: MINUTE,
  stopMs: 30 * SECOND,
  /** A service manager has this long to start it again; then the upgrade does. */
  restartMs: 10 * SECOND,
  pollMs: 200,
  /** A version is a word. */
  answerBytes: 64 * KiB,
  downloadMs: 30 * MINUTE,
  /** An archive has 110 MB. */
  archiveBytes: GiB,
  /** An unpacked release is up to four times as large as its archive. */
  spaceFactor: 5,
  /** Starts of a new version whose upgrade was killed; then the version before returns. */
  orphanStarts: 3,
} as const
