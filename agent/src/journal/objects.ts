// What this agent owns in the Docker engine, a table of the ledger. Invariant: a row is committed before its object is
// created and deleted after the object is gone, so every object of ours has an owner.
import type Database from 'better-sqlite3'

export const OBJECTS_SCHEMA = `
  CREATE TABLE IF NOT EXISTS objects (
    kind TEXT NOT NULL, name TEXT NOT NULL, environment_id INTEGER NOT NULL, task_id INTEGER NOT NULL,
    attempt_id TEXT NOT NULL, service TEXT NOT NULL, state TEXT NOT NULL, facts TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (kind, name, environment_id)
  ) STRICT;
`

/** pulled: a registry's image that the agent fetched, named by its reference; several environments may use it. */
export type ObjectKind = 'container' | 'image' | 'pulled' | 'network' | 'volume'

/**
 * making: of a deployment that has not succeeded. serving: of the running version. paused: of the running version,
 * stopped while `attemptId` tries its successor. retired: replaced, to be removed. kept: not of the running version,
 * but needed (images for a rollback).
 */
export type ObjectState = 'making' | 'serving' | 'paused' | 'retired' | 'kept'

interface ObjectKey {
  kind: ObjectKind
  name: string
  environmentId: number
}

export interface ObjectRow extends ObjectKey {
  /** The task that created it. */
  taskId: number
  /** The attempt that creates, pauses or replaces it. */
  attemptId: string
  /** Empty: it belongs to the whole environment. */
  service: string
  state: ObjectState
  /** Depends on the kind: subnet, image id, commit, hash of the spec. Never a value of a variable. */
  facts: Record<string, unknown>
  /** When the row was written. */
  at: string
}

interface ObjectFilter {
  environmentId?: number | undefined
  kind?: ObjectKind | undefined
  taskId?: number | undefined
}

interface RawObject {
  kind: string
  name: string
  environment_id: number
  task_id: number
  attempt_id: string
  service: string
  state: string
  facts: string
  at: string
}

const toRow = (raw: RawObject): ObjectRow => ({
  kind: raw.kind as ObjectKind,
  name: raw.name,
  environmentId: raw.environment_id,
  taskId: raw.task_id,
  attemptId: raw.attempt_id,
  service: raw.service,
  state: raw.state as ObjectState,
  facts: JSON.parse(raw.facts) as Record<string, unknown>,
  at: raw.at,
})

export class Objects {
  readonly #db: Database.Database

  /** `db` contains the table. */
  constructor(db: Database.Database) {
    this.#db = db
  }

  /** A second put of the same key replaces the row. */
  put(row: Omit<ObjectRow, 'at'>): void {
    this.#db
      .prepare('INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)')
      .run(
        row.kind,
        row.name,
        row.environmentId,
        row.taskId,
        row.attemptId,
        row.service,
        row.state,
        JSON.stringify(row.facts),
        new Date().toISOString(),
      )
  }

  /** Oldest deployment first. */
  list({ environmentId, kind, taskId }: ObjectFilter = {}): ObjectRow[] {
    const sql = `SELECT * FROM objects WHERE (@environment IS NULL OR environment_id = @environment)
      AND (@kind IS NULL OR kind = @kind) AND (@task IS NULL OR task_id = @task) ORDER BY task_id, kind, name`
    const values = {
      environment: environmentId ?? null,
      kind: kind ?? null,
      task: taskId ?? null,
    }
    return (this.#db.prepare(sql).all(values) as RawObject[]).map(toRow)
  }

  /** Without `attemptId`, the row keeps its attempt. */
  setState(key: ObjectKey, state: ObjectState, attemptId?: string): void {
    this.#db
      .prepare(
        `UPDATE objects SET state = ?, attempt_id = coalesce(?, attempt_id)
         WHERE kind = ? AND name = ? AND environment_id = ?`,
      )
      .run(state, attemptId ?? null, key.kind, key.name, key.environmentId)
  }

  remove(key: ObjectKey): void {
    this.#db
      .prepare('DELETE FROM objects WHERE kind = ? AND name = ? AND environment_id = ?')
      .run(key.kind, key.name, key.environmentId)
  }

  /** The engine holds nothing of the environment. */
  forget(environmentId: number): void {
    this.#db.prepare('DELETE FROM objects WHERE environment_id = ?').run(environmentId)
  }

  /** Subnets of the networks of all environments. */
  takenSubnets(): string[] {
    return this.list({ kind: 'network' }).flatMap(({ facts }) =>
      typeof facts.subnet === 'string' ? [facts.subnet] : [],
    )
  }

  /**
   * Marks these containers and the images of this attempt as serving; every other container of the environment retires.
   */
  serve(environmentId: number, containers: string[], attemptId?: string): void {
    this.#db
      .prepare(
        `UPDATE objects SET state = 'serving'
         WHERE environment_id = ? AND kind IN ('image', 'pulled') AND attempt_id = ?`,
      )
      .run(environmentId, attemptId ?? null)
    this.#db
      .prepare(
        `UPDATE objects SET state = CASE WHEN name IN (SELECT value FROM json_each(?)) THEN 'serving' ELSE 'retired' END
         WHERE environment_id = ? AND kind = 'container'`,
      )
      .run(JSON.stringify(containers), environmentId)
  }
}
