// Limits of the client and of its MCP server. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { DAY, GiB, HOUR, KiB, MINUTE, MiB, SECOND } from '@berth/shared/units'

/** The client `berth`. */
export const CLIENT = {
  requestMs: 30 * SECOND,
  /** Connecting a forge asks it several times and waits for a test delivery. */
  forgeMs: 60 * SECOND,
  /** To connect, including TLS. */
  connectMs: 10 * SECOND,
  /** An answer that pauses longer is lost; a followed log sends something in between. */
  silenceMs: 5 * MINUTE,
  /** A hanging poll must not use up the time in which others would answer. */
  pollRequestMs: 15 * SECOND,
  retries: 3,
  retryMs: 300,
  /** A longer Retry-After is reported to the user instead of waited for. */
  retryAfterMs: 30 * SECOND,
  redirects: 3,
  pollMs: SECOND,
  pollSlowAfterMs: 30 * SECOND,
  pollSlowMs: 3 * SECOND,
  backoffCapMs: 15 * SECOND,
  /** Without any answer for this long, the wait ends with "no contact". */
  noContactMs: 5 * MINUTE,
  waitMs: 60 * MINUTE,
  waitMaxMs: DAY,
  /** For the rest of a log after its task has ended. */
  logDrainMs: 10 * SECOND,
  answerBytes: 32 * MiB,
  stdinBytes: MiB,
  tokenBytes: 512,
  /** What a user types after a question. */
  answerLineBytes: 1_024,
  credentialsBytes: MiB,
  /** Twice this is less than the lifetime of the credentials file's lock. */
  refreshMs: 4 * SECOND,
  /** RFC 8628: what `slow_down` adds. */
  slowDownMs: 5 * SECOND,
  lockStaleMs: 10 * SECOND,
  lockWaitMs: 20 * SECOND,
  lockPollMs: 25,
  pages: 100,
  listRows: 1_000,
  /** A longer escape sequence is not a colour: its introducer is dropped, its payload shown. */
  sequenceChars: 4_096,
  logLineChars: MiB,
  excerptLines: 20,
  /** Lines to read for the last ones of a step, because parallel steps mix their lines. */
  excerptScanLines: 2_000,
  excerptMs: 10 * SECOND,
  /** Lines read for the last one of each running step. */
  lastLinesRead: 50,
  candidates: 5,
  spinnerAfterMs: 150,
  frameMs: 100,
  versionMs: SECOND,
  gitMs: 5 * SECOND,
  parentFolders: 64,
  /** Age from which a folder was left by a killed client; a younger one may belong to a client that is starting. */
  sshFolderStaleMs: HOUR,
  /** The same for unfinished downloads; `sweptEntries` limits the entries that are checked. */
  partStaleMs: HOUR,
  sweptEntries: 10_000,
  /** Error output that is kept of a broken connection. */
  sshErrorBytes: 8 * KiB,
  /** Complete files that are not yet on disk. */
  filesSettling: 64,
  /** Files created before their bytes arrive; each holds a descriptor, and a process may have only 1,024. */
  filesAhead: 900,
  /** Longest time spent on that per turn. */
  filesAheadMs: 1,
  /** A large file is flushed in parts of this size while it arrives. */
  flushBytes: 32 * MiB,
  /**
   * From this size on a file gets its own session, whose ssh writes into it; that saves more than the session's start
   * costs.
   */
  ownSessionBytes: 128 * MiB,
  /** Chunk size for reading what another process writes to a file, and the pause once the reader has caught up. */
  followBytes: MiB,
  followMs: 5,
  /** Between the end of its input and the end of ssh. */
  sshEndMs: SECOND,
  /** The forced command refuses longer requests. */
  sshWordsBytes: 48 * KiB,
  /** A larger file is not a public key. */
  publicKeyBytes: 8 * KiB,
  /** Sessions of one user on one server. */
  logServices: 8,
  /** How far back records are remembered, so that a reconnect repeats none. */
  logOverlapMs: 30 * SECOND,
  logOverlapRecords: 20_000,
  /** How long a record waits for older ones of other services. */
  logMergeMs: 250,
  logLookBackMs: 400 * DAY,
  /** Answers of the server for completions. */
  completionMs: 800,
  completionCacheMs: 30 * SECOND,
  completionWords: 200,
  portProbeMs: 5 * SECOND,
  /** A look at a folder, to find out what it holds: folders deep, entries, files read, and bytes of one. */
  lookFolders: 3,
  lookEntries: 20_000,
  lookFiles: 200,
  lookBytes: 256 * KiB,
  /** A question to a git server, or hooks of a commit. */
  gitRemoteMs: 30 * SECOND,
  /** A push may transfer a whole history. */
  gitPushMs: 10 * MINUTE,
  /** Of one `berth copy`; the server has the same limit of bytes. */
  copyBytes: 16 * GiB,
  copyEntries: 200_000,
  /** Folders inside each other. */
  copyDepth: 64,
  /** Between lines of progress, if no terminal shows it. */
  progressMs: 30 * SECOND,
} as const

/** `berth mcp`: results cost the model's context, and its input is limited too. */
export const MCP = {
  textBytes: 12 * KiB,
  structuredBytes: 24 * KiB,
  lineChars: 500,
  lines: 80,
  linesMax: 500,
  /** Below the minute after which many MCP hosts time out a call. */
  waitSeconds: 50,
  waitMaxSeconds: 900,
  /** Concurrent calls; a host has a handful. */
  calls: 16,
  /** Calls that wait for one of these to end. */
  callsWaiting: 64,
  /** Fits all variables of an environment with every byte escaped. */
  messageBytes: 4 * MiB,
  /** To look up what the server is pinned to, before it answers the first message. */
  pinMs: 5 * SECOND,
  /** After a failure, for the end of its log. */
  logMs: 5 * SECOND,
  /** Of messages and hints that came from elsewhere. */
  sentenceChars: 1_000,
  wordChars: 200,
  hints: 8,
} as const
