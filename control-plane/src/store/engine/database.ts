// Opens SQLite or PostgreSQL behind one Kysely. The two differ only here, in the dialects and in the few type words of
// the migrations. Columns are snake_case in SQL and camelCase in TypeScript.
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { CamelCasePlugin, Kysely, type PluginTransformResultArgs, type QueryResult } from 'kysely'
import pg from 'pg'
import type { Schema } from '../schema.ts'
import { allowDirect } from './compiled.ts'
import { type CopyOut, openCopyOut } from './copy-out.ts'
import type { Engine } from './db.ts'
import { hasSpace } from './disk-space.ts'
import { codeOf, Refusals, StorageFull } from './faults.ts'
import { explainPostgres, openPool, SteadyPostgresDialect } from './postgres-dialect.ts'
import { makePrivateDatabase } from './private-files.ts'
import { SteadySqliteDialect } from './sqlite-dialect.ts'
import { withStatementCache } from './statement-cache.ts'

export interface OpenDatabase {
  db: Kysely<Schema>
  engine: Engine
  refusals: Refusals
  /** Only with PostgreSQL. */
  copyOut?: CopyOut
}

const POSTGRES_CONNECTIONS = 10
const BUSY_MS = 5_000
const CACHE_KIB = 65_536 // SQLite's default of 2 MB is less than the busy indexes of a year's history

/** For SQLite, whose rows already come with their names (statement-cache.ts). */
class NamedRows extends CamelCasePlugin {
  rename(column: string): string {
    return this.camelCase(column)
  }

  override async transformResult({ result }: PluginTransformResultArgs) {
    return result as QueryResult<Record<string, unknown>>
  }
}

export function openSqlite(file: string): OpenDatabase {
  makePrivateDatabase(file)
  const raw = new Database(file)
  raw.pragma('journal_mode = WAL')
  raw.pragma('synchronous = FULL') // an acknowledged row survives a power loss
  raw.pragma('foreign_keys = ON')
  raw.pragma(`busy_timeout = ${BUSY_MS}`)
  raw.pragma(`cache_size = -${CACHE_KIB}`)
  const names = new NamedRows()
  const refusals = new Refusals()
  const database = withStatementCache(raw, {
    rename: (column) => names.rename(column),
    explain: (error) => {
      const reported = explainSqlite(error, file)
      refusals.note(reported)
      return reported
    },
  })
  const dialect = new SteadySqliteDialect({ database }, () => raw.inTransaction)
  const db = new Kysely<Schema>({ dialect, plugins: [names] })
  allowDirect(db, (text, values, isInside) => {
    if (raw.inTransaction !== isInside) return undefined // never read uncommitted rows of others
    const statement = database.prepare(text)
    if (statement.reader) return statement.all(values)
    statement.run(values)
    return []
  })
  return { db, engine: 'sqlite', refusals }
}

/** A full disk also appears as a failed file operation, because SQLite creates files beside the database on demand. */
function explainSqlite(error: unknown, file: string): unknown {
  if (!/^SQLITE_(IOERR|CANTOPEN)/.test(codeOf(error)) || hasSpace(dirname(file))) return error
  return new StorageFull(error)
}

const INT8 = 20 // PostgreSQL sends count(*) and bigint as text
function toSafeInteger(text: string): number {
  const n = Number(text)
  if (!Number.isSafeInteger(n)) throw new RangeError(`integer out of range: ${text}`)
  return n
}

export function openPostgres(url: string, onIdleError: (error: Error) => void): OpenDatabase {
  const types = new pg.TypeOverrides()
  types.setTypeParser(INT8, toSafeInteger)
  const refusals = new Refusals()
  const pool = openPool({ connectionString: url, max: POSTGRES_CONNECTIONS, types }, refusals)
  pool.on('error', onIdleError) // without a listener, a database restart would end the process
  const dialect = new SteadyPostgresDialect({ pool })
  return {
    // no column holds an object: JSON is text
    db: new Kysely<Schema>({
      dialect,
      plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
    }),
    engine: 'postgres',
    refusals,
    copyOut: openCopyOut(pool, (error) => {
      refusals.note(error)
      return explainPostgres(error)
    }),
  }
}

/** A unique index refused the row: a concurrent writer was first. */
export const isUniqueViolation = (error: unknown): boolean =>
  codeOf(error) === '23505' || codeOf(error).startsWith('SQLITE_CONSTRAINT_UNIQUE')

/** The database aborted this transaction to resolve a deadlock. It left nothing and may be retried. */
export const isDeadlock = (error: unknown): boolean => codeOf(error) === '40P01'
