// Stores the keys of organizations, wrapped by the installation's key.
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { OrganizationKeysTable } from '../schema.ts'

export type OrganizationKey = Selectable<OrganizationKeysTable>
type Purpose = OrganizationKey['purpose']

/** Finds the key in use. */
export const findOrganizationKey = (
  db: Db,
  organizationId: number | null,
  purpose: Purpose,
): Promise<OrganizationKey | undefined> =>
  db
    .selectFrom('organizationKeys')
    .selectAll()
    .where('organizationId', organizationId === null ? 'is' : '=', organizationId)
    .where('purpose', '=', purpose)
    .where('retiredAt', 'is', null)
    .executeTakeFirst()

/** Returns the stored row: of two concurrent inserts, both callers get the first. */
export async function insertOrganizationKey(
  db: Db,
  row: Insertable<OrganizationKeysTable>,
): Promise<OrganizationKey> {
  await db
    .insertInto('organizationKeys')
    .values(row)
    .onConflict((c) => c.doNothing())
    .execute()
  const kept = await findOrganizationKey(db, row.organizationId ?? null, row.purpose)
  if (!kept) throw new Error(`organization ${row.organizationId} has no ${row.purpose} key`)
  return kept
}

export const listDataKeys = (db: Db): Promise<OrganizationKey[]> =>
  db
    .selectFrom('organizationKeys')
    .selectAll()
    .where('purpose', '=', 'data')
    .orderBy('id')
    .execute()

export const listDataKeyIds = async (db: Db): Promise<number[]> =>
  (
    await db
      .selectFrom('organizationKeys')
      .select('id')
      .where('purpose', '=', 'data')
      .orderBy('id')
      .execute()
  ).map(({ id }) => id)

export const findDataKeyRow = (db: Db, id: number): Promise<OrganizationKey | undefined> =>
  db
    .selectFrom('organizationKeys')
    .selectAll()
    .where('id', '=', id)
    .where('purpose', '=', 'data')
    .executeTakeFirst()

/** Applies only if no other process has wrapped it since. */
export async function updateWrapped(
  db: Db,
  key: Pick<OrganizationKey, 'id' | 'wrapped'>,
  wrapped: string,
): Promise<void> {
  await db
    .updateTable('organizationKeys')
    .set({ wrapped })
    .where('id', '=', key.id)
    .where('wrapped', '=', key.wrapped)
    .execute()
}

/** A retired key only decrypts existing values until it is deleted. */
export async function retireOrganizationKey(db: Db, id: number, now: number): Promise<void> {
  await db
    .updateTable('organizationKeys')
    .set({ retiredAt: now })
    .where('id', '=', id)
    .where('retiredAt', 'is', null)
    .execute()
}

export async function deleteRetiredKey(db: Db, id: number): Promise<void> {
  await db
    .deleteFrom('organizationKeys')
    .where('id', '=', id)
    .where('retiredAt', 'is not', null)
    .execute()
}

export const listOrganizationIds = async (db: Db): Promise<number[]> =>
  (await db.selectFrom('organizations').select('id').orderBy('id').execute()).map((o) => o.id)
