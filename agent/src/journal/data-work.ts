// What a backup or a restore has changed and must take back, a table of the ledger. A row is committed before the
// change, so that the recovery after a dead runner resumes what was paused and returns the former data.
import type { Database } from 'better-sqlite3'

export const DATA_WORK_SCHEMA = `
  CREATE TABLE IF NOT EXISTS data_work (
    environment_id INTEGER PRIMARY KEY, attempt_id TEXT NOT NULL, body TEXT NOT NULL
  ) STRICT;
`

/** Two folders that change places. */
export interface Swap {
  /** Where services find their data. */
  live: string
  other: string
  /** Inode of the folder with the restored data: it tells which one is where, whenever a runner dies. */
  restored: string
}

export interface DataWork {
  attemptId: string
  /** Containers that were paused, by name. */
  paused: string[]
  /** The processes of the environment's account were stopped by a signal. */
  isFrozen: boolean
  swaps: Swap[]
  /** The services are healthy with the restored data, so it stays. */
  isComplete: boolean
  /** Folders that exist only for this work. */
  folders: string[]
}

export const newWork = (attemptId: string): DataWork => ({
  attemptId,
  paused: [],
  isFrozen: false,
  swaps: [],
  isComplete: false,
  folders: [],
})

export class DataWorkTable {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  put(environmentId: number, work: DataWork): void {
    this.#db
      .prepare('INSERT OR REPLACE INTO data_work VALUES (?, ?, ?)')
      .run(environmentId, work.attemptId, JSON.stringify(work))
  }

  find(environmentId: number): DataWork | undefined {
    const body = this.#db
      .prepare('SELECT body FROM data_work WHERE environment_id = ?')
      .pluck()
      .get(environmentId) as string | undefined
    return body === undefined ? undefined : (JSON.parse(body) as DataWork)
  }

  remove(environmentId: number): void {
    this.#db.prepare('DELETE FROM data_work WHERE environment_id = ?').run(environmentId)
  }
}
