// The one row that says which installation this is and keeps the agents' certificate authority (its key sealed).
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { InstallationTable } from '../schema.ts'

export type Installation = Selectable<InstallationTable>

export const findInstallation = (db: Db): Promise<Installation | undefined> =>
  db.selectFrom('installation').selectAll().where('id', '=', 1).executeTakeFirst()

/** False when another process made it first. */
export async function insertInstallation(
  db: Db,
  row: Omit<Insertable<InstallationTable>, 'id'>,
): Promise<boolean> {
  const result = await db
    .insertInto('installation')
    .values({ id: 1, ...row })
    .onConflict((c) => c.column('id').doNothing())
    .executeTakeFirst()
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n
}

export async function updateSetupToken(db: Db, hash: string): Promise<void> {
  await db
    .updateTable('installation')
    .set({ setupTokenHash: hash })
    .where('setupDoneAt', 'is', null)
    .execute()
}

/** True for exactly one caller: the token is spent by the same statement that checks it. */
export async function consumeSetupToken(db: Db, hash: string, now: number): Promise<boolean> {
  const result = await db
    .updateTable('installation')
    .set({ setupDoneAt: now, setupTokenHash: null })
    .where('setupTokenHash', '=', hash)
    .where('setupDoneAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** The first one stays: cookies signed by another process must go on being good. */
export async function updateCookieSecret(db: Db, sealed: string): Promise<void> {
  await db
    .updateTable('installation')
    .set({ cookieSecretSealed: sealed })
    .where('cookieSecretSealed', 'is', null)
    .execute()
}
