// Prepares each SQL text once, where Kysely's SqliteDialect calls prepare() for every execution, and returns rows with
// TypeScript names, which saves a copy per row. The cache is bounded and drops the oldest text first. Do not use
// Kysely's .stream() through it: a cached statement that is still being iterated cannot run again.
import type Database from 'better-sqlite3'
import type { SqliteDatabase, SqliteStatement } from 'kysely'
import { rowFromValues } from './row-makers.ts'

const MAX_STATEMENTS = 500 // above the number of distinct SQL texts in the control plane

type Rename = (column: string) => string

interface Manner {
  rename: Rename
  /** Translates an SQLite error; the result is thrown. */
  explain(error: unknown): unknown
}

export function withStatementCache(
  raw: Database.Database,
  { rename, explain }: Manner,
): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>()
  return {
    close: () => void raw.close(),
    prepare(sql) {
      let statement = statements.get(sql)
      if (!statement) {
        const oldest =
          statements.size >= MAX_STATEMENTS ? statements.keys().next().value : undefined
        if (oldest !== undefined) statements.delete(oldest)
        const prepared = raw.prepare(sql)
        const plain = prepared.reader
          ? reader(prepared, rename)
          : (prepared as unknown as SqliteStatement)
        statement = explained(plain, explain)
        statements.set(sql, statement)
      }
      return statement
    },
  }
}

function explained(statement: SqliteStatement, explain: Manner['explain']): SqliteStatement {
  const attempt = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw explain(error)
    }
  }
  return {
    reader: statement.reader,
    all: (parameters) => attempt(() => statement.all(parameters)),
    run: (parameters) => attempt(() => statement.run(parameters)),
    iterate: (parameters) => statement.iterate(parameters),
  }
}

/** A statement that returns rows; kysely calls only its `all`. */
function reader(prepared: Database.Statement, rename: Rename): SqliteStatement {
  const arrays = prepared.raw(true)
  let names = readNames(prepared, rename)
  let toRow = rowFromValues(names)
  return {
    reader: true,
    all(parameters) {
      const rows = arrays.all(...parameters) as unknown[][]
      if (rows[0] && rows[0].length !== names.length) {
        // the number of columns changed: the table was altered since it was prepared
        names = readNames(prepared, rename)
        toRow = rowFromValues(names)
      }
      return rows.map(toRow)
    },
    run: () => {
      throw new Error('a statement that gives rows is read with all()')
    },
    iterate: () => {
      throw new Error('rows are not streamed through the cache')
    },
  }
}

const readNames = (statement: Database.Statement, rename: Rename): string[] =>
  statement.columns().map(({ name }) => rename(name))
