// Rows about attempts: what was accepted, how far it came, which fences were seen, which attempts were forgotten. Only
// reads and writes; attempts/ decides. Every write happens inside a transaction of the journal.
import { AttemptState, type Desired } from '@berth/shared/wire'
import type { Database, Statement } from 'better-sqlite3'

export interface AttemptRow {
  id: string
  environmentId: number
  fence: bigint
  state: AttemptState
  desired: Desired
  /** Encoded Assignment without secrets: the content of spec.bin. */
  assignment: Buffer
  startWithinMs: number
  /** Time of receipt on the monotonic clock of that boot. */
  receivedMonoMs: number
  receivedBootId: string
  waitingFor: string
  pid: number
  startTicks: string
  /** Last event of the runner's file that was written to the outbox. */
  importedOrdinal: number
  /** Encoded AttemptChanged of the current state, kept for repetition. */
  report: Buffer
}

export interface Tombstone {
  attemptId: string
  environmentId: number
  fence: bigint
  state: AttemptState
  report: Buffer
  expiresAt: number
}

/** Identifies an environment; the number alone may be reused by a control plane that was restored from a backup. */
interface KnownEnvironment {
  environmentId: number
  /** Creation time by the control plane's clock. */
  createdAt: number
  projectId: number
  /** Its newest task. */
  taskId: number
}

/** What is known of an environment, sent in the first message of a session. */
interface FenceRow extends KnownEnvironment {
  fence: bigint
}

type Row = Record<string, bigint | string | Buffer>

const readAttempt = (r: Row): AttemptRow => ({
  id: r.id as string,
  environmentId: Number(r.environment_id),
  fence: r.fence as bigint,
  state: Number(r.state) as AttemptState,
  desired: Number(r.desired) as Desired,
  assignment: r.assignment as Buffer,
  startWithinMs: Number(r.start_within_ms),
  receivedMonoMs: Number(r.received_mono_ms),
  receivedBootId: r.received_boot_id as string,
  waitingFor: r.waiting_for as string,
  pid: Number(r.pid),
  startTicks: r.start_ticks as string,
  importedOrdinal: Number(r.imported_ordinal),
  report: r.report as Buffer,
})

const writeAttempt = (a: AttemptRow): unknown[] => [
  a.environmentId,
  a.fence,
  a.state,
  a.desired,
  a.assignment,
  a.startWithinMs,
  Math.round(a.receivedMonoMs),
  a.receivedBootId,
  a.waitingFor,
  a.pid,
  a.startTicks,
  a.importedOrdinal,
  a.report,
  a.id,
]

const COLUMNS = `environment_id, fence, state, desired, assignment, start_within_ms, received_mono_ms,
  received_boot_id, waiting_for, pid, start_ticks, imported_ordinal, report, id`

export class AttemptTable {
  readonly #statements: Record<
    | 'all'
    | 'one'
    | 'insert'
    | 'update'
    | 'remove'
    | 'fence'
    | 'raise'
    | 'fences'
    | 'born'
    | 'know'
    | 'bury'
    | 'grave'
    | 'expire'
    | 'cursor'
    | 'saveCursor'
    | 'dropCursor',
    Statement
  >

