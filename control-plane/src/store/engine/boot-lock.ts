// One control plane at a time starts on a PostgreSQL: a first start makes keys and tables that the others then find.
import { type Kysely, sql } from 'kysely'
import { REPLICAS } from '../../limits/installation.ts'
import type { Schema } from '../schema.ts'
import type { Engine } from './db.ts'

const BOOT = 7_443_061 // arbitrary, the same for every control plane

/** The lock ends with its connection. SQLite has one control plane, so it needs none. */
export async function withBootLock<T>(
  db: Kysely<Schema>,
  engine: Engine,
  work: () => Promise<T>,
): Promise<T> {
  if (engine === 'sqlite') return work()
  return db.connection().execute(async (one) => {
    await sql`select set_config('lock_timeout', ${String(REPLICAS.bootMs)}, false)`.execute(one)
    await sql`select pg_advisory_lock(${BOOT})`.execute(one)
    try {
      return await work()
    } finally {
      await sql`select pg_advisory_unlock(${BOOT})`
        .execute(one)
        .then(() => sql`select set_config('lock_timeout', '0', false)`.execute(one))
        .catch(() => undefined) // the connection broke, and the lock went with it
    }
  })
}
