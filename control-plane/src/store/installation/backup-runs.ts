// Stores what became of scheduled backups.
import type { Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { BackupRunsTable } from '../schema.ts'

export type BackupRun = Selectable<BackupRunsTable>

export async function insertBackupRun(
  db: Db,
  row: Pick<BackupRun, 'startedAt' | 'place'>,
): Promise<number> {
  const { id } = await db
    .insertInto('backupRuns')
    .values({ ...row, finishedAt: null, name: null, bytes: null, error: null })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function updateBackupRun(
  db: Db,
  id: number,
  end: Pick<BackupRun, 'finishedAt' | 'name' | 'bytes' | 'error'>,
): Promise<void> {
  await db.updateTable('backupRuns').set(end).where('id', '=', id).execute()
}

/** Newest first. */
export const listBackupRuns = (db: Db, limit: number): Promise<BackupRun[]> =>
  db
    .selectFrom('backupRuns')
    .selectAll()
    .where('finishedAt', 'is not', null)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()

/** Of a process that stopped during its backup: the moment is due again. */
export async function deleteUnfinishedBackupRuns(db: Db): Promise<void> {
  await db.deleteFrom('backupRuns').where('finishedAt', 'is', null).execute()
}

export async function deleteOldBackupRuns(db: Db, newestId: number, kept: number): Promise<void> {
  await db
    .deleteFrom('backupRuns')
    .where('id', '<=', newestId - kept)
    .execute()
}
