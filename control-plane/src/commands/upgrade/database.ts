// The database around an upgrade. These run as the account of the service, in a process of the old version: one saves the
// rows while nothing serves, the other brings them back if the new version migrated them.
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { makeBackup, openSource } from '../../backup/backup.ts'
import { readArchive } from '../../backup/read-archive.ts'
import { restoreBackup } from '../../backup/restore.ts'
import { type Config, readConfig } from '../../config.ts'
import { makePrivateFolder } from '../../store/engine/private-files.ts'
import { setAsidePostgres } from '../../store/transfer/postgres-tables.ts'
import type { CommandContext } from '../command.ts'

const NO_LOCK = { passphrase: undefined, recipients: undefined }
const NO_UNLOCK = { passphrase: undefined, identity: undefined }
const FILES = ['berth.db', 'berth.db-wal', 'berth.db-shm']

/** Without logs, which an upgrade never changes, and in plain: it lies beside the database that it copies. */
export async function upgradeBackup({ args, env, print }: CommandContext): Promise<number> {
  const [to = ''] = args
  const config = readConfig(env)
  makePrivateFolder(dirname(to))
  rmSync(to, { force: true })
  await makeBackup(config, { to, lock: NO_LOCK, withLogs: false, now: Date.now() })
  print(to)
  return 0
}

/** Prints `unchanged` or `restored`. May be repeated after an interruption. */
export async function upgradeRestore({ args, env, print }: CommandContext): Promise<number> {
  const [from = ''] = args
  const config = readConfig(env)
  const { migrations } = (await readArchive(from, NO_UNLOCK)).head
  const isThere = config.databaseUrl !== undefined || existsSync(join(config.dataDir, 'berth.db'))
  if (isThere && (await listMigrations(config)).join() === migrations.join()) {
    print('unchanged')
    return 0
  }
  const scratch = join(config.dataDir, 'upgrades/restoring')
  rmSync(scratch, { recursive: true, force: true })
  if (config.databaseUrl !== undefined) await setAsidePostgres(config.databaseUrl)
  await restoreBackup({ ...config, dataDir: scratch }, { from, unlock: NO_UNLOCK, rehearse: false })
  if (config.databaseUrl === undefined) replaceFiles(config.dataDir, scratch)
  rmSync(scratch, { recursive: true, force: true })
  print('restored')
  return 0
}

async function listMigrations(config: Config): Promise<readonly string[]> {
  const source = await openSource(config).catch(() => undefined) // an interrupted return left no tables
  if (!source) return []
  try {
    return source.migrations
  } finally {
    await source.close()
  }
}

/** The database of the version that failed stays beside it, for people who want to look. */
function replaceFiles(dataDir: string, scratch: string): void {
  const aside = join(dataDir, 'upgrades/undone')
  mkdirSync(aside, { recursive: true, mode: 0o700 })
  for (const name of FILES) {
    if (existsSync(join(dataDir, name))) renameSync(join(dataDir, name), join(aside, name))
  }
  renameSync(join(scratch, 'berth.db'), join(dataDir, 'berth.db'))
}
