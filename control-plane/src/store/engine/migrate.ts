// Runs migrations in transactions with the rows that record them, so an interrupted one leaves nothing. On
// PostgreSQL other control planes may work meanwhile: a statement waits a second for its lock, then lets those pass that
// queue behind it, and tries again. A database whose newer migrations did more than add is refused.
import { type Kysely, sql, type Transaction } from 'kysely'
import { MIGRATIONS as LIMITS } from '../../limits/installation.ts'
import { describeOthers } from '../installation/live-replicas.ts'
import { deleteDeadReplicas, listLiveReplicas } from '../installation/replicas.ts'
import { migrationKinds } from '../migrations/0061-0070/0065-migration-kinds.ts'
import type { Schema } from '../schema.ts'
import { isDeadlock } from './database.ts'
import type { Engine } from './db.ts'
import { codeOf } from './faults.ts'
import type { Migration } from './migration.ts'
import {
  type DoneMigration,
  listForeign,
  MIGRATIONS,
  RECORDS,
  refuseUnknown,
  TYPES,
} from './migrations.ts'
import { NO_LOCK, withSessionLock } from './session-locks.ts'

interface Options {
  /** Others than those of this release, in tests of an upgrade. */
  migrations?: readonly Migration[]
}

const LOCK = 7_443_001 // arbitrary, the same for every control plane

/** Returns the names of what was missing. */
export async function migrate(
  db: Kysely<Schema>,
  engine: Engine,
  options: Options = {},
): Promise<string[]> {
  if (engine === 'sqlite') {
    return db.transaction().execute(async (tx) => {
      const { pending } = await findPending(tx, options)
      for (const migration of pending) await apply(tx, migration, engine)
      return pending.map(({ name }) => name)
    })
  }
  return withSessionLock(db, sql`select pg_advisory_lock(${LOCK})`, LIMITS.otherStartMs, (one) =>
    migratePostgres(one, options),
  )
}

/**
 * Runs `work` while no migration runs, on tables that this release can work with: so a control plane that joins is
 * either seen by a migration that needs the database alone, or sees it. For PostgreSQL.
 */
export function whileUnchanged(db: Kysely<Schema>, work: () => Promise<void>): Promise<void> {
  const take = sql`select pg_advisory_lock_shared(${LOCK})`
  return withSessionLock(db, take, LIMITS.otherStartMs, async (one) => {
    await findPending(one, {})
    await work()
  })
}

async function migratePostgres(one: Kysely<Schema>, options: Options): Promise<string[]> {
  const { pending, isNew } = await findPending(one, options)
  for (const together of isNew ? [pending] : pending.map((migration) => [migration])) {
    const alone = together.find(({ kind }) => kind === 'alone')
    if (alone && !isNew) await refuseOthers(one, alone.name)
    await insist(() =>
      one.transaction().execute(async (tx) => {
        await sql.raw(`set local lock_timeout = ${LIMITS.lockMs}`).execute(tx)
        for (const migration of together) await apply(tx, migration, 'postgres')
      }),
    )
  }
  return pending.map(({ name }) => name)
}

/** This process has no row yet. Those whose lease is over must join again, which they cannot before we have ended. */
async function refuseOthers(db: Kysely<Schema>, name: string): Promise<void> {
  await deleteDeadReplicas(db)
  const others = await listLiveReplicas(db)
  if (others.length > 0) throw new Error(describeOthers(others, `The migration ${name}`))
}

/** A backup or another long reader keeps a table from being changed; others must not wait behind us meanwhile. */
async function insist(work: () => Promise<void>): Promise<void> {
  const deadline = performance.now() + LIMITS.giveUpMs
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (codeOf(error) !== NO_LOCK && !isDeadlock(error)) throw error
      if (performance.now() > deadline) {
        throw new Error(
          'The tables are in use by a long transaction, such as a backup, so they cannot be migrated now. Start again when it has ended.',
          { cause: error },
        )
      }
    }
    await new Promise((resolve) => setTimeout(resolve, LIMITS.againMs))
  }
}

/** `isNew`: an empty database, so there are no others. */
async function findPending(
  db: Kysely<Schema>,
  options: Options,
): Promise<{ pending: Migration[]; isNew: boolean }> {
  const own = options.migrations ?? MIGRATIONS
  await sql.raw(RECORDS).execute(db)
  // of a release before the column, rows have no kind
  const { rows } = await sql<DoneMigration>`select * from migrations`.execute(db)
  const known = own.map(({ name }) => name)
  refuseUnknown(listForeign(rows, known))
  const pending = own.filter(({ name }) => !rows.some((one) => one.name === name))
  return { pending, isNew: rows.length === 0 }
}

async function apply(tx: Transaction<Schema>, migration: Migration, engine: Engine): Promise<void> {
  const { name, kind = 'expand' } = migration
  for (const statement of migration.statements(TYPES[engine])) await sql.raw(statement).execute(tx)
  await sql`insert into migrations(name, applied_at) values (${name}, ${Date.now()})`.execute(tx)
  if (name < migrationKinds.name) return // the column does not exist yet
  await sql`update migrations set kind = ${kind} where name = ${name}`.execute(tx)
}
