// Allows one control plane per database. It holds a lock that the kernel or the database server releases when it dies,
// so a start after a crash does not wait: on SQLite a file lock beside the database, on PostgreSQL an advisory lock of
// its own connection. A row identifies the holder to a process that is refused.
import { closeSync, openSync } from 'node:fs'
import Database from 'better-sqlite3'
import pg from 'pg'
import type { Db } from '../engine/db.ts'
import type { ReplicasTable } from '../schema.ts'

type Replica = ReplicasTable

export interface Hold {
  release(): Promise<void>
}

/** Finds the last process that took the database. Undefined if there is none or the table does not exist yet. */
export async function findReplica(db: Db): Promise<Replica | undefined> {
  try {
    return await db
      .selectFrom('replicas')
      .selectAll()
      .orderBy('startedAt', 'desc')
      .limit(1)
      .executeTakeFirst()
  } catch {
    return undefined // the database is from before this table
  }
}

/** There is only one holder, so any other row belongs to a process that died. */
export async function saveReplica(db: Db, replica: Replica): Promise<void> {
  await db.deleteFrom('replicas').where('id', '!=', replica.id).execute()
  await db
    .insertInto('replicas')
    .values(replica)
    .onConflict((c) => c.column('id').doUpdateSet({ address: replica.address }))
    .execute()
}

/** Returns undefined if another process holds the lock. */
export function holdFile(file: string): Hold | undefined {
  closeSync(openSync(file, 'a', 0o600))
  const lock = new Database(file, { timeout: 0 })
  try {
    lock.exec('begin exclusive') // never ended, because nothing is written
    return {
      async release() {
        lock.close()
      },
    }
  } catch (error) {
    lock.close()
    if ((error as { code?: string }).code === 'SQLITE_BUSY') return undefined
    throw error
  }
}

const HOLD = 7_443_021 // arbitrary, the same for every control plane
const AGAIN_MS = 1_000

interface PostgresHoldOptions {
  url: string
  /**
   * Returns whether the row still names us; the holder may be our own dead connection that the server has not noticed
   * yet.
   */
  isOurs: () => Promise<boolean>
  /** Another process holds it now, so this one must end. */
  onLost: () => void
  onBroken: (error: Error) => void
}

/**
 * Returns undefined if another process holds the lock. Reconnects a broken connection unless another process took it.
 */
export async function holdPostgres(options: PostgresHoldOptions): Promise<Hold | undefined> {
  const hold = new PostgresHold(options)
  return (await hold.take()) ? hold : undefined
}

class PostgresHold implements Hold {
  readonly #o: PostgresHoldOptions
  #client: pg.Client | undefined
  #timer: NodeJS.Timeout | undefined
  #isReleased = false

  constructor(options: PostgresHoldOptions) {
    this.#o = options
  }

  async take(): Promise<boolean> {
    const client = new pg.Client({ connectionString: this.#o.url, keepAlive: true })
    client.on('error', () => {}) // the `end` event below handles it
    await client.connect()
    try {
      // the server notices within half a minute that this machine is unreachable
      await client.query('set tcp_keepalives_idle = 10')
      await client.query('set tcp_keepalives_interval = 5')
      await client.query('set tcp_keepalives_count = 3')
      await client.query('set idle_session_timeout = 0').catch(() => undefined) // unknown before PostgreSQL 14
      const { rows } = await client.query('select pg_try_advisory_lock($1) as taken', [HOLD])
      if (rows[0]?.taken !== true || this.#isReleased) {
        await client.end()
        return this.#isReleased
      }
    } catch (error) {
      await client.end().catch(() => undefined)
      throw error
    }
    this.#client = client
    client.once('end', () =>
      this.#broken(new Error('the connection that holds the database ended')),
    )
    return true
  }

  async release(): Promise<void> {
    this.#isReleased = true
    clearTimeout(this.#timer)
    await this.#client?.end().catch(() => undefined)
  }

  #broken(error: Error): void {
    if (this.#isReleased) return
    this.#o.onBroken(error)
    this.#timer = setTimeout(() => {
      this.#again().catch((failed: Error) => this.#broken(failed))
    }, AGAIN_MS)
  }

  async #again(): Promise<void> {
    if (await this.take()) return
    if (await this.#o.isOurs()) throw new Error('the former connection still has the lock')
    if (!this.#isReleased) this.#o.onLost()
  }
}
