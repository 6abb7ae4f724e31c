// Whole tables, read from one database and written to another of either kind: for backups, restores and the move from
// SQLite to PostgreSQL.
import type { Block } from '../deployments/log-store.ts'
import type { Engine } from '../engine/db.ts'
import { encodeRow, type Row, RowHash, type TableSum } from './rows.ts'

export interface Table {
  name: string
  /** In the order in which rows are written. */
  columns: string[]
  /** The columns that order the rows. */
  key: string[]
}

/** How much of the log of an attempt is final, as its row says. */
export interface LogLength {
  attemptId: string
  bytes: number
  records: number
}

export type LogPart = 'log' | 'idx'

/** The highest number that each table with numbers of its own has assigned; a number is never assigned twice. */
export type Counters = Record<string, number>

/** All tables at one moment, however long the reading takes; writers go on meanwhile. */
export interface TableSource {
  engine: Engine
  /** Names of the migrations that made the tables, in their order. */
  migrations: string[]
  tables: Table[]
  counters: Counters
  /** An estimate, for a check of the free space. */
  bytes(): Promise<number>
  rows(table: Table): AsyncGenerator<Row[]>
  logs(): AsyncGenerator<LogLength[]>
  /** The first bytes of a log or of its index, if they are in the database and not in files. */
  openLog?(log: LogLength, part: LogPart): Promise<AsyncIterable<Buffer> | undefined>
  close(): Promise<void>
}

/** A new database; nothing of it exists until `commit`. */
export interface TableTarget {
  tables: Table[]
  load(table: Table, rows: readonly Row[]): Promise<void>
  /** Stores a log, if the database and not files hold logs. */
  loadLog?(attemptId: string, blocks: AsyncIterable<Block>): Promise<void>
  /** Sets the counters and checks that every reference has its row. */
  finish(counters: Counters): Promise<void>
  readCounters(): Promise<Counters>
  /** What is stored now, for the comparison. */
  rows(table: Table): AsyncGenerator<Row[]>
  commit(): Promise<void>
  abort(): Promise<void>
}

/** The new database would not be equal to what it was made from. */
export class TransferError extends Error {
  override readonly name = 'TransferError'
}

export async function sumRows(rows: AsyncIterable<Row[]>): Promise<TableSum> {
  const hash = new RowHash()
  for await (const batch of rows) for (const row of batch) hash.add(encodeRow(row))
  return hash.sum()
}

/** Reads every table again and compares it with what was to be written. */
export async function verifyTarget(
  target: TableTarget,
  wanted: { tables: Table[]; sums: Record<string, TableSum>; counters: Counters },
): Promise<void> {
  const counters = await target.readCounters()
  for (const table of wanted.tables) {
    const { name } = table
    const sum = wanted.sums[name]
    const stored = await sumRows(target.rows(table))
    if (stored.rows !== sum?.rows) {
      throw new TransferError(`The table ${name} has ${stored.rows} rows, not ${sum?.rows}.`)
    }
    if (stored.sha256 !== sum.sha256) {
      throw new TransferError(`The table ${name} has ${stored.rows} rows, but other values.`)
    }
    if ((counters[name] ?? 0) !== (wanted.counters[name] ?? 0)) {
      throw new TransferError(`The numbers of the table ${name} would not go on where they were.`)
    }
  }
}

/** The columns of the source, checked: the same migrations make the same columns. */
export function assertSameTables(made: readonly Table[], wanted: readonly Table[]): void {
  const text = (tables: readonly Table[]): string[] =>
    tables.map(({ name, columns }) => `${name}(${columns.toSorted().join(',')})`).toSorted()
  const [here, there] = [text(made), text(wanted)]
  const differing = there.find((one, i) => one !== here[i]) ?? here[there.length]
  if (differing === undefined) return
  throw new TransferError(
    `The tables are not those that its migrations make (${differing}), so they cannot be copied.`,
  )
}
