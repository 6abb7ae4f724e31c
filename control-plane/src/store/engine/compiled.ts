// Compiles the statements of the busiest reads once: building a query costs several times its execution on SQLite. The
// first use of a shape compiles the real query and proves that its values are in the given order, so a cached text
// never gets wrong values. On SQLite such a statement then runs synchronously, bypassing kysely's connection queue,
// which costs more than most statements. A transaction excludes statements of other callers from between its own.
import { type Compilable, CompiledQuery, type Kysely } from 'kysely'
import type { Schema } from '../schema.ts'
import type { Db } from './db.ts'

const MAX_SHAPES = 200 // above the number of distinct shapes in the control plane

/**
 * Runs a statement now. `isInside` says that it belongs to the transaction open on the connection. Returns undefined if
 * it must wait, because another transaction is open.
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

/** Runs the work of a transaction. A handle kept after its end goes to kysely, which refuses it. */
export async function workInside<T>(transaction: Db, work: () => Promise<T>): Promise<T> {
  underWay.add(transaction)
  try {
    return await work()
  } finally {
    underWay.delete(transaction)
  }
}

/** `shape` names the statement and everything that changes its text, such as the length of a list. */
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

/** The names of a row and their order are part of the text, so they are part of the shape. */
export const insertCompiled = <R>(
  db: Db,
  what: string,
  row: object,
  build: () => Compilable<R>,
): Promise<R[]> =>
  runCompiled(db, `insert ${what}: ${Object.keys(row).join()}`, Object.values(row), build)

/** The values to set come first, then those that select the rows. */
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
