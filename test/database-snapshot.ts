// Every row of a database as text, to show that something changed nothing. Left out are times of last use, the one thing
// a GET may move, and what the control plane learns by itself about repositories meanwhile.
import { type Kysely, sql } from 'kysely'
import type { Engine } from '../control-plane/src/store/database.ts'
import type { Schema } from '../control-plane/src/store/schema.ts'

const MOVING = /^(last_?(used|seen|active)|reconcile|checked_?|reachable|repository_?error)/i

export async function snapshot(db: Kysely<Schema>, engine: Engine): Promise<Map<string, string>> {
  const tables =
    engine === 'sqlite'
      ? sql<{ name: string }>`select name from sqlite_master where type = 'table'
          and name not like 'sqlite_%'`
      : sql<{ name: string }>`select table_name as name from information_schema.tables
          where table_schema = current_schema()`
  const { rows } = await tables.execute(db)
  const found = new Map<string, string>()
  for (const { name } of rows) {
    // refused deliveries are counted at the door and written by the next tick, whoever asks for what meanwhile
    if (name === 'refused_deliveries') continue
    const all = await sql<Record<string, unknown>>`select * from ${sql.table(name)}`.execute(db)
    const texts = all.rows.map((row) =>
      JSON.stringify(Object.entries(row).filter(([column]) => !MOVING.test(column))),
    )
    found.set(name, texts.toSorted().join('\n'))
  }
  return found
}

/** Names of the tables that differ. */
export const differences = (a: Map<string, string>, b: Map<string, string>): string[] =>
  [...new Set([...a.keys(), ...b.keys()])].filter((table) => a.get(table) !== b.get(table))
