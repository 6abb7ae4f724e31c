// Stores backups of environments' data, the settings of each environment and the storage of each organization. Only
// app/environments/values.ts decrypts the keys of a storage.
import type { TaskStatus } from '@berth/shared'
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type {
  BackupSettingsTable,
  BackupStoragesTable,
  BackupsTable,
  TasksTable,
} from '../schema.ts'

export type BackupPartKind = 'volume' | 'folder' | 'command'

/** As the agent reported it. */
export interface StoredPart {
  file: string
  kind: BackupPartKind
  name: string
  sizeBytes: number
  contentBytes: number
  sha256: string
}

/** Of the task that made it, and of its environment, which may be removed by now. */
interface Origin {
  taskStatus: TaskStatus
  recipe: TasksTable['recipe']
  commitSha: string | null
  triggeredBy: string
  userId: number | null
  identifier: string
}

export interface Backup extends Omit<Selectable<BackupsTable>, 'parts' | 'live'>, Origin {
  live: boolean
  /** Null: not complete. */
  parts: StoredPart[] | null
}

export type BackupSettingsRow = Selectable<BackupSettingsTable>
export type SealedStorage = Selectable<BackupStoragesTable>
/** The columns that may be shown. */
export type StorageRow = Omit<SealedStorage, 'secretSealed' | 'identitySealed'>

type Row = Selectable<BackupsTable> & Origin

const read = (row: Row): Backup => ({
  ...row,
  live: row.live === 1,
  sizeBytes: Number(row.sizeBytes),
  contentBytes: Number(row.contentBytes),
  parts: row.parts === null ? null : (JSON.parse(row.parts) as StoredPart[]),
})

const select = (db: Db) =>
  db
    .selectFrom('backups')
    .innerJoin('tasks', 'tasks.id', 'backups.taskId')
    .innerJoin('environments', 'environments.id', 'backups.environmentId')
    .selectAll('backups')
    .select([
      'tasks.status as taskStatus',
      'tasks.recipe',
      'tasks.commitSha',
      'tasks.triggeredBy',
      'tasks.userId',
      'environments.identifier',
    ])
    .where('backups.removedAt', 'is', null)

