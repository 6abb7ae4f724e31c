// Stores invitations, each bound to one address. Of the mailed link only its hash is stored.
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { InvitationsTable } from '../schema.ts'

export type Invitation = Selectable<InvitationsTable>

export async function insertInvitation(db: Db, row: Insertable<InvitationsTable>): Promise<number> {
  const { id } = await db
    .insertInto('invitations')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export const findInvitation = (db: Db, id: number): Promise<Invitation | undefined> =>
  db.selectFrom('invitations').selectAll().where('id', '=', id).executeTakeFirst()

export const findInvitationByHash = (db: Db, hash: string): Promise<Invitation | undefined> =>
  db.selectFrom('invitations').selectAll().where('tokenHash', '=', hash).executeTakeFirst()

/** Finds the unaccepted invitation; it may have expired. */
export const findOpenInvitation = (
  db: Db,
  organizationId: number,
  email: string,
): Promise<Invitation | undefined> =>
  db
    .selectFrom('invitations')
    .selectAll()
    .where('organizationId', '=', organizationId)
    .where('email', '=', email)
    .where('acceptedAt', 'is', null)
    .executeTakeFirst()

/** True if an open invitation names this address. */
export async function findInvitationTo(db: Db, email: string, now: number): Promise<boolean> {
  const row = await db
    .selectFrom('invitations')
    .select('id')
    .where('email', '=', email)
    .where('acceptedAt', 'is', null)
    .where('expiresAt', '>', now)
    .executeTakeFirst()
  return row !== undefined
}

export async function listInvitations(
  db: Db,
  organizationId: number,
  page: { limit: number; before?: number | undefined },
): Promise<Invitation[]> {
  let query = db
    .selectFrom('invitations')
    .selectAll()
    .where('organizationId', '=', organizationId)
    .orderBy('id', 'desc')
    .limit(page.limit)
  if (page.before !== undefined) query = query.where('id', '<', page.before)
  return query.execute()
}

export async function countOpenInvitations(db: Db, organizationId: number): Promise<number> {
  const { count } = await db
    .selectFrom('invitations')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('organizationId', '=', organizationId)
    .where('acceptedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

/** Sets a new link, which invalidates the former one. */
export async function updateInvitationLink(
  db: Db,
  id: number,
  change: { tokenHash: string; expiresAt: number },
): Promise<boolean> {
  const result = await db
    .updateTable('invitations')
    .set(change)
    .where('id', '=', id)
    .where('acceptedAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Returns true for exactly one caller. */
export async function takeInvitation(
  db: Db,
  id: number,
  userId: number,
  now: number,
): Promise<boolean> {
  const result = await db
    .updateTable('invitations')
    .set({ acceptedAt: now, acceptedBy: userId })
    .where('id', '=', id)
    .where('acceptedAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function deleteInvitation(db: Db, id: number): Promise<void> {
  await db.deleteFrom('invitations').where('id', '=', id).execute()
}

export async function deleteOpenInvitations(db: Db, organizationId: number): Promise<void> {
  await db
    .deleteFrom('invitations')
    .where('organizationId', '=', organizationId)
    .where('acceptedAt', 'is', null)
    .execute()
}
