// Skips numbers that were assigned before the database was restored from a backup, so that a new row never reuses a
// number that a server still knows.
import { sql } from 'kysely'
import type { Db, Engine } from '../engine/db.ts'

export type Numbered = 'environments' | 'projects' | 'tasks'

/** Returns the highest number that a table has assigned. */
export async function findHighestGiven(db: Db, engine: Engine, table: Numbered): Promise<number> {
  const { rows } =
    engine === 'sqlite'
      ? await sql<{
          n: number
        }>`select seq as n from sqlite_sequence where name = ${table}`.execute(db)
      : await sql<{ n: number }>`select coalesce(pg_sequence_last_value(
          pg_get_serial_sequence(${table}, 'id')::regclass), 0) as n`.execute(db)
  return Number(rows[0]?.n ?? 0)
}

/** Makes the next assigned number greater than `atLeast`. */
export async function skipNumbers(
  db: Db,
  engine: Engine,
  table: Numbered,
  atLeast: number,
): Promise<void> {
  if (engine === 'postgres') {
    await sql`select setval(pg_get_serial_sequence(${table}, 'id')::regclass, ${atLeast})`.execute(
      db,
    )
    return
  }
  const { numAffectedRows } =
    await sql`update sqlite_sequence set seq = ${atLeast} where name = ${table}`.execute(db)
  if (numAffectedRows === 0n) {
    await sql`insert into sqlite_sequence (name, seq) values (${table}, ${atLeast})`.execute(db)
  }
}
