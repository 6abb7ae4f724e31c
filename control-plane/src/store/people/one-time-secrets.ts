// Stores secrets that are shown once, until their maker confirms them or they expire.
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { OneTimeSecretsTable } from '../schema.ts'

export type OneTimeSecretRow = Selectable<OneTimeSecretsTable>

/** Keeps the newest `most` of the user. */
export async function insertSecret(
  db: Db,
  row: Insertable<OneTimeSecretsTable>,
  most: number,
): Promise<void> {
  await db.insertInto('oneTimeSecrets').values(row).execute()
  const kept = db
    .selectFrom('oneTimeSecrets')
    .select('id')
    .where('userId', '=', row.userId)
    .orderBy('createdAt', 'desc')
    .orderBy('id')
    .limit(most)
  await db
    .deleteFrom('oneTimeSecrets')
    .where('userId', '=', row.userId)
    .where('id', 'not in', kept)
    .execute()
}

export const findSecret = (db: Db, id: string): Promise<OneTimeSecretRow | undefined> =>
  db.selectFrom('oneTimeSecrets').selectAll().where('id', '=', id).executeTakeFirst()

export async function deleteSecret(db: Db, id: string): Promise<void> {
  await db.deleteFrom('oneTimeSecrets').where('id', '=', id).execute()
}

/** The pages that this user may still open, by what they show. */
export async function listSecretsBySubject(
  db: Db,
  userId: number,
  now: number,
): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('oneTimeSecrets')
    .select(['id', 'subject'])
    .where('userId', '=', userId)
    .where('expiresAt', '>', now)
    .where('subject', 'is not', null)
    .execute()
  return new Map(rows.map(({ id, subject }) => [subject ?? '', id]))
}

export async function deleteSecretsOf(db: Db, subject: string): Promise<void> {
  await db.deleteFrom('oneTimeSecrets').where('subject', '=', subject).execute()
}

export async function deleteExpiredSecrets(db: Db, now: number): Promise<void> {
  await db.deleteFrom('oneTimeSecrets').where('expiresAt', '<=', now).execute()
}
