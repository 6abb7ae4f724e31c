// Tables of SQLite. A source is a connection of its own with one read transaction: it sees one moment, and writers go
// on. A target is a file aside that gets its name when it is complete and verified.
import { existsSync, renameSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { BACKUPS } from '../../limits/installation.ts'
import { planMigrations } from '../engine/migrations.ts'
import { makePrivateDatabase } from '../engine/private-files.ts'
import type { Row } from './rows.ts'
import {
  type Counters,
  type LogLength,
  type Table,
  type TableSource,
  type TableTarget,
  TransferError,
} from './tables.ts'

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

function listTables(db: Database.Database): Table[] {
  const names = db
    .prepare(
      "select name from sqlite_master where type = 'table' and name not like 'sqlite\\_%' escape '\\' order by name",
    )
    .pluck()
    .all() as string[]
  return names.map((name) => {
    const found = db.pragma(`table_info(${quote(name)})`) as { name: string; pk: number }[]
    const columns = found.map((column) => column.name)
    const key = found.filter((c) => c.pk > 0).toSorted((a, b) => a.pk - b.pk)
    return { name, columns, key: key.length > 0 ? key.map((c) => c.name) : columns }
  })
}

function listCounters(db: Database.Database): Counters {
  const rows = db.prepare('select name, seq from sqlite_sequence').all()
  return Object.fromEntries((rows as { name: string; seq: number }[]).map((r) => [r.name, r.seq]))
}

async function* readRows(db: Database.Database, table: Table): AsyncGenerator<Row[]> {
  const columns = table.columns.map(quote).join(', ')
  const order = table.key.map((c) => `${quote(c)} nulls first`).join(', ')
  const statement = db.prepare(`select ${columns} from ${quote(table.name)} order by ${order}`)
  yield* inBatches(statement.raw().safeIntegers().iterate() as IterableIterator<Row>)
}

/** Other work of this process goes on between two batches. */
async function* inBatches<T>(rows: IterableIterator<T>): AsyncGenerator<T[]> {
  let batch: T[] = []
  for (const row of rows) {
    batch.push(row)
    if (batch.length < BACKUPS.rows) continue
    yield batch
    batch = []
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (batch.length > 0) yield batch
}

export function openSqliteSource(file: string): TableSource {
  if (!existsSync(file)) throw new Error(`There is no database at ${file}.`)
  const db = new Database(file, { readonly: true })
  try {
    db.exec('begin')
    // the first read begins the snapshot
    const migrations = db.prepare('select name from migrations order by name').pluck().all()
    return {
      engine: 'sqlite',
      migrations: migrations as string[],
      tables: listTables(db),
      counters: listCounters(db),
      async bytes() {
        const pages = db.pragma('page_count', { simple: true }) as number
        return pages * (db.pragma('page_size', { simple: true }) as number) + logBytes(db)
      },
      rows: (table) => readRows(db, table),
      async *logs() {
        const statement = db.prepare(
          'select id as attemptId, log_bytes as bytes, acked_log_seq as records from attempts where acked_log_seq > 0 order by id',
        )
        yield* inBatches(statement.iterate() as IterableIterator<LogLength>)
      },
      async close() {
        db.close()
      },
    }
  } catch (error) {
    db.close()
    throw error
  }
}

const logBytes = (db: Database.Database): number =>
  db
    .prepare('select coalesce(sum(log_bytes + 24 * acked_log_seq), 0) from attempts')
    .pluck()
    .get() as number

/** `file` must not exist. A file that an interrupted restore left aside is replaced. */
export function createSqliteTarget(file: string, migrations: readonly string[]): TableTarget {
  const aside = `${file}.restoring`
  const remove = (): void => {
    for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${aside}${end}`, { force: true })
  }
  remove()
  makePrivateDatabase(aside)
  const db = new Database(aside)
  try {
    db.pragma('synchronous = off') // it is synced as a whole before it gets its name
    db.pragma('foreign_keys = off') // checked at the end
    db.exec('begin')
    for (const statement of planMigrations('sqlite', migrations)) db.exec(statement)
    const tables = listTables(db)
    for (const { name } of tables) db.exec(`delete from ${quote(name)}`)
    const inserts = new Map<string, Database.Statement>()
    return {
      tables,
      async load({ name, columns }, rows) {
        const insert =
          inserts.get(name) ??
          db.prepare(
            `insert into ${quote(name)} (${columns.map(quote).join(', ')}) values (${columns.map(() => '?').join(', ')})`,
          )
        inserts.set(name, insert)
        for (const row of rows) insert.run(row)
      },
      async finish(counters) {
        db.exec('delete from sqlite_sequence')
        const insert = db.prepare('insert into sqlite_sequence (name, seq) values (?, ?)')
        for (const [name, seq] of Object.entries(counters)) if (seq > 0) insert.run(name, seq)
        const broken = db.pragma('foreign_key_check') as { table: string; parent: string }[]
        if (broken[0] === undefined) return
        const { table, parent } = broken[0]
        throw new TransferError(`A row of ${table} refers to a row of ${parent} that is missing.`)
      },
      readCounters: async () => listCounters(db),
      rows: (table) => readRows(db, table),
      async commit() {
        db.exec('commit')
        db.pragma('journal_mode = WAL')
        db.close()
        await syncPath(aside)
        renameSync(aside, file)
        await syncPath(dirname(file))
      },
      async abort() {
        db.close()
        remove()
      },
    }
  } catch (error) {
    db.close()
    remove()
    throw error
  }
}

async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
