// Once per run: the real components that tests share. Private instances; nothing of the host is touched.
import { locate, missing } from './components.ts'
import { startPostgres } from './postgres.ts'

export default async function setUp(): Promise<() => Promise<void>> {
  const path = missing('postgres') ? undefined : locate('postgres')
  const postgres = path ? await startPostgres(path) : undefined
  if (postgres) process.env.BERTH_TEST_POSTGRES = postgres.folder
  return async () => {
    await postgres?.stop()
  }
}
