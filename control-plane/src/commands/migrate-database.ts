// `berth-server migrate-database --to postgres://…`: from SQLite to PostgreSQL, with the control plane stopped.
import { moveDatabase } from '../backup/move-database.ts'
import { readConfig } from '../config.ts'
import type { CommandContext } from './command.ts'
import { readOptions } from './options.ts'

const USAGE = 'migrate-database --to postgres://USER@HOST/DATABASE'

export async function migrateDatabase({ args, env, print }: CommandContext): Promise<number> {
  const { values } = readOptions(args, { to: { type: 'string' } }, { usage: USAGE })
  const url = URL.parse(values.to ?? '')
  if (!url || !/^postgres(ql)?:$/.test(url.protocol)) {
    throw new Error(`Name the new, empty database.\n\nUsage: berth-server ${USAGE}`)
  }
  if (url.password !== '' || url.searchParams.has('password')) {
    throw new Error(
      'Everyone on this machine can read a password on the command line. Leave it out of --to and set PGPASSWORD (or use ~/.pgpass).',
    )
  }
  const config = readConfig(env)
  if (config.databaseUrl !== undefined) {
    throw new Error('DATABASE_URL is set: this control plane uses PostgreSQL already.')
  }
  const sums = Object.values(await moveDatabase(config, url.href))
  const rows = sums.reduce((sum, table) => sum + table.rows, 0)
  print(`Copied ${rows} rows of ${sums.length} tables. Every table is equal by count and hash.`)
  print(
    'Now set DATABASE_URL to that database (with its password), keep BERTH_DATA_DIR (logs, key) as it is, and start. The control plane then copies the logs into the database.',
  )
  print(
    `SQLite's file ${config.dataDir}/berth.db is unchanged and no longer used. Remove it when you are sure.`,
  )
  return 0
}
