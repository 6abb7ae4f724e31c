// The database around an upgrade. These run as the account of the service. The new version says whether it needs the
// database alone. The old version saves the rows while nothing serves, and brings them back if the new version migrated
// them; with other control planes on the database it does neither, because they write into it meanwhile.
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { VERSION } from '@berth/shared/version'
import { makeBackup, openSource } from '../../backup/backup.ts'
import { readArchive } from '../../backup/read-archive.ts'
import { restoreBackup } from '../../backup/restore.ts'
import { type Config, readConfig } from '../../config.ts'
import { DOCTOR } from '../../limits/installation.ts'
import { makePrivateFolder } from '../../store/engine/private-files.ts'
import { inspectPostgres } from '../../store/installation/inspection.ts'
import {
  describeOthers,
  type LiveReplica,
  nameReplicas,
} from '../../store/installation/live-replicas.ts'
import { whileSetAside } from '../../store/transfer/postgres-tables.ts'
import type { CommandContext } from '../command.ts'
import { readRunning } from './running.ts'

const NO_LOCK = { passphrase: undefined, recipients: undefined }
const NO_UNLOCK = { passphrase: undefined, identity: undefined }
const FILES = ['berth.db', 'berth.db-wal', 'berth.db-shm']

/** Those of other machines, and those of this one that run and are not the service that is upgraded. */
async function listOthers({ databaseUrl, dataDir }: Config): Promise<LiveReplica[]> {
  if (databaseUrl === undefined) return []
  const { replicas } = await inspectPostgres(databaseUrl, DOCTOR.waitMs)
  const own = readRunning(dataDir)?.pid
  return replicas.filter(
    ({ host, pid }) => host !== hostname() || (pid !== own && existsSync(`/proc/${pid}`)),
  )
}

/** In a process of the new version, before anything has changed. Prints `free` or throws. */
export async function upgradeCheck({ env, print }: CommandContext): Promise<number> {
  const config = readConfig(env)
  const others = await listOthers(config)
  if (others.length > 0 && config.databaseUrl !== undefined) {
    const { pending } = await inspectPostgres(config.databaseUrl, DOCTOR.waitMs)
    if (pending.some(({ kind }) => kind === 'alone')) {
      throw new Error(describeOthers(others, `Version ${VERSION}`))
    }
  }
  print('free')
  return 0
}

/** Prints their names, or nothing. */
export async function upgradeOthers({ env, print }: CommandContext): Promise<number> {
  print(nameReplicas(await listOthers(readConfig(env))))
  return 0
}

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

/** Prints `unchanged`, `shared` (others use it) or `restored`. May be repeated after an interruption. */
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
  const options = { from, unlock: NO_UNLOCK, rehearse: false, isHeld: true }
  const restoreIt = () => restoreBackup({ ...config, dataDir: scratch }, options)
  const isDone =
    config.databaseUrl === undefined || (await whileSetAside(config.databaseUrl, restoreIt))
  if (config.databaseUrl === undefined) {
    await restoreIt()
    replaceFiles(config.dataDir, scratch)
  }
  rmSync(scratch, { recursive: true, force: true })
  print(isDone ? 'restored' : 'shared')
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
