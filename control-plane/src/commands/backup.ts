// `berth-server backup`, `backup list` and `backup-key`. They work while the control plane runs.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { showBytes } from '@berth/shared/units'
import { configuredLock, makeBackup } from '../backup/backup.ts'
import { type Lock, readPassphrase } from '../backup/encryption.ts'
import { openPlace } from '../backup/places.ts'
import { type Config, readConfig } from '../config.ts'
import { toUtc } from '../domain/core/utc.ts'
import { copyKek } from '../keys/kek-copy.ts'
import { BACKUPS } from '../limits/installation.ts'
import { openPostgres, openSqlite } from '../store/engine/database.ts'
import { type BackupRun, listBackupRuns } from '../store/installation/backup-runs.ts'
import type { CommandContext } from './command.ts'
import { readOptions } from './options.ts'

const BACKUP_USAGE =
  'backup [--to FOLDER|FILE|s3://BUCKET/FOLDER] [--passphrase-file FILE | --recipient age1…] [--without-logs]'
const NO_PLACE = 'Name a folder or s3://bucket/folder with --to, or set BERTH_BACKUP_TO.'

export async function backup({ args, env, print }: CommandContext): Promise<number> {
  const { values } = readOptions(
    args,
    {
      to: { type: 'string' },
      'passphrase-file': { type: 'string' },
      recipient: { type: 'string', multiple: true },
      'without-logs': { type: 'boolean' },
    },
    { usage: BACKUP_USAGE },
  )
  const config = readConfig(env)
  const to = values.to ?? config.backup.to
  if (to === undefined) throw new Error(NO_PLACE)
  const { 'passphrase-file': passphraseFile, recipient: recipients } = values
  if (passphraseFile !== undefined && recipients !== undefined) {
    throw new Error('Take either --passphrase-file or --recipient.')
  }
  const named: Lock = {
    passphrase: passphraseFile === undefined ? undefined : readPassphrase(passphraseFile),
    recipients,
  }
  const lock = passphraseFile === undefined && !recipients ? configuredLock(config) : named
  const withLogs = values['without-logs'] !== true
  const made = await makeBackup(config, { to, lock, withLogs, now: Date.now() })
  const { tables, logs } = made.manifest
  const rows = Object.values(tables).reduce((sum, table) => sum + table.rows, 0)
  print(`${made.place.title}/${made.name}`)
  print(
    `${rows} rows of ${Object.keys(tables).length} tables, ${logs.files} log files, ${showBytes(made.bytes)}.`,
  )
  if (!made.isLocked) {
    print(
      'It is not encrypted: it shows names, addresses and logs to everyone who can read it. Use --recipient or --passphrase-file.',
    )
  }
  print('The key is not in it. `berth-server backup-key --to FILE` copies it, for another place.')
  return 0
}

export async function backupList({ args, env, print }: CommandContext): Promise<number> {
  const usage = 'backup list [--to FOLDER|s3://BUCKET/FOLDER]'
  const { values } = readOptions(args, { to: { type: 'string' } }, { usage })
  const config = readConfig(env)
  const to = values.to ?? config.backup.to
  if (to === undefined) throw new Error(NO_PLACE)
  const place = openPlace(to, config.backup.s3)
  const found = (await place.list()).toSorted((a, b) => b.takenAt - a.takenAt)
  for (const { name, bytes, takenAt } of found) {
    print(`${toUtc(takenAt)}  ${showBytes(bytes).padStart(12)}  ${name}`)
  }
  for (const run of (await listFailedRuns(config)).toReversed()) {
    print(`${toUtc(run.startedAt)}  ${'failed'.padStart(12)}  ${run.place}: ${run.error}`)
  }
  print(
    found.length === 0
      ? `There is no backup at ${place.title}.`
      : `${found.length} backups at ${place.title}.`,
  )
  return 0
}

/** Scheduled backups that failed; none if the database is not reachable or older than the table. */
async function listFailedRuns({ databaseUrl, dataDir }: Config): Promise<BackupRun[]> {
  const file = join(dataDir, 'berth.db')
  if (databaseUrl === undefined && !existsSync(file)) return []
  const { db } = databaseUrl === undefined ? openSqlite(file) : openPostgres(databaseUrl, () => {})
  try {
    const runs = await listBackupRuns(db, BACKUPS.keptRuns)
    return runs.filter((run) => run.error !== null)
  } catch {
    return []
  } finally {
    await db.destroy()
  }
}

export async function backupKey({ args, env, print }: CommandContext): Promise<number> {
  const { values } = readOptions(
    args,
    { to: { type: 'string' } },
    { usage: 'backup-key --to FILE' },
  )
  if (values.to === undefined) throw new Error('Name the new file with --to.')
  const { kekFile } = readConfig(env)
  const { id } = copyKek(kekFile, values.to)
  print(`The key ${id} is now in ${values.to} too (mode 0400).`)
  print(
    'Move that copy to another place than the backups, e.g. a password manager: the two together open every stored secret, and without the key a backup opens none.',
  )
  return 0
}
