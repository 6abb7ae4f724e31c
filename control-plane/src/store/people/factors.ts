// Stores second factors: the app's secret (sealed), passkeys, hashes of recovery codes, and open passkey ceremonies.
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { PasskeyChallengesTable, PasskeysTable, TotpFactorsTable } from '../schema.ts'

export type TotpFactor = Selectable<TotpFactorsTable>
export type Passkey = Selectable<PasskeysTable>
export type Purpose = PasskeyChallengesTable['purpose']

export const findTotp = (db: Db, userId: number): Promise<TotpFactor | undefined> =>
  db.selectFrom('totpFactors').selectAll().where('userId', '=', userId).executeTakeFirst()

/** Replaces a secret that was never confirmed. */
export async function insertTotp(
  db: Db,
  row: { userId: number; secretSealed: string; createdAt: number },
): Promise<void> {
  await deleteTotp(db, row.userId)
  await db.insertInto('totpFactors').values(row).execute()
}

/** Takes the code's time step; false if this step or a later one was used. */
export async function takeTotpStep(db: Db, userId: number, step: number): Promise<boolean> {
  const taken = await db
    .updateTable('totpFactors')
    .set({ lastStep: step })
    .where('userId', '=', userId)
    .where('lastStep', '<', step)
    .executeTakeFirst()
  return taken.numUpdatedRows > 0n
}

export async function updateTotpConfirmed(db: Db, userId: number, now: number): Promise<void> {
  await db
    .updateTable('totpFactors')
    .set({ confirmedAt: now })
    .where('userId', '=', userId)
    .execute()
}

export async function deleteTotp(db: Db, userId: number): Promise<boolean> {
  const gone = await db.deleteFrom('totpFactors').where('userId', '=', userId).executeTakeFirst()
  return gone.numDeletedRows > 0n
}

export async function replaceRecoveryCodes(
  db: Db,
  userId: number,
  hashes: readonly string[],
): Promise<void> {
  await db.deleteFrom('recoveryCodes').where('userId', '=', userId).execute()
  if (hashes.length === 0) return
  await db
    .insertInto('recoveryCodes')
    .values(hashes.map((hash) => ({ userId, hash })))
    .execute()
}

/** Uses the code up; of two concurrent uses, one succeeds. */
export async function takeRecoveryCode(
  db: Db,
  userId: number,
  hash: string,
  now: number,
): Promise<boolean> {
  const taken = await db
    .updateTable('recoveryCodes')
    .set({ usedAt: now })
    .where('userId', '=', userId)
    .where('hash', '=', hash)
    .where('usedAt', 'is', null)
    .executeTakeFirst()
  return taken.numUpdatedRows > 0n
}

export async function countRecoveryCodes(db: Db, userId: number): Promise<number> {
  const { count } = await db
    .selectFrom('recoveryCodes')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('userId', '=', userId)
    .where('usedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export const listPasskeys = (db: Db, userId: number): Promise<Passkey[]> =>
  db.selectFrom('passkeys').selectAll().where('userId', '=', userId).orderBy('id').execute()

export const findPasskey = (db: Db, credentialId: string): Promise<Passkey | undefined> =>
  db.selectFrom('passkeys').selectAll().where('credentialId', '=', credentialId).executeTakeFirst()

export async function insertPasskey(db: Db, row: Insertable<PasskeysTable>): Promise<number> {
  const { id } = await db
    .insertInto('passkeys')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function updatePasskey(
  db: Db,
  key: { id: number; userId: number },
  change: { name?: string; counter?: number; lastUsedAt?: number },
): Promise<boolean> {
  const changed = await db
    .updateTable('passkeys')
    .set(change)
    .where('id', '=', key.id)
    .where('userId', '=', key.userId)
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

export async function deletePasskey(
  db: Db,
  userId: number,
  id: number,
): Promise<{ name: string } | undefined> {
  return db
    .deleteFrom('passkeys')
    .where('id', '=', id)
    .where('userId', '=', userId)
    .returning('name')
    .executeTakeFirst()
}

/** Returns what there was. */
export async function deleteFactors(
  db: Db,
  userId: number,
): Promise<{ app: boolean; passkeys: number }> {
  const app = await deleteTotp(db, userId)
  await replaceRecoveryCodes(db, userId, [])
  const gone = await db.deleteFrom('passkeys').where('userId', '=', userId).executeTakeFirst()
  return { app, passkeys: Number(gone.numDeletedRows) }
}

export async function insertChallenge(
  db: Db,
  row: Insertable<PasskeyChallengesTable>,
): Promise<void> {
  await db.insertInto('passkeyChallenges').values(row).execute()
}

/** Returns the ceremony once; of two concurrent answers, one gets it. */
export const takeChallenge = (
  db: Db,
  hash: string,
): Promise<Selectable<PasskeyChallengesTable> | undefined> =>
  db.deleteFrom('passkeyChallenges').where('hash', '=', hash).returningAll().executeTakeFirst()

export async function deleteOldChallenges(db: Db, now: number): Promise<void> {
  await db.deleteFrom('passkeyChallenges').where('expiresAt', '<', now).execute()
}
