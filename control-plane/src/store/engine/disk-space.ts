// Checks whether there is disk space. In our own folder it writes a file; for a database elsewhere it uses the last
// refusal, which counts until a write succeeds. Health checks call it, so it checks at most once a second.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Db } from './db.ts'
import { isStorageFull, type Refusals } from './faults.ts'

/** More than one database page and one chunk of a log. */
const PROBE = Buffer.alloc(64 * 1_024)
const LOOK_EACH_MS = 1_000

/** Writes a file, because only a write respects quotas and reserved blocks as the next write will. */
export function hasSpace(folder: string): boolean {
  const file = join(folder, '.room')
  try {
    writeFileSync(file, PROBE, { mode: 0o600 })
    return true
  } catch (error) {
    return !isStorageFull(error)
  } finally {
    rmSync(file, { force: true })
  }
}

export class DiskSpace {
  readonly #folder: string
  readonly #db: Db
  readonly #refusals: Refusals
  #looked: { at: number; isFull: boolean } | undefined

  constructor({ db, refusals }: { db: Db; refusals: Refusals }, folder: string) {
    this.#db = db
    this.#refusals = refusals
    this.#folder = folder
  }

  async isFull(): Promise<boolean> {
    const now = performance.now()
    if (this.#looked && now - this.#looked.at < LOOK_EACH_MS) return this.#looked.isFull
    const isFull = !hasSpace(this.#folder) || (this.#refusals.isFull && !(await this.#canWrite()))
    this.#looked = { at: now, isFull }
    return isFull
  }

  /**
   * Updates a row without changing it; PostgreSQL stores a new version. SQLite stores nothing, but its disk is the
   * local one.
   */
  async #canWrite(): Promise<boolean> {
    try {
      await this.#db
        .updateTable('installation')
        .set((eb) => ({ installationId: eb.ref('installationId') }))
        .execute()
      this.#refusals.isFull = false
      return true
    } catch (error) {
      if (!isStorageFull(error)) throw error
      return false
    }
  }
}
