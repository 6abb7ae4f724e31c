// Reads a database without changing a row, for `berth-server doctor`: it may be empty, older, newer, or in use.
import { statSync } from 'node:fs'
import Database from 'better-sqlite3'
import pg from 'pg'
import type { Migration } from '../engine/migration.ts'
import { type DoneMigration, listForeign, MIGRATIONS } from '../engine/migrations.ts'
import { LIVE_REPLICAS, type LiveReplica } from './live-replicas.ts'

export interface Inspection {
  /** 'SQLite 3.50.1', 'PostgreSQL 17.2'. */
  version: string
  /** The clock of its machine. Undefined: it is on this one. */
  now: number | undefined
  /** Migrations that this release does not know and cannot work with. */
  unknown: string[]
  /** Migrations that the next start will run. */
  pending: Pick<Migration, 'name' | 'kind'>[]
  /** The agents' certificate authority; undefined before the first start. */
  caCertificate: string | undefined
  /** Ids of the key files that wrapped its data keys. */
  kekIds: string[]
  /** The control planes that use it now; none on SQLite. */
  replicas: LiveReplica[]
}

type Rows = Record<string, unknown>[]
/** Fails if a table does not exist yet. */
type Ask = (statement: string) => Promise<Rows>

async function read(ask: Ask): Promise<Omit<Inspection, 'version' | 'now' | 'replicas'>> {
  const orNone = (statement: string): Promise<Rows> => ask(statement).catch(() => [])
  const done = (await orNone('select * from migrations')) as unknown as DoneMigration[]
  const names = done.map(({ name }) => name)
  const [installation] = await orNone('select ca_certificate from installation where id = 1')
  const keys = await orNone("select wrapped from organization_keys where purpose = 'data'")
  return {
    unknown: listForeign(done),
    pending: MIGRATIONS.filter(({ name }) => !names.includes(name)),
    caCertificate: installation ? String(installation.ca_certificate) : undefined,
    kekIds: [...new Set(keys.map(({ wrapped }) => String(wrapped).split('|')[1] ?? ''))],
  }
}

/** Undefined if there is none yet. SQLite itself may leave its empty `-wal` and `-shm` files beside the database. */
export async function inspectSqlite(file: string): Promise<Inspection | undefined> {
  if (!statSync(file, { throwIfNoEntry: false })) return undefined
  const db = new Database(file, { readonly: true, fileMustExist: true })
  try {
    const ask: Ask = async (statement) => db.prepare(statement).all() as Rows
    const [row] = await ask('select sqlite_version() as version')
    await ask('select count(*) from sqlite_schema') // a file that is no database fails here
    const version = `SQLite ${row?.version}`
    return { version, now: undefined, replicas: [], ...(await read(ask)) }
  } finally {
    db.close()
  }
}

export async function inspectPostgres(url: string, waitMs: number): Promise<Inspection> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: waitMs,
    query_timeout: waitMs,
  })
  client.on('error', () => {}) // a query in progress fails by itself
  try {
    await client.connect()
    await client.query('set default_transaction_read_only = on')
    const ask: Ask = async (statement) => (await client.query(statement)).rows
    const [row] = await ask(
      "select current_setting('server_version') as version, extract(epoch from clock_timestamp()) * 1000 as now",
    )
    const now = Number(row?.now)
    const replicas = (await ask(LIVE_REPLICAS).catch(() => [])) as unknown as LiveReplica[]
    return { version: `PostgreSQL ${row?.version}`, now, replicas, ...(await read(ask)) }
  } finally {
    await client.end().catch(() => undefined)
  }
}
