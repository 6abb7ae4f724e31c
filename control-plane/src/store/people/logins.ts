// Stores logins of clients: the family, its refresh tokens, and device codes that wait for a user. Every step that may
// happen only once is one conditional update.
import type { Scope } from '@berth/shared/api'
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { DeviceLoginsTable, LoginsTable, RefreshTokensTable } from '../schema.ts'

export interface Login extends Omit<Selectable<LoginsTable>, 'scopes'> {
  scopes: Scope[]
}
export interface DeviceLogin extends Omit<Selectable<DeviceLoginsTable>, 'scopes'> {
  scopes: Scope[]
}
type RefreshToken = Selectable<RefreshTokensTable>

const withScopes = <T extends { scopes: string }>(row: T) => ({
  ...row,
  scopes: row.scopes.split(' ') as Scope[],
})

export async function insertLogin(
  db: Db,
  row: Omit<Insertable<LoginsTable>, 'scopes'> & { scopes: Scope[] },
): Promise<number> {
  const { id } = await db
    .insertInto('logins')
    .values({ ...row, scopes: row.scopes.join(' ') })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function updateLoginScopes(db: Db, id: number, scopes: Scope[]): Promise<void> {
  await db
    .updateTable('logins')
    .set({ scopes: scopes.join(' ') })
    .where('id', '=', id)
    .execute()
}

export async function findLogin(db: Db, id: number): Promise<Login | undefined> {
  const row = await db.selectFrom('logins').selectAll().where('id', '=', id).executeTakeFirst()
  return row && withScopes(row)
}

/** Locks the login until the transaction ends; returns false if it has ended. */
export async function holdLogin(db: Db, id: number): Promise<boolean> {
  const result = await db
    .updateTable('logins')
    .set((e) => ({ name: e.ref('name') }))
    .where('id', '=', id)
    .where('revokedAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Ends whole families: none of their access and refresh tokens works from here on. */
export async function deleteLogins(
  db: Db,
  which: { id: number } | { userId: number },
  now: number,
): Promise<void> {
  const logins = db.updateTable('logins').set({ revokedAt: now }).where('revokedAt', 'is', null)
  const tokens = db.updateTable('tokens').set({ revokedAt: now }).where('revokedAt', 'is', null)
  if ('id' in which) {
    await logins.where('id', '=', which.id).execute()
    await tokens.where('loginId', '=', which.id).execute()
  } else {
    // first the devices that could still become a login; one that just became one is found below
    await db
      .updateTable('deviceLogins')
      .set({ status: 'denied' })
      .where('userId', '=', which.userId)
      .where('status', '=', 'approved')
      .execute()
    await logins.where('userId', '=', which.userId).execute()
    await tokens.where('userId', '=', which.userId).where('loginId', 'is not', null).execute()
  }
}

export async function insertRefreshToken(
  db: Db,
  row: { loginId: number; hash: string; createdAt: number; expiresAt: number },
): Promise<void> {
  await db.insertInto('refreshTokens').values(row).execute()
}

export const findRefreshToken = (db: Db, hash: string): Promise<RefreshToken | undefined> =>
  db.selectFrom('refreshTokens').selectAll().where('hash', '=', hash).executeTakeFirst()

/** Returns false if another request spent it first. */
export async function takeRefreshToken(db: Db, id: number, now: number): Promise<boolean> {
  const result = await db
    .updateTable('refreshTokens')
    .set({ spentAt: now })
    .where('id', '=', id)
    .where('spentAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Takes the one permitted repetition; returns false if it was already taken. */
export async function takeRepetition(db: Db, id: number, now: number): Promise<boolean> {
  const result = await db
    .updateTable('refreshTokens')
    .set({ repeatedAt: now })
    .where('id', '=', id)
    .where('repeatedAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function insertDeviceLogin(
  db: Db,
  row: Omit<Insertable<DeviceLoginsTable>, 'scopes'> & { scopes: Scope[] },
): Promise<void> {
  await db
    .insertInto('deviceLogins')
    .values({ ...row, scopes: row.scopes.join(' ') })
    .execute()
}

export async function findDeviceByCode(db: Db, hash: string): Promise<DeviceLogin | undefined> {
  const row = await db
    .selectFrom('deviceLogins')
    .selectAll()
    .where('deviceCodeHash', '=', hash)
    .executeTakeFirst()
  return row && withScopes(row)
}

export async function findDeviceByUserCode(
  db: Db,
  userCode: string,
): Promise<DeviceLogin | undefined> {
  const row = await db
    .selectFrom('deviceLogins')
    .selectAll()
    .where('userCode', '=', userCode)
    .executeTakeFirst()
  return row && withScopes(row)
}

export async function updateDevicePoll(
  db: Db,
  id: number,
  change: { polledAt: number; intervalMs: number },
): Promise<void> {
  await db.updateTable('deviceLogins').set(change).where('id', '=', id).execute()
}

/** Changes the status once; returns false if it is no longer `from`. */
export async function moveDevice(
  db: Db,
  id: number,
  from: DeviceLogin['status'],
  to: DeviceLogin['status'],
  userId?: number,
): Promise<boolean> {
  const result = await db
    .updateTable('deviceLogins')
    .set({ status: to, ...(userId === undefined ? {} : { userId }) })
    .where('id', '=', id)
    .where('status', '=', from)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function deleteEndedLogins(db: Db, before: number): Promise<void> {
  await db.deleteFrom('deviceLogins').where('expiresAt', '<', before).execute()
  await db.deleteFrom('refreshTokens').where('expiresAt', '<', before).execute()
}
