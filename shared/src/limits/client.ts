// Bounds of the client, each with its reason.
import { DAY, HOUR, KiB, MINUTE, MiB, SECOND } from './units.ts'
/** The client `berth`. */
export const CLIENT = {
  requestMs: 30 * SECOND,
  /** Until there is a connection, with its encryption. */
  connectMs: 10 * SECOND,
  /** An answer that pauses for longer is lost: a log that is followed says something in between. */
  silenceMs: 5 * MINUTE,
  /** A poll that hangs must not eat the time in which others would answer. */
  pollRequestMs: 15 * SECOND,
  retries: 3,
  retryMs: 300,
  /** A longer Retry-After is told to the person instead of being waited for. */
  retryAfterMs: 30 * SECOND,
  redirects: 3,
  pollMs: SECOND,
  pollSlowAfterMs: 30 * SECOND,
  pollSlowMs: 3 * SECOND,
  backoffCapMs: 15 * SECOND,
  /** Without one answer for this long the wait ends: "no contact". */
  noContactMs: 5 * MINUTE,
  waitMs: 60 * MINUTE,
  waitMaxMs: DAY,
  /** What is left of a log when its task has ended. */
  logDrainMs: 10 * SECOND,
  answerBytes: 32 * MiB,
  stdinBytes: MiB,
  tokenBytes: 512,
  /** What a person types after a question. */
  answerLineBytes: 1_024,
  credentialsBytes: MiB,
  /** Twice this is less than the lock of the credentials file holds. */
  refreshMs: 4 * SECOND,
  /** RFC 8628: what `slow_down` adds. */
  slowDownMs: 5 * SECOND,
  lockStaleMs: 10 * SECOND,
  lockWaitMs: 20 * SECOND,
  lockPollMs: 25,
  pages: 100,
  listRows: 1_000,
  /** A longer escape sequence is no colour: its introducer is dropped, its payload shown. */
  sequenceChars: 4_096,
  logLineChars: MiB,
  excerptLines: 20,
  /** Steps that run side by side mix their lines: so many are read for the last of one step. */
  excerptScanLines: 2_000,
  excerptMs: 10 * SECOND,
  candidates: 5,
  spinnerAfterMs: 150,
  frameMs: 100,
  versionMs: SECOND,
  gitMs: 5 * SECOND,
  parentFolders: 64,
  /** Left behind by a client that was killed; younger ones may belong to one that starts just now. */
  sshFolderStaleMs: HOUR,
  /** The same for files on their way in; of a folder no more entries are looked at for them. */
  partStaleMs: HOUR,
  sweptEntries: 10_000,
  /** What a connection that broke off may still say of itself. */
  sshErrorBytes: 8 * KiB,
  /** Files that are whole and not yet on disk. */
  filesSettling: 64,
  /** Files that are made before their bytes come: each keeps a descriptor, of which a process may have only 1,024. */
  filesAhead: 900,
  /** For so long at a time. */
  filesAheadMs: 1,
  /** A large file is written out in such parts while it comes. */
  flushBytes: 32 * MiB,
  /** A file of so many bytes gets a session of its own, whose ssh writes into it: that outweighs the session's start. */
  ownSessionBytes: 128 * MiB,
  /** What another process writes into a file is read in such pieces, and after such a pause once it has caught up. */
  followBytes: MiB,
  followMs: 5,
  /** Between the end of its input and the end of ssh. */
  sshEndMs: SECOND,
  /** The forced command reads no longer request. */
  sshWordsBytes: 48 * KiB,
  /** A larger file is no public key. */
  publicKeyBytes: 8 * KiB,
  /** Sessions of one person at one server. */
  logServices: 8,
  /** How far back records are remembered, so that a new connection doubles none. */
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
} as const

/** Several files in one answer. Some proxies take no longer address than 8 KiB. */
export const ARTIFACT_BATCH = { queryChars: 6 * KiB } as const

/** `berth mcp`: what a model is given costs its context, and what it gives is bounded too. */
export const MCP = {
  textBytes: 12 * KiB,
  structuredBytes: 24 * KiB,
  lineChars: 500,
  lines: 80,
  linesMax: 500,
  /** Below the minute after which many hosts give a call up. */
  waitSeconds: 50,
  waitMaxSeconds: 900,
  /** Calls at once; a host has a handful. */
  calls: 16,
  /** Calls that wait for one of these to end. */
  callsWaiting: 64,
  /** All variables of an environment, every byte of them escaped, fit. */
  messageBytes: 4 * MiB,
  /** Looking up what the server is fixed to, before it answers the first message. */
  pinMs: 5 * SECOND,
  /** After a failure, for the end of its log. */
  logMs: 5 * SECOND,
  /** Of sentences that came from elsewhere: messages, hints. */
  sentenceChars: 1_000,
  wordChars: 200,
  hints: 8,
} as const
