// Databases with the newest schema, made once per run and copied for each control plane of a test: making them anew takes
// longer than most tests. What migrations do by themselves is the subject of the store's tests, on empty databases.
import { copyFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPostgres, openSqlite } from '../control-plane/src/store/database.ts'
import { migrate } from '../control-plane/src/store/migrations.ts'
import { createDatabase } from './postgres.ts'

const POSTGRES = 'migrated'

export async function makeTemplates(): Promise<void> {
  const file = join(tmpdir(), 'migrated.db')
  const sqlite = openSqlite(file)
  await migrate(sqlite.db, sqlite.engine)
  await sqlite.db.destroy()
  process.env.BERTH_TEST_MIGRATED = file
  if (!process.env.BERTH_TEST_POSTGRES) return
  const postgres = openPostgres(await createDatabase(undefined, POSTGRES), () => {})
  await migrate(postgres.db, postgres.engine)
  await postgres.db.destroy()
}

export const copyPostgres = (): Promise<string> => createDatabase(POSTGRES)

/** Without the set-up (benches, harnesses) the control plane makes its own. */
export function copySqlite(dir: string): void {
  const file = process.env.BERTH_TEST_MIGRATED
  if (file) copyFileSync(file, join(dir, 'berth.db'))
}
