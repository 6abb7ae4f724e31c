// The index of the artifact store, a table of the ledger: what was collected, as it was collected. Rows of one task
// appear together, after all their bytes are on disk; an artifact without a row does not exist.
import type { Database } from 'better-sqlite3'

export const ARTIFACTS_SCHEMA = `
  CREATE TABLE IF NOT EXISTS artifacts (
    id TEXT PRIMARY KEY, environment_id INTEGER NOT NULL, task_id INTEGER NOT NULL, path TEXT NOT NULL,
    size INTEGER NOT NULL, sha256 BLOB NOT NULL, modified_at INTEGER NOT NULL, stored_ino TEXT NOT NULL,
    stored_mtime_ns TEXT NOT NULL, expires_at INTEGER NOT NULL, removed INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX IF NOT EXISTS artifacts_by_expiry ON artifacts (removed, expires_at);
`

export interface ArtifactRow {
  /** Random; the only name by which it can be requested. */
  id: string
  environmentId: number
  taskId: number
  /** Relative to the action's folder; shown to users, never opened. */
  path: string
  size: number
  sha256: Buffer
  /** Modification time of the original, in milliseconds. */
  modifiedAt: number
  /** Inode of the copy: another file of that name, or a modified one, is not the collected artifact. */
  storedIno: bigint
  storedMtimeNs: bigint
  expiresAt: number
}

interface Raw {
  id: string
  environment_id: number
  task_id: number
  path: string
  size: number
  sha256: Buffer
  modified_at: number
  stored_ino: string
  stored_mtime_ns: string
  expires_at: number
}

const toRow = (raw: Raw): ArtifactRow => ({
  id: raw.id,
  environmentId: raw.environment_id,
  taskId: raw.task_id,
  path: raw.path,
  size: raw.size,
  sha256: raw.sha256,
  modifiedAt: raw.modified_at,
  storedIno: BigInt(raw.stored_ino),
  storedMtimeNs: BigInt(raw.stored_mtime_ns),
  expiresAt: raw.expires_at,
})

export class ArtifactTable {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** All or none. */
  add(rows: readonly ArtifactRow[]): void {
    const insert = this.#db.prepare(
      'INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)',
    )
    this.#db
      .transaction(() => {
        for (const row of rows) {
          insert.run(
            row.id,
            row.environmentId,
            row.taskId,
            row.path,
            row.size,
            row.sha256,
            row.modifiedAt,
            String(row.storedIno),
            String(row.storedMtimeNs),
            row.expiresAt,
          )
        }
      })
      .immediate()
  }

  /** In the given order; undefined for ids without a row. */
  findAll(ids: readonly string[]): (ArtifactRow | undefined)[] {
    const find = this.#db.prepare('SELECT * FROM artifacts WHERE id = ?')
    const read = this.#db.transaction(() => ids.map((id) => find.get(id) as Raw | undefined))
    return read().map((raw) => raw && toRow(raw))
  }

  /**
   * Total bytes of those that belong to this environment, counting repeated ids; SQLite sums without returning rows.
   */
  sumSizes(ids: readonly string[], environmentId: number): number {
    const sql =
      'SELECT total(a.size) AS bytes FROM json_each(?) AS asked JOIN artifacts AS a ON a.id = asked.value ' +
      'WHERE a.environment_id = ?'
    const { bytes } = this.#db.prepare(sql).get(JSON.stringify(ids), environmentId) as {
      bytes: number
    }
    return bytes
  }

  /** Expired artifacts whose files still exist. */
  listExpired(now: number): ArtifactRow[] {
    const sql =
      'SELECT * FROM artifacts WHERE removed = 0 AND expires_at <= ? ORDER BY expires_at LIMIT 10000'
    return (this.#db.prepare(sql).all(now) as Raw[]).map(toRow)
  }

  hasTask(environmentId: number, taskId: number): boolean {
    const sql =
      'SELECT 1 FROM artifacts WHERE environment_id = ? AND task_id = ? AND removed = 0 LIMIT 1'
    return this.#db.prepare(sql).get(environmentId, taskId) !== undefined
  }

  /** Their files are deleted; requests for them answer that they expired. */
  markRemoved(ids: readonly string[]): void {
    const mark = this.#db.prepare('UPDATE artifacts SET removed = 1 WHERE id = ?')
    this.#db
      .transaction(() => {
        for (const id of ids) mark.run(id)
      })
      .immediate()
  }

  forgetExpiredBefore(time: number): void {
    this.#db.prepare('DELETE FROM artifacts WHERE removed = 1 AND expires_at <= ?').run(time)
  }
}
