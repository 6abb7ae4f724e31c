// Kysely's SqliteDialect calls prepare() for every execution. This wrapper prepares each SQL text once, and gives rows with
// the names that TypeScript knows: one object a row instead of one that is copied into another.
// Bounded: the oldest text is dropped first. Do not use Kysely's .stream() through it: a cached
// statement that is still being iterated cannot be run again.
import type Database from 'better-sqlite3'
import type { SqliteDatabase, SqliteStatement } from 'kysely'
import { rowFromValues } from './row-makers.ts'

const MAX_STATEMENTS = 500 // distinct SQL texts of the whole control plane, with room

type Rename = (column: string) => string

interface Manner {
  rename: Rename
  /** What an error of SQLite means; the result is thrown. */
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

/** A statement that gives rows; kysely calls nothing but `all` of it. */
function reader(prepared: Database.Statement, rename: Rename): SqliteStatement {
  const arrays = prepared.raw(true)
  let names = readNames(prepared, rename)
  let toRow = rowFromValues(names)
  return {
    reader: true,
    all(parameters) {
      const rows = arrays.all(...parameters) as unknown[][]
      if (rows[0] && rows[0].length !== names.length) {
        // a column more or less: the table was altered since it was prepared
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