export async function insertBackup(
  db: Db,
  row: Omit<Insertable<BackupsTable>, 'parts' | 'sizeBytes' | 'contentBytes' | 'taskId'>,
): Promise<number> {
  const { id } = await db
    .insertInto('backups')
    .values({ ...row, taskId: 0, sizeBytes: 0, contentBytes: 0 })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/** The task needs the backup's id, and the backup the task's. */
export async function setBackupTask(db: Db, id: number, taskId: number): Promise<void> {
  await db.updateTable('backups').set({ taskId }).where('id', '=', id).execute()
}

export async function findBackup(db: Db, id: number): Promise<Backup | undefined> {
  const row = await select(db).where('backups.id', '=', id).executeTakeFirst()
  return row && read(row)
}

/** Newest first. */
export async function listBackups(db: Db, environmentId: number, limit: number): Promise<Backup[]> {
  const rows = await select(db)
    .where('backups.environmentId', '=', environmentId)
    .orderBy('backups.id', 'desc')
    .limit(limit)
    .execute()
  return rows.map(read)
}

/** Of a project, also of environments that were removed: their backups in a bucket stay. Newest first. */
export async function listProjectBackups(
  db: Db,
  projectId: number,
  limit: number,
): Promise<Backup[]> {
  const rows = await select(db)
    .where('backups.projectId', '=', projectId)
    .orderBy('backups.id', 'desc')
    .limit(limit)
    .execute()
  return rows.map(read)
}

/** Backups in a bucket of environments of the project that were removed before `before`. */
export async function listAbandoned(
  db: Db,
  projectId: number,
  before: number,
  limit: number,
): Promise<Backup[]> {
  const rows = await select(db)
    .where('backups.projectId', '=', projectId)
    .where('backups.place', '=', 'bucket')
    .where('environments.removedAt', '<', before)
    .orderBy('backups.id')
    .limit(limit)
    .execute()
  return rows.map(read)
}

export async function completeBackup(
  db: Db,
  id: number,
  parts: StoredPart[],
  now: number,
): Promise<void> {
  const sum = (key: 'sizeBytes' | 'contentBytes'): number =>
    parts.reduce((total, part) => total + part[key], 0)
  await db
    .updateTable('backups')
    .set({
      parts: JSON.stringify(parts),
      sizeBytes: sum('sizeBytes'),
      contentBytes: sum('contentBytes'),
      completedAt: now,
    })
    .where('id', '=', id)
    .where('parts', 'is', null)
    .execute()
}

/** Of the environment, or of a removed one of its project: a server says nothing about backups of others. */
export async function markBackupsRemoved(
  db: Db,
  { environmentId, projectId }: { environmentId: number; projectId: number },
  uuids: readonly string[],
  now: number,
): Promise<void> {
  if (uuids.length === 0) return
  const removed = db.selectFrom('environments').select('id').where('removedAt', 'is not', null)
  await db
    .updateTable('backups')
    .set({ removedAt: now })
    .where('projectId', '=', projectId)
    .where('uuid', 'in', uuids)
    .where((e) => e.or([e('environmentId', '=', environmentId), e('environmentId', 'in', removed)]))
    .execute()
}

/**
 * Those on the disk of a server went with the environment, or with the copy that it left on that server; those in a
 * bucket stay.
 */
export async function markServerBackupsRemoved(
  db: Db,
  environmentId: number,
  now: number,
  serverId?: number,
): Promise<void> {
  const query = db
    .updateTable('backups')
    .set({ removedAt: now })
    .where('environmentId', '=', environmentId)
    .where('place', '=', 'server')
    .where('removedAt', 'is', null)
  await (serverId === undefined ? query : query.where('serverId', '=', serverId)).execute()
}

export const findBackupSettings = (
  db: Db,
  environmentId: number,
): Promise<BackupSettingsRow | undefined> =>
  db
    .selectFrom('backupSettings')
    .selectAll()
    .where('environmentId', '=', environmentId)
    .executeTakeFirst()

export async function upsertBackupSettings(db: Db, row: BackupSettingsRow): Promise<void> {
  const { environmentId: _, ...rest } = row
  await db
    .insertInto('backupSettings')
    .values(row)
    .onConflict((conflict) => conflict.column('environmentId').doUpdateSet(rest))
    .execute()
}

export const findSealedStorage = (
  db: Db,
  organizationId: number,
): Promise<SealedStorage | undefined> =>
  db
    .selectFrom('backupStorages')
    .selectAll()
    .where('organizationId', '=', organizationId)
    .executeTakeFirst()

export async function findStorage(db: Db, organizationId: number): Promise<StorageRow | undefined> {
  const found = await findSealedStorage(db, organizationId)
  if (!found) return undefined
  const { secretSealed: _, identitySealed: __, ...shown } = found
  return shown
}

export async function upsertStorage(db: Db, row: SealedStorage): Promise<void> {
  const { organizationId: _, ...rest } = row
  await db
    .insertInto('backupStorages')
    .values(row)
    .onConflict((conflict) => conflict.column('organizationId').doUpdateSet(rest))
    .execute()
}

export async function deleteStorage(db: Db, organizationId: number): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('backupStorages')
    .where('organizationId', '=', organizationId)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** Backups of an organization in a bucket, complete or not. */
export async function countBucketBackups(db: Db, organizationId: number): Promise<number> {
  const { n } = await db
    .selectFrom('backups')
    .select((e) => e.fn.countAll<number | string>().as('n'))
    .where('organizationId', '=', organizationId)
    .where('place', '=', 'bucket')
    .where('removedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(n)
}
