// Copies SQLite's tables into an empty PostgreSQL database, in one transaction, and compares both before the commit.
// The control plane must be stopped: what it would write meanwhile would be lost.
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { holdFile } from '../store/engine/file-lock.ts'
import { createPostgresTarget } from '../store/transfer/postgres-tables.ts'
import { encodeRow, RowHash, type TableSum } from '../store/transfer/rows.ts'
import { openSqliteSource } from '../store/transfer/sqlite-tables.ts'
import {
  assertSameTables,
  type TableSource,
  type TableTarget,
  verifyTarget,
} from '../store/transfer/tables.ts'
import { BackupError } from './faults.ts'

/** Returns the rows of each table. */
export async function moveDatabase(config: Config, to: string): Promise<Record<string, TableSum>> {
  const hold = holdFile(join(config.dataDir, 'berth.lock'))
  if (!hold) {
    throw new BackupError(`A control plane runs on ${config.dataDir}. Stop it, then migrate.`)
  }
  try {
    const source = openSqliteSource(join(config.dataDir, 'berth.db'))
    try {
      const target = await createPostgresTarget(to, source.migrations)
      try {
        const sums = await copy(source, target)
        await target.commit()
        return sums
      } catch (error) {
        await target.abort()
        throw error
      }
    } finally {
      await source.close()
    }
  } finally {
    await hold.release()
  }
}

async function copy(source: TableSource, target: TableTarget): Promise<Record<string, TableSum>> {
  const { tables, counters } = source
  assertSameTables(target.tables, tables)
  const sums: Record<string, TableSum> = {}
  for (const table of tables) {
    const hash = new RowHash()
    for await (const rows of source.rows(table)) {
      for (const row of rows) hash.add(encodeRow(row))
      await target.load(table, rows)
    }
    sums[table.name] = hash.sum()
  }
  await target.finish(counters)
  await verifyTarget(target, { tables, sums, counters })
  return sums
}
