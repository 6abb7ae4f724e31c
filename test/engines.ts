// Both databases behind one face: every store and specification test runs on each.
import { type OpenDatabase, openPostgres, openSqlite } from '../control-plane/src/store/database.ts'
import { migrate } from '../control-plane/src/store/migrations.ts'
import { missing } from './components.ts'
import { createDatabase } from './postgres.ts'

export type EngineName = 'sqlite' | 'postgres'

/** For `describe.each(ENGINES)`; PostgreSQL is left out, with a reason, where it is missing. */
export const ENGINES: EngineName[] = missing('postgres') ? ['sqlite'] : ['sqlite', 'postgres']

export async function openEngine(name: EngineName): Promise<OpenDatabase> {
  const opened =
    name === 'sqlite' ? openSqlite(':memory:') : openPostgres(await createDatabase(), () => {})
  await migrate(opened.db, opened.engine)
  return opened
}
