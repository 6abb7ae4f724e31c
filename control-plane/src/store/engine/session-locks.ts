// Locks of PostgreSQL that belong to a connection and end with it. One control plane at a time starts on a database: a
// first start makes keys and tables that the others then find.
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Schema } from '../schema.ts'
import type { Engine } from './db.ts'
import { codeOf } from './faults.ts'

const BOOT = 7_443_061 // arbitrary, the same for every control plane
export const NO_LOCK = '55P03'

/** Others held the lock for as long as we waited. */
export class LockHeld extends Error {}

/** Runs `work` with a lock that the statement `take` waits for. Every lock of the connection ends with it. */
export async function withSessionLock<T>(
  db: Kysely<Schema>,
  take: RawBuilder<unknown>,
  waitMs: number,
  work: (one: Kysely<Schema>) => Promise<T>,
): Promise<T> {
  return db.connection().execute(async (one) => {
    try {
      await sql.raw(`set lock_timeout = ${waitMs}`).execute(one)
      await take.execute(one).catch(explainWait)
      return await work(one)
    } finally {
      // fails with its connection, which the pool then discards; the first error is the cause
      for (const end of [sql`select pg_advisory_unlock_all()`, sql`reset lock_timeout`]) {
        await end.execute(one).catch(() => undefined)
      }
    }
  })
}

function explainWait(error: unknown): never {
  if (codeOf(error) !== NO_LOCK) throw error
  throw new LockHeld(
    'Another control plane is still starting, or migrating the database. Look at its log, then start this one again.',
    { cause: error },
  )
}

/** SQLite has one control plane, so it needs no lock. */
export async function withBootLock<T>(
  db: Kysely<Schema>,
  engine: Engine,
  waitMs: number,
  work: () => Promise<T>,
): Promise<T> {
  if (engine === 'sqlite') return work()
  return withSessionLock(db, sql`select pg_advisory_lock(${BOOT})`, waitMs, work)
}
