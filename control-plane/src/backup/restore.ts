// Restores a backup into an empty place. The archive is read twice: first as a whole without writing anything, then
// into a database aside. That database is read again and compared before it gets its name.
import {
  createWriteStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { compareVersions } from '@berth/shared/release'
import { showBytes } from '@berth/shared/units'
import { VERSION } from '@berth/shared/version'
import type { Config } from '../config.ts'
import { loadKek } from '../keys/secret-store.ts'
import { BACKUPS, LOG_IMPORT } from '../limits/installation.ts'
import { ENTRY_BYTES } from '../store/deployments/log-index.ts'
import { readBlocks } from '../store/deployments/log-reading.ts'
import { holdFile } from '../store/engine/file-lock.ts'
import { listUnknownMigrations } from '../store/engine/migrations.ts'
import { makePrivateFolder, nearestFolder } from '../store/engine/private-files.ts'
import { createPostgresTarget } from '../store/transfer/postgres-tables.ts'
import { createSqliteTarget } from '../store/transfer/sqlite-tables.ts'
import { assertSameTables, type TableTarget, verifyTarget } from '../store/transfer/tables.ts'
import type { Unlock } from './encryption.ts'
import { BackupError } from './faults.ts'
import type { Head } from './manifest.ts'
import { locateBackup } from './places.ts'
import { type ReadBackup, readArchive } from './read-archive.ts'

export interface RestoreOptions {
  /** A file or s3://bucket/folder/name. */
  from: string
  unlock: Unlock
  /** Restores into a temporary place, verifies, and removes it. Nothing else is touched. */
  rehearse: boolean
  /** The caller keeps control planes away from PostgreSQL meanwhile. */
  isHeld?: boolean
}

export type Restored = ReadBackup

export async function restoreBackup(config: Config, options: RestoreOptions): Promise<Restored> {
  const scratch = mkdtempSync(join(tmpdir(), 'berth-restore-'))
  try {
    const file = await fetchArchive(config, options.from, scratch)
    const found = await readArchive(file, options.unlock, {
      head: async (head) => check(config, head),
    })
    const target = options.rehearse
      ? { dataDir: join(scratch, 'data'), databaseUrl: undefined }
      : config
    await checkSpace(target.dataDir, neededBytes(target, found))
    await restoreInto(target, file, options, found)
    return found
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** A file is read where it is; an object is fetched first, because it is read twice. */
async function fetchArchive(config: Config, from: string, scratch: string): Promise<string> {
  const { place, name } = locateBackup(from, config.backup.s3)
  if (!from.startsWith('s3:')) {
    ;(await place.read(name)).destroy() // says that it is missing
    return join(place.title, name)
  }
  const file = join(scratch, 'fetched')
  const bytes = (await place.list()).find((one) => one.name === name)?.bytes ?? 0
  await checkSpace(scratch, bytes)
  await pipeline(await place.read(name), createWriteStream(file, { mode: 0o600 }))
  return file
}

/** Logs on their way into PostgreSQL are on the disk one at a time. */
const neededBytes = (
  { databaseUrl }: Pick<Config, 'databaseUrl'>,
  { manifest, rowBytes }: Restored,
): number =>
  databaseUrl === undefined
    ? manifest.logs.bytes + rowBytes * BACKUPS.databaseFactor + BACKUPS.emptyBytes
    : Math.min(manifest.logs.bytes, LOG_IMPORT.spoolBytes)

async function checkSpace(folder: string, needed: number): Promise<void> {
  const { bavail, bsize } = await statfs(nearestFolder(folder))
  const free = bavail * bsize
  if (free >= needed) return
  throw new BackupError(
    `${folder} has ${showBytes(free)} free, and the restore may need ${showBytes(needed)}; nothing was changed. Free some space, or name another folder (--to-data-dir; TMPDIR for a rehearsal or a bucket).`,
  )
}

function check(config: Config, head: Head): void {
  const unknown = listUnknownMigrations(head.migrations)
  if (unknown.length > 0 || compareVersions(head.version, VERSION) > 0) {
    throw new BackupError(
      `The backup was made by a newer Berth (${head.version}), and this is ${VERSION}. Install ${head.version} or newer, then restore.`,
    )
  }
  const files = [config.kekFile, config.previousKekFile].filter((file) => file !== undefined)
  if (files.some((file) => loadKek(file).id === head.keyId)) return
  throw new BackupError(
    `The key in ${config.kekFile} is not the key of this backup (that one has the id ${head.keyId}), so no stored secret could be read. Put the right key there (the file that \`berth-server backup-key\` wrote), then restore.`,
  )
}

async function restoreInto(
  { dataDir, databaseUrl }: Pick<Config, 'dataDir' | 'databaseUrl'>,
  file: string,
  { unlock, isHeld = false }: RestoreOptions,
  found: Restored,
): Promise<void> {
  makePrivateFolder(dataDir)
  const hold = holdFile(join(dataDir, 'berth.lock'))
  if (!hold)
    throw new BackupError(`A control plane uses ${dataDir}. Stop it, or name a new folder.`)
  try {
    refuseUsed(dataDir, databaseUrl)
    const target =
      databaseUrl === undefined
        ? createSqliteTarget(join(dataDir, 'berth.db'), found.head.migrations)
        : await createPostgresTarget(databaseUrl, found.head.migrations, { isHeld })
    const logs = new LogFolder(dataDir, target)
    try {
      await fill(target, logs, file, unlock, found)
      logs.commit()
      await target.commit()
    } catch (error) {
      await target.abort()
      logs.abort()
      throw error
    }
  } finally {
    await hold.release()
  }
}

async function fill(
  target: TableTarget,
  logs: LogFolder,
  file: string,
  unlock: Unlock,
  { head, manifest }: Restored,
): Promise<void> {
  assertSameTables(target.tables, head.tables)
  await readArchive(file, unlock, {
    rows: (table, rows) => target.load(table, rows),
    log: (name, content) => logs.add(name, content),
  })
  await target.finish(head.counters)
  await verifyTarget(target, {
    tables: head.tables,
    sums: manifest.tables,
    counters: head.counters,
  })
}

/** PostgreSQL checks by itself whether its database is empty. */
function refuseUsed(dataDir: string, databaseUrl: string | undefined): void {
  const database = join(dataDir, 'berth.db')
  const logs = join(dataDir, 'logs')
  const hasLogs = existsSync(logs) && readdirSync(logs).length > 0
  // a write-ahead log from elsewhere would become a part of the new database
  const files = databaseUrl === undefined ? [database, `${database}-wal`] : []
  const used = [...files.filter((file) => existsSync(file)), ...(hasLogs ? [logs] : [])][0]
  if (used === undefined) return
  throw new BackupError(
    `${used} exists: a restore never overwrites data. Name a new folder with --to-data-dir and put the key there first, or move ${dataDir} away.`,
  )
}

/** Logs are written aside and get their names together, or go into the database with its rows, one after the other. */
class LogFolder {
  readonly #folder: string
  readonly #aside: string
  readonly #target: TableTarget
  #isMoved = false

  constructor(dataDir: string, target: TableTarget) {
    this.#folder = join(dataDir, 'logs')
    this.#aside = join(dataDir, 'logs.restoring')
    this.#target = target
    rmSync(this.#aside, { recursive: true, force: true }) // of an interrupted restore
    makePrivateFolder(this.#aside)
  }

  async add(name: string, content: AsyncIterable<Buffer>): Promise<void> {
    const file = createWriteStream(join(this.#aside, name), {
      mode: 0o600,
      flags: 'wx',
      flush: true,
    })
    await pipeline(Readable.from(content), file)
    if (this.#target.loadLog) await this.#load(this.#target.loadLog, name.slice(0, -'.log'.length))
  }

  /** The two files of a log follow each other, in either order. */
  async #load(load: NonNullable<TableTarget['loadLog']>, attemptId: string): Promise<void> {
    const [log, idx] = [
      join(this.#aside, `${attemptId}.log`),
      join(this.#aside, `${attemptId}.idx`),
    ]
    if (!existsSync(log) || !existsSync(idx)) return
    const records = statSync(idx).size / ENTRY_BYTES
    await load(attemptId, readBlocks(log, idx, { records, bytes: statSync(log).size }))
    rmSync(log)
    rmSync(idx)
  }

  commit(): void {
    if (this.#target.loadLog) {
      rmSync(this.#aside, { recursive: true, force: true })
      return
    }
    rmSync(this.#folder, { recursive: true, force: true }) // it is empty
    renameSync(this.#aside, this.#folder)
    this.#isMoved = true
  }

  abort(): void {
    rmSync(this.#isMoved ? this.#folder : this.#aside, { recursive: true, force: true })
  }
}