  constructor(db: Database) {
    const marks = COLUMNS.split(',').map(() => '?')
    this.#statements = {
      all: db.prepare('select * from attempts order by id'),
      one: db.prepare('select * from attempts where id = ?'),
      insert: db.prepare(`insert into attempts (${COLUMNS}) values (${marks})`),
      update: db.prepare(
        `update attempts set (${COLUMNS}) = (${marks}) where id = ? and state <= ?`,
      ),
      remove: db.prepare('delete from attempts where id = ?'),
      fence: db.prepare('select max_fence from fences where environment_id = ?').pluck(),
      raise: db.prepare(`insert into fences (environment_id, max_fence, seen_at) values (?, ?, ?)
        on conflict (environment_id) do update set max_fence = excluded.max_fence,
          seen_at = excluded.seen_at where excluded.max_fence > max_fence`),
      fences: db.prepare(`select environment_id, max_fence, coalesce(created_at, 0) as created_at,
          coalesce(project_id, 0) as project_id, coalesce(task_id, 0) as task_id
        from fences left join known_environments using (environment_id)
        order by seen_at desc, environment_id limit ?`),
      born: db
        .prepare('select created_at from known_environments where environment_id = ?')
        .pluck(),
      know: db.prepare(`insert into known_environments (environment_id, created_at, project_id, task_id)
        values (?, ?, ?, ?)
        on conflict (environment_id) do update set task_id = max(task_id, excluded.task_id)`),
      bury: db.prepare(`insert into tombstones
        (attempt_id, environment_id, fence, state, report, expires_at) values (?, ?, ?, ?, ?, ?)
        on conflict (attempt_id) do nothing`),
      grave: db.prepare('select * from tombstones where attempt_id = ?'),
      expire: db.prepare('delete from tombstones where expires_at < ?'),
      cursor: db.prepare('select acked_seq from log_cursors where attempt_id = ?').pluck(),
      saveCursor: db.prepare(`insert into log_cursors (attempt_id, acked_seq) values (?, ?)
        on conflict (attempt_id) do update set acked_seq = max(acked_seq, excluded.acked_seq)`),
      dropCursor: db.prepare('delete from log_cursors where attempt_id = ?'),
    }
  }

  list(): AttemptRow[] {
    return (this.#statements.all.all() as Row[]).map(readAttempt)
  }

  find(id: string): AttemptRow | undefined {
    const row = this.#statements.one.get(id) as Row | undefined
    return row && readAttempt(row)
  }

  insert(attempt: AttemptRow): void {
    this.#statements.insert.run(...writeAttempt(attempt))
  }

  /** Refuses to move a state back: numbers never decrease, and terminal states are final. */
  update(attempt: AttemptRow): void {
    const before = this.find(attempt.id)
    if (!before) throw new Error(`attempt ${attempt.id} is not in the journal`)
    const final = before.state >= AttemptState.SUCCEEDED && before.state !== attempt.state
    const { changes } = final
      ? { changes: 0 }
      : this.#statements.update.run(...writeAttempt(attempt), attempt.id, attempt.state)
    if (changes === 0) {
      throw new Error(`attempt ${attempt.id} cannot go from ${before.state} to ${attempt.state}`)
    }
  }

  remove(id: string): void {
    this.#statements.remove.run(id)
    this.#statements.dropCursor.run(id)
  }

  maxFence(environmentId: number): bigint {
    return (this.#statements.fence.get(environmentId) as bigint | undefined) ?? 0n
  }

  raiseFence(environmentId: number, fence: bigint, nowMs: number): void {
    this.#statements.raise.run(environmentId, fence, Math.round(nowMs))
  }

  /** Newest first. */
  listFences(count: number): FenceRow[] {
    const rows = this.#statements.fences.all(count) as Row[]
    return rows.map((r) => ({
      environmentId: Number(r.environment_id),
      fence: r.max_fence as bigint,
      createdAt: Number(r.created_at),
      projectId: Number(r.project_id),
      taskId: Number(r.task_id),
    }))
  }

  /** Creation time of the environment with this number; 0: the control plane did not send it. */
  bornAt(environmentId: number): number {
    return Number(this.#statements.born.get(environmentId) ?? 0)
  }

  knowEnvironment(known: KnownEnvironment): void {
    const { environmentId, createdAt, projectId, taskId } = known
    this.#statements.know.run(environmentId, createdAt, projectId, taskId)
  }

  bury(t: Tombstone): void {
    const at = Math.round(t.expiresAt)
    this.#statements.bury.run(t.attemptId, t.environmentId, t.fence, t.state, t.report, at)
  }

  findTombstone(attemptId: string): Tombstone | undefined {
    const r = this.#statements.grave.get(attemptId) as Row | undefined
    return (
      r && {
        attemptId,
        environmentId: Number(r.environment_id),
        fence: r.fence as bigint,
        state: Number(r.state) as AttemptState,
        report: r.report as Buffer,
        expiresAt: Number(r.expires_at),
      }
    )
  }

  expireTombstones(nowMs: number): void {
    this.#statements.expire.run(Math.round(nowMs))
  }

  /** The last log record that the control plane has acknowledged. */
  logCursor(attemptId: string): bigint {
    return (this.#statements.cursor.get(attemptId) as bigint | undefined) ?? 0n
  }

  saveLogCursor(attemptId: string, ackedSeq: bigint): void {
    this.#statements.saveCursor.run(attemptId, ackedSeq)
  }
}
