// Stores which files actions left on which server, and until when.
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { ArtifactsTable } from '../schema.ts'

export type Artifact = Selectable<ArtifactsTable>

/** A known file stays unchanged, because names are assigned once. */
export async function insertArtifacts(db: Db, rows: Insertable<ArtifactsTable>[]): Promise<void> {
  if (rows.length === 0) return
  await db
    .insertInto('artifacts')
    .values(rows)
    .onConflict((conflict) => conflict.column('fileId').doNothing())
    .execute()
}

export const findArtifact = (db: Db, id: number): Promise<Artifact | undefined> =>
  db.selectFrom('artifacts').selectAll().where('id', '=', id).executeTakeFirst()

/** Sorted by name, as they were collected. */
export const listArtifacts = (db: Db, taskId: number): Promise<Artifact[]> =>
  db.selectFrom('artifacts').selectAll().where('taskId', '=', taskId).orderBy('id').execute()

export async function countArtifacts(db: Db, taskId: number): Promise<number> {
  const { n } = await db
    .selectFrom('artifacts')
    .select((e) => e.fn.countAll<number | string>().as('n'))
    .where('taskId', '=', taskId)
    .executeTakeFirstOrThrow()
  return Number(n)
}

export async function deleteOldArtifacts(db: Db, expiredBefore: number): Promise<void> {
  await db.deleteFrom('artifacts').where('expiresAt', '<', expiredBefore).execute()
}
