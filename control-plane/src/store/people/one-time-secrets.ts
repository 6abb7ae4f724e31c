// Stores secrets that a page shows to their user until the user confirms them as saved. The values are sealed.
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { OneTimeSecretsTable } from '../schema.ts'

export type OneTimeSecret = Selectable<OneTimeSecretsTable>

export async function insertOneTimeSecret(
  db: Db,
  row: Omit<Insertable<OneTimeSecretsTable>, 'sealed'>,
): Promise<number> {
  const { id } = await db
    .insertInto('oneTimeSecrets')
    .values({ ...row, sealed: '' })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function updateOneTimeSecret(db: Db, id: number, sealed: string): Promise<void> {
  await db.updateTable('oneTimeSecrets').set({ sealed }).where('id', '=', id).execute()
}

/** Newest first; without the expired ones. */
export const listOneTimeSecrets = (db: Db, userId: number, now: number): Promise<OneTimeSecret[]> =>
  db
    .selectFrom('oneTimeSecrets')
    .selectAll()
    .where('userId', '=', userId)
    .where('expiresAt', '>', now)
    .orderBy('id', 'desc')
    .execute()

export async function deleteOneTimeSecret(db: Db, userId: number, id: number): Promise<boolean> {
  const gone = await db
    .deleteFrom('oneTimeSecrets')
    .where('userId', '=', userId)
    .where('id', '=', id)
    .executeTakeFirst()
  return gone.numDeletedRows > 0n
}

export async function deleteSecretsOf(db: Db, subject: string): Promise<void> {
  await db.deleteFrom('oneTimeSecrets').where('subject', '=', subject).execute()
}

export async function deleteOldSecrets(db: Db, now: number): Promise<void> {
  await db.deleteFrom('oneTimeSecrets').where('expiresAt', '<', now).execute()
}
