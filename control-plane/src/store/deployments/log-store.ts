// What both stores of logs offer: files beside SQLite (log-files.ts), blocks in partitions of PostgreSQL
// (log-blocks.ts). They differ in what is durable when, so writing ends in app/deployments/logs.ts.
import type { LogPosition, RecordQuery, StoredRecord } from './log-index.ts'

export interface LogReads {
  read(attemptId: string, from: number, to: number): AsyncGenerator<Buffer>
  records(attemptId: string, query: RecordQuery): AsyncGenerator<StoredRecord>
  /** Like `records`, but yields only bytes, in chunks as large as possible. */
  runs(attemptId: string, query: RecordQuery): AsyncGenerator<Buffer>
  /** Returns the index (from 0) of the first record in this line or after it. */
  findLine(attemptId: string, line: number, records: number): Promise<number>
  /** Returns the lines in which records (seq from 1) begin. */
  linesOf(attemptId: string, seqs: readonly number[]): Promise<number[]>
  /** Returns false if the log is missing or incomplete. */
  isWhole(attemptId: string, length: Omit<LogPosition, 'lines'>): Promise<boolean>
  hash(attemptId: string, bytes: number): Promise<string>
}

/** Appends the records of one stream. Nothing is durable until the store wrote it. */
export interface LogWriter {
  append(at: LogPosition, region: Buffer): LogPosition
  /** Hands over what is only in memory; files hold everything already. */
  take(): Block[]
}

/** Of data and index together; a block may exceed it by one chunk or record. */
export const BLOCK_BYTES = 128 * 1_024

/** A part of a log: its records from `seq` (from 0) on. */
export interface Block {
  seq: number
  records: number
  /** Offset of its first byte. */
  start: number
  /** Line of its first record. */
  line: number
  entries: Buffer
  data: Buffer
}

/** A log that moves from one position to the next. */
export interface LogStep {
  attemptId: string
  /** The session whose stream feeds it. */
  sessionId: string
  from: LogPosition
  to: LogPosition
  gap: boolean
  blocks: Block[]
}
