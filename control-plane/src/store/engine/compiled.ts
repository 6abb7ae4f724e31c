// Statements of the busiest reads, compiled once. Building and compiling a query costs several times its execution on
// SQLite; here the text is kept per shape and only the values change. The first use of a shape compiles the real query
// and proves that its values stand in the order given, so that a kept text can never be fed wrongly. On SQLite, whose
// calls do not wait, such a statement is then run at once: the way through kysely's queue for the one connection costs
// more than most statements. A transaction sees to it that nobody else's statement comes between its own.
import { type Compilable, CompiledQuery, type Kysely } from 'kysely'
import type { Schema } from '../schema.ts'
import type { Db } from './db.ts'

const MAX_SHAPES = 200 // distinct shapes of the whole control plane, with room

/**
 * Runs a statement now. `isInside`: it belongs to the transaction that is open on the connection. Undefined: it has to wait
 * for its turn, because a transaction is open that it does not belong to.
 */
type Direct = (text: string, values: readonly unknown[], isInside: boolean) => unknown[] | undefined

interface Kept {
  texts: Map<string, string>
  direct: Direct | undefined
}

const byDatabase = new WeakMap<object, Kept>()

function keptOf(db: Db): Kept {
  const { adapter } = db.getExecutor() // one per database, the same inside its transactions
  const known = byDatabase.get(adapter)
  if (known) return known
  const made: Kept = { texts: new Map(), direct: undefined }
  byDatabase.set(adapter, made)
  return made
}

export function allowDirect(db: Kysely<Schema>, direct: Direct): void {
  keptOf(db).direct = direct
}

const underWay = new WeakSet<object>()

/** What a transaction does; a handle that somebody kept after it ended goes to kysely, which refuses it. */
export async function workInside<T>(transaction: Db, work: () => Promise<T>): Promise<T> {
  underWay.add(transaction)
  try {
    return await work()
  } finally {
    underWay.delete(transaction)
  }
}

/** `shape` names the statement and whatever changes its text, such as the length of a list. */
export async function runCompiled<R>(
  db: Db,
  shape: string,
  values: readonly unknown[],
  build: () => Compilable<R>,
): Promise<R[]> {
  if (values.includes(undefined)) throw new Error(`a value of "${shape}" is missing`)
  const { texts, direct } = keptOf(db)
  let text = texts.get(shape)
  if (text === undefined) {
    const compiled = build().compile()
    const same =
      compiled.parameters.length === values.length &&
      compiled.parameters.every((value, i) => Object.is(value, values[i]))
    if (!same) throw new Error(`the values of "${shape}" are not those of its statement`)
    text = compiled.sql
    const oldest = texts.size >= MAX_SHAPES ? texts.keys().next().value : undefined
    if (oldest !== undefined) texts.delete(oldest)
    texts.set(shape, text)
  }
  const isInside = db.isTransaction
  const rows = isInside && !underWay.has(db) ? undefined : direct?.(text, values, isInside)
  if (rows) return rows as R[]
  return (await db.executeQuery<R>(CompiledQuery.raw(text, [...values]))).rows
}

/** A row's names and their order are part of the text, so they are part of the shape. */
export const insertCompiled = <R>(
  db: Db,
  what: string,
  row: object,
  build: () => Compilable<R>,
): Promise<R[]> =>
  runCompiled(db, `insert ${what}: ${Object.keys(row).join()}`, Object.values(row), build)

/** The values of what is set come first, then those by which the rows are found. */
export const updateCompiled = <R>(
  db: Db,
  what: string,
  change: object,
  found: readonly unknown[],
  build: () => Compilable<R>,
): Promise<R[]> =>
  runCompiled(
    db,
    `update ${what}: ${Object.keys(change).join()}`,
    [...Object.values(change), ...found],
    build,
  )
