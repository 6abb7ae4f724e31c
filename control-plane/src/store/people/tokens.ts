// Lists and ends access tokens. Revoking is a mark, never a deletion, because audit references the rows.
import type { Scope } from '@berth/shared/api'
import type { Db } from '../engine/db.ts'
import type { Token } from './people.ts'

interface Page {
  limit: number
  before?: number | undefined
}

/** Lists tokens that are still valid, newest first. */
export async function listUserTokens(
  db: Db,
  userId: number,
  now: number,
  page: Page,
): Promise<Token[]> {
  let query = db
    .selectFrom('tokens')
    .selectAll()
    .where('userId', '=', userId)
    .where('revokedAt', 'is', null)
    .where((e) => e.or([e('expiresAt', 'is', null), e('expiresAt', '>', now)]))
    .orderBy('id', 'desc')
    .limit(page.limit)
  if (page.before !== undefined) query = query.where('id', '<', page.before)
  const rows = await query.execute()
  return rows.map((row) => ({ ...row, scopes: row.scopes.split(' ') as Scope[] }))
}

export async function findToken(db: Db, id: number): Promise<Token | undefined> {
  const row = await db.selectFrom('tokens').selectAll().where('id', '=', id).executeTakeFirst()
  return row && { ...row, scopes: row.scopes.split(' ') as Scope[] }
}

export async function updateTokenRevoked(db: Db, id: number, now: number): Promise<void> {
  await db
    .updateTable('tokens')
    .set({ revokedAt: now })
    .where('id', '=', id)
    .where('revokedAt', 'is', null)
    .execute()
}

export async function deleteUserTokens(db: Db, userId: number, now: number): Promise<void> {
  await db
    .updateTable('tokens')
    .set({ revokedAt: now })
    .where('userId', '=', userId)
    .where('revokedAt', 'is', null)
    .execute()
}

/** Ends tokens bound to an organization, of a leaving member or of all when it is deleted. */
export async function deleteBoundTokens(
  db: Db,
  organizationId: number,
  userId: number | undefined,
  now: number,
): Promise<void> {
  let query = db
    .updateTable('tokens')
    .set({ revokedAt: now })
    .where('organizationId', '=', organizationId)
    .where('revokedAt', 'is', null)
  if (userId !== undefined) query = query.where('userId', '=', userId)
  await query.execute()
}

/** After a new access token, the former ones of the login end soon, so that requests in flight still pass. */
export async function updateFormerTokens(db: Db, loginId: number, end: number): Promise<void> {
  await db
    .updateTable('tokens')
    .set({ expiresAt: end })
    .where('loginId', '=', loginId)
    .where('expiresAt', '>', end)
    .execute()
}
