// Both databases behind one face: every store and specification test can run on each.
import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { type OpenDatabase, openPostgres, openSqlite } from '../control-plane/src/store/database.ts'
import { migrate } from '../control-plane/src/store/migrations.ts'
import { missing } from './components.ts'
import { createDatabase } from './postgres.ts'

export type EngineName = 'sqlite' | 'postgres'

const BOTH: EngineName[] = ['sqlite', 'postgres']
/** Where the engines differ most: what happens at once. */
const ALWAYS = /(races|lock|coalescing|convergence|tenants)[\w-]*\.test\.ts$/

/**
 * PostgreSQL is left out, with a reason, where it is missing. Continuous integration has a bounded time: there a file of
 * specifications takes one engine, by its name, half of them each; the store's own tests and what happens at once take
 * both. `BERTH_TEST_ENGINES=both` is everything, as is every run by hand.
 */
function choose(): EngineName[] {
  if (missing('postgres')) return ['sqlite']
  const { __vitest_worker__: worker } = globalThis as { __vitest_worker__?: { filepath?: string } }
  const file = worker?.filepath ?? ''
  const isBounded = process.env.CI === 'true' && process.env.BERTH_TEST_ENGINES !== 'both'
  if (!isBounded || !file.includes('/test/specs/') || ALWAYS.test(file)) return BOTH
  const [first = 0] = createHash('sha256').update(basename(file)).digest()
  return BOTH.slice(first % 2, (first % 2) + 1)
}

/** For `describe.each(ENGINES)`. */
export const ENGINES: EngineName[] = choose()

export async function openEngine(name: EngineName): Promise<OpenDatabase> {
  const opened =
    name === 'sqlite' ? openSqlite(':memory:') : openPostgres(await createDatabase(), () => {})
  await migrate(opened.db, opened.engine)
  return opened
}
