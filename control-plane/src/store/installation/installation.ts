// Stores the single row that identifies this installation and keeps the agents' certificate authority (its key
// encrypted).
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { InstallationTable } from '../schema.ts'

export type Installation = Selectable<InstallationTable>

export const findInstallation = (db: Db): Promise<Installation | undefined> =>
  db.selectFrom('installation').selectAll().where('id', '=', 1).executeTakeFirst()

/** Returns false if another process created it first. */
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

/** Returns true for exactly one caller. */
export async function markSetupDone(db: Db, now: number): Promise<boolean> {
  const result = await db
    .updateTable('installation')
    .set({ setupDoneAt: now, setupTokenHash: null })
    .where('setupDoneAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Keeps the first value, because cookies signed by another process must stay valid. */
export async function updateCookieSecret(db: Db, sealed: string): Promise<void> {
  await db
    .updateTable('installation')
    .set({ cookieSecretSealed: sealed })
    .where('cookieSecretSealed', 'is', null)
    .execute()
}
