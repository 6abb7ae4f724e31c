// Makes one backup of the control plane: the tables at one moment, the logs that they know, the settings. It works
// while the control plane runs. The key that encrypts stored secrets is never part of it.
import { join } from 'node:path'
import { showBytes } from '@berth/shared/units'
import { VERSION } from '@berth/shared/version'
import type { Config } from '../config.ts'
import { loadKek } from '../keys/secret-store.ts'
import { openPostgresSource } from '../store/transfer/postgres-tables.ts'
import { openSqliteSource } from '../store/transfer/sqlite-tables.ts'
import type { TableSource } from '../store/transfer/tables.ts'
import { encrypt, isLocked, type Lock, readPassphrase } from './encryption.ts'
import { BackupError } from './faults.ts'
import { FORMAT, type Head, type Manifest } from './manifest.ts'
import { nameBackup } from './names.ts'
import type { Place } from './place.ts'
import { openDestination } from './places.ts'
import { writeArchive } from './write-archive.ts'

export interface BackupOptions {
  /** A folder, a file, or s3://bucket/folder. */
  to: string
  lock: Lock
  withLogs: boolean
  now: number
  /** Gives the backup up; it then leaves nothing. */
  signal?: AbortSignal
}

export interface MadeBackup {
  place: Place
  name: string
  bytes: number
  manifest: Manifest
  isLocked: boolean
}

export const openSource = async ({ databaseUrl, dataDir }: Config): Promise<TableSource> =>
  databaseUrl === undefined
    ? openSqliteSource(join(dataDir, 'berth.db'))
    : openPostgresSource(databaseUrl)

/** The lock that the settings name. */
export const configuredLock = ({ backup }: Config): Lock => ({
  passphrase: backup.passphraseFile && readPassphrase(backup.passphraseFile),
  recipients: backup.recipients,
})

export async function makeBackup(config: Config, options: BackupOptions): Promise<MadeBackup> {
  const { lock, withLogs, now } = options
  const generated = nameBackup(now, isLocked(lock))
  const { place, name } = openDestination(options.to, config.backup.s3, generated)
  const keyId = loadKek(config.kekFile).id
  const source = await openSource(config)
  try {
    await checkSpace(place, await source.bytes())
    const head: Head = {
      format: FORMAT,
      version: VERSION,
      takenAt: now,
      database: source.engine,
      migrations: source.migrations,
      tables: source.tables,
      counters: source.counters,
      keyId,
      withLogs,
      settings: config.given,
    }
    const archive = writeArchive(source, head, withLogs ? join(config.dataDir, 'logs') : undefined)
    const stop = (): void => {
      archive.stream.destroy(new BackupError('The control plane stopped during the backup.'))
    }
    options.signal?.addEventListener('abort', stop)
    try {
      const bytes = await place.write(name, await encrypt(archive.stream, lock))
      return { place, name, bytes, manifest: await archive.done, isLocked: isLocked(lock) }
    } catch (error) {
      archive.stream.destroy()
      await archive.done.catch(() => undefined) // the source is no longer read
      throw error
    } finally {
      options.signal?.removeEventListener('abort', stop)
    }
  } finally {
    await source.close()
  }
}

/** How well rows compress is unknown, so there must be space for all of them. */
async function checkSpace(place: Place, needed: number): Promise<void> {
  const free = await place.freeBytes()
  if (free === undefined || free >= needed) return
  throw new BackupError(
    `${place.title} has ${showBytes(free)} free, and the backup may need ${showBytes(needed)}. Free some space, name another place, or leave out logs (--without-logs).`,
  )
}
