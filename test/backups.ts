// Backups as an operator makes them, while the control plane runs, and what they become elsewhere: SQLite's online backup,
// pg_dump and pg_restore. The key file is beside the database, as docs/operating.md says.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { locate } from './components.ts'
import { createDatabase } from './postgres.ts'

export interface Backup {
  folder: string
  isPostgres: boolean
}

const DUMP = 'berth.dump'

function runPostgres(program: 'pg_dump' | 'pg_restore', args: string[]): void {
  const postgres = locate('postgres')
  if (!postgres) throw new Error('PostgreSQL is missing')
  execFileSync(join(dirname(postgres), program), args, { stdio: 'pipe', cwd: '/' })
}

export async function takeBackup(
  dataDir: string,
  databaseUrl: string | undefined,
): Promise<Backup> {
  const folder = mkdtempSync(join(tmpdir(), 'berth-backup-'))
  copyFileSync(join(dataDir, 'kek'), join(folder, 'kek'))
  if (databaseUrl !== undefined) {
    runPostgres('pg_dump', ['--format=custom', `--file=${join(folder, DUMP)}`, databaseUrl])
    return { folder, isPostgres: true }
  }
  const source = new Database(join(dataDir, 'berth.db'), { readonly: true })
  try {
    await source.backup(join(folder, 'berth.db'))
  } finally {
    source.close()
  }
  return { folder, isPostgres: false }
}

/** Into a folder of its own, and for PostgreSQL a database of its own; gives that one's address. */
export async function restoreBackup(backup: Backup, dataDir: string): Promise<string | undefined> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  copyFileSync(join(backup.folder, 'kek'), join(dataDir, 'kek'))
  const file = join(backup.folder, 'berth.db')
  if (existsSync(file)) copyFileSync(file, join(dataDir, 'berth.db'))
  if (!backup.isPostgres) return undefined
  const url = await createDatabase()
  runPostgres('pg_restore', ['--exit-on-error', `--dbname=${url}`, join(backup.folder, DUMP)])
  return url
}
