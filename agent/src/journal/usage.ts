// Disk use of environments, in the ledger: how much each of the last deployments grew a file system, how much an
// environment takes by the last measurement, and which engines were empty when first seen. These rows are facts for
// decisions; they own nothing.

import type { Database } from 'better-sqlite3'
import { DISK_SPACE } from '../limits/machine.ts'

export const USAGE_SCHEMA = `
  CREATE TABLE IF NOT EXISTS growths (
    environment_id INTEGER NOT NULL, task_id INTEGER NOT NULL, folder TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (environment_id, task_id, folder)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS usage (
    environment_id INTEGER PRIMARY KEY, name TEXT NOT NULL, bytes INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS ceilings (
    environment_id INTEGER PRIMARY KEY, disk_bytes INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS engines (id TEXT PRIMARY KEY, exclusive INTEGER NOT NULL) STRICT;
`

export interface EnvironmentUsage {
  environmentId: number
  /** As users see it: pr-31. */
  name: string
  bytes: number
}

export class UsageTable {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** Stores how much this deployment grew the file system that holds `folder`; the last few are kept. */
  addGrowth(environmentId: number, taskId: number, folder: string, bytes: number): void {
    this.#db
      .transaction(() => {
        this.#db
          .prepare('INSERT OR REPLACE INTO growths VALUES (?, ?, ?, ?)')
          .run(environmentId, taskId, folder, Math.round(bytes))
        this.#db
          .prepare(
            `DELETE FROM growths WHERE environment_id = @environmentId AND folder = @folder AND task_id NOT IN (
               SELECT task_id FROM growths WHERE environment_id = @environmentId AND folder = @folder
               ORDER BY task_id DESC LIMIT ${DISK_SPACE.growths})`,
          )
          .run({ environmentId, folder })
      })
      .immediate()
  }

  /** Newest first; empty: no deployment has been recorded. */
  growths(environmentId: number, folder: string): number[] {
    const sql =
      'SELECT bytes FROM growths WHERE environment_id = ? AND folder = ? ORDER BY task_id DESC'
    return this.#db.prepare(sql).pluck().all(environmentId, folder) as number[]
  }

  setName(environmentId: number, name: string): void {
    this.#db
      .prepare(
        `INSERT INTO usage VALUES (?, ?, 0)
         ON CONFLICT (environment_id) DO UPDATE SET name = excluded.name WHERE name <> excluded.name`,
      )
      .run(environmentId, name)
  }

  /** Ignores an environment that has no name here, because it cannot be reported. */
  setBytes(environmentId: number, bytes: number): void {
    this.#db
      .prepare('UPDATE usage SET bytes = ? WHERE environment_id = ?')
      .run(Math.round(bytes), environmentId)
  }

  /** Stores the environment's disk limit, as its last deployment received it. */
  setCeiling(environmentId: number, diskBytes: number): void {
    this.#db
      .prepare('INSERT OR REPLACE INTO ceilings VALUES (?, ?)')
      .run(environmentId, Math.round(diskBytes))
  }

  /** Undefined: it stays within its limit, or has none. */
  findExcess(environmentId: number): { name: string; bytes: number; most: number } | undefined {
    const sql = `SELECT name, bytes, disk_bytes AS most FROM usage JOIN ceilings USING (environment_id)
      WHERE environment_id = ? AND bytes > disk_bytes`
    return this.#db.prepare(sql).get(environmentId) as
      | { name: string; bytes: number; most: number }
      | undefined
  }

  /** Largest first. */
  list(): EnvironmentUsage[] {
    const rows = this.#db
      .prepare('SELECT * FROM usage ORDER BY bytes DESC, environment_id')
      .all() as { environment_id: number; name: string; bytes: number }[]
    return rows.map(({ environment_id: environmentId, ...rest }) => ({ environmentId, ...rest }))
  }

  /** Whether the engine with this id held only our objects when first seen; undefined: it was not seen yet. */
  isExclusive(engineId: string): boolean | undefined {
    const found = this.#db
      .prepare('SELECT exclusive FROM engines WHERE id = ?')
      .pluck()
      .get(engineId)
    return found === undefined ? undefined : found === 1
  }

  setExclusive(engineId: string, isExclusive: boolean): void {
    this.#db
      .prepare('INSERT OR REPLACE INTO engines VALUES (?, ?)')
      .run(engineId, isExclusive ? 1 : 0)
  }
}
