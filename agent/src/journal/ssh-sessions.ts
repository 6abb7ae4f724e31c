// The table of SSH sessions in the journal, with one row for each session that was ever admitted. Invariant: a row is
// committed before the session's process learns where to listen, so every session has a row.
import type { Database, Statement } from 'better-sqlite3'

export const SSH_SESSIONS_SCHEMA = `
create table if not exists ssh_sessions (
  id text primary key,
  started_at integer not null,
  ended_at integer,
  body text not null
) strict;
`

/** A process of this boot; a pid counts only with its start time. */
export interface ProcessKey {
  pid: number
  startTicks: string
}

export interface SshSessionRow {
  id: string
  bootId: string
  /** Decimal. */
  serial: string
  keyId: string
  userId: number
  /** Null: the server itself. */
  environmentId: number | null
  verb: string
  account: string
  /** sshd's process for the connection. */
  relay: ProcessKey | null
  /** The session's worker process; null until it has started. */
  work: ProcessKey | null
  startedAt: number
  /** Unix seconds. */
  until: number
  /** Why this agent ends it; empty: it does not. */
  ending: string
  endedAt: number | null
  endReason: string
  bytesSent: number
  exitCode: number | null
}

interface RawRow {
  body: string
}

/** Agents before version 1.16 called the relay `door`; their sessions must still be found after an upgrade. */
function readRow(body: string): SshSessionRow {
  const { door = null, ...row } = JSON.parse(body) as SshSessionRow & { door?: ProcessKey | null }
  return { ...row, relay: row.relay ?? door }
}

export class SshSessionTable {
  readonly #put: Statement
  readonly #open: Statement
  readonly #drop: Statement

  constructor(db: Database) {
    this.#put = db.prepare(
      'insert or replace into ssh_sessions (id, started_at, ended_at, body) values (?, ?, ?, ?)',
    )
    this.#open = db.prepare(
      'select body from ssh_sessions where ended_at is null order by started_at',
    )
    this.#drop = db.prepare('delete from ssh_sessions where ended_at < ?')
  }

  /** Call inside a transaction of the journal. */
  put(row: SshSessionRow): void {
    this.#put.run(
      row.id,
      BigInt(row.startedAt),
      row.endedAt === null ? null : BigInt(row.endedAt),
      JSON.stringify(row),
    )
  }

  listOpen(): SshSessionRow[] {
    return (this.#open.all() as RawRow[]).map(({ body }) => readRow(body))
  }

  dropBefore(at: number): void {
    this.#drop.run(BigInt(at))
  }
}
