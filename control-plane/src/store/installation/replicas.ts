// One control plane a database. Who has it holds a lock that its system or its database server takes away when it dies,
// however it dies, so that a start after a crash need not wait: on SQLite a lock of the kernel on a file beside the
// database, on PostgreSQL an advisory lock of a connection of its own. A row says who it is, for the one that is refused.
import { closeSync, openSync } from 'node:fs'
import Database from 'better-sqlite3'
import pg from 'pg'
import type { Db } from '../engine/db.ts'
import type { ReplicasTable } from '../schema.ts'

export type Replica = ReplicasTable

export interface Hold {
  release(): Promise<void>
}

/** The newest to have taken the database; undefined: none, or the table is not made yet. */
export async function findReplica(db: Db): Promise<Replica | undefined> {
  try {
    return await db
      .selectFrom('replicas')
      .selectAll()
      .orderBy('startedAt', 'desc')
      .limit(1)
      .executeTakeFirst()
  } catch {
    return undefined // one of before this table has it
  }
}

/** There is one, so whatever other row there is belongs to one that died. */
export async function saveReplica(db: Db, replica: Replica): Promise<void> {
  await db.deleteFrom('replicas').where('id', '!=', replica.id).execute()
  await db
    .insertInto('replicas')
    .values(replica)
    .onConflict((c) => c.column('id').doUpdateSet({ address: replica.address }))
    .execute()
}

/** Undefined: another process has it. */
export function holdFile(file: string): Hold | undefined {
  closeSync(openSync(file, 'a', 0o600))
  const lock = new Database(file, { timeout: 0 })
  try {
    lock.exec('begin exclusive') // never ended: nothing is ever written
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

const HOLD = 7_443_021 // any number, the same for every control plane
const AGAIN_MS = 1_000

export interface PostgresHoldOptions {
  url: string
  /** Whether the row still names us: our own connection may be the one that is not yet known to be dead. */
  isOurs: () => Promise<boolean>
  /** Another one has it now: this process must end. */
  onLost: () => void
  onBroken: (error: Error) => void
}

/** Undefined: another process has it. A connection that breaks is made again, as long as no other process took the lock. */
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
    client.on('error', () => {}) // its end is heard of below
    await client.connect()
    try {
      // the other end notices within half a minute that this machine is gone
      await client.query('set tcp_keepalives_idle = 10')
      await client.query('set tcp_keepalives_interval = 5')
      await client.query('set tcp_keepalives_count = 3')
      await client.query('set idle_session_timeout = 0').catch(() => undefined) // before PostgreSQL 14
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
