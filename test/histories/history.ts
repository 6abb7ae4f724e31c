// A history: what clients, readers, applications and the harness saw, one JSON object in each line of a file. Several
// processes append to the same file, so the order of lines means nothing; `t` does. checker.ts judges it.
//
// Every operation has `t` (milliseconds since the epoch, by the one clock of the machine), `process` (who saw it, for
// example "client-3", "reader-1", "application", "harness"), `f` and `type`, and the fields of its `f`:
//
//   f         type    means
//   deploy    invoke  a client sends a request for a deployment: key, environment
//             ok      it was acknowledged: key, environment, task
//             fail    it was refused, and certainly nothing happened: key, environment
//             info    the answer was lost or 5xx, so the outcome is unknown: key, environment
//   run       invoke  the application itself began: environment, task, attempt; fence if the application knows it
//             ok      it ended well: the same
//             fail    it ended with an error: the same
//             info    it was killed, and certainly runs no more: the same
//   event     ok      a reader received an event: reader, seq, and kind, task if it has them, stream if not all events
//   resume    info    a reader connects: reader, after (the last number that it has; absent: it begins now)
//   begun     info    the first position of a reader: reader, seq
//   reset     info    a reader was told that its position is unknown, and continues: reader, seq
//   bytes     ok      a reader received output of a task: reader, task, from (offset), length
//   notice    ok      a receiver outside got a signed delivery: id, task, about (the word of what happened)
//   assigned  ok      at the end, an attempt of the table: environment, task, attempt, fence, number in the task
//   task      ok      at the end, a task of the table: environment, task, status, logDigest
//   stored    ok      at the end, an event of the table: seq, kind, task; stream if a reader's stream has not all events
//   written   ok      the application's own copy of its output: task, digest
//   followed  ok      the output of a task as a live reader has it at the end: reader, task, digest
//
// Clients repeat a request under the same key until it is acknowledged or refused. Each `invoke` is one request.
// A harness writes what it can know; rules without their operations judge nothing, and the checker counts what it judged.
import { appendFileSync, readFileSync } from 'node:fs'

interface Seen {
  t: number
  process: string
}

export interface DeployOp extends Seen {
  f: 'deploy'
  type: 'invoke' | 'ok' | 'fail' | 'info'
  key: string
  environment: number
  task?: number
}
export interface RunOp extends Seen {
  f: 'run'
  type: 'invoke' | 'ok' | 'fail' | 'info'
  environment: number
  task: number
  attempt: string
  fence?: number
}
export interface EventOp extends Seen {
  f: 'event'
  type: 'ok'
  reader: string
  stream?: string
  seq: number
  kind?: string
  task?: number
}
export interface PositionOp extends Seen {
  f: 'resume' | 'begun' | 'reset'
  type: 'info'
  reader: string
  seq?: number
  after?: number
}
export interface BytesOp extends Seen {
  f: 'bytes'
  type: 'ok'
  reader: string
  task: number
  from: number
  length: number
}
export interface NoticeOp extends Seen {
  f: 'notice'
  type: 'ok'
  id: string
  task: number
  about: string
}
export interface AssignedOp extends Seen {
  f: 'assigned'
  type: 'ok'
  environment: number
  task: number
  attempt: string
  fence: number
  number: number
}
export interface TaskOp extends Seen {
  f: 'task'
  type: 'ok'
  environment: number
  task: number
  status: string
  logDigest?: string
}
export interface StoredOp extends Seen {
  f: 'stored'
  type: 'ok'
  stream?: string
  seq: number
  kind?: string
  task?: number
}
export interface WrittenOp extends Seen {
  f: 'written'
  type: 'ok'
  task: number
  digest: string
}

export interface FollowedOp extends Seen {
  f: 'followed'
  type: 'ok'
  reader: string
  task: number
  digest: string
}

export type Op =
  | FollowedOp
  | DeployOp
  | RunOp
  | EventOp
  | PositionOp
  | BytesOp
  | NoticeOp
  | AssignedOp
  | TaskOp
  | StoredOp
  | WrittenOp

/** Without the time, which the writer adds. */
export type NewOp = Op extends infer O ? (O extends Op ? Omit<O, 't' | 'process'> : never) : never

/** Appends to a file; a line of this size is written whole, so several processes may share it. */
export class HistoryWriter {
  readonly #file: string
  readonly #process: string

  constructor(file: string, process: string) {
    this.#file = file
    this.#process = process
  }

  add(op: NewOp, t = Date.now()): void {
    appendFileSync(this.#file, `${JSON.stringify({ t, process: this.#process, ...op })}\n`)
  }
}

export const readHistory = (file: string): Op[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Op)
