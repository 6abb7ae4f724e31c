// Stores passwords and what guards them: credential accounts, browser logins, wrong tries, one-use links.
import { sql } from 'kysely'
import type { Db } from '../engine/db.ts'

const CREDENTIAL = 'credential'

export async function insertPassword(
  db: Db,
  userId: number,
  passwordHash: string,
  now: number,
): Promise<void> {
  await db
    .insertInto('accounts')
    .values({
      userId,
      provider: CREDENTIAL,
      subject: String(userId),
      passwordHash,
      createdAt: now,
      updatedAt: now,
    })
    .execute()
}

export async function upsertPassword(
  db: Db,
  userId: number,
  passwordHash: string,
  now: number,
): Promise<void> {
  const changed = await db
    .updateTable('accounts')
    .set({ passwordHash, updatedAt: now })
    .where('userId', '=', userId)
    .where('provider', '=', CREDENTIAL)
    .executeTakeFirst()
  if (changed.numUpdatedRows === 0n) await insertPassword(db, userId, passwordHash, now)
}

export async function findPasswordHash(db: Db, userId: number): Promise<string | null> {
  const row = await db
    .selectFrom('accounts')
    .select('passwordHash')
    .where('userId', '=', userId)
    .where('provider', '=', CREDENTIAL)
    .executeTakeFirst()
  return row?.passwordHash ?? null
}

/** Finds the user of a person at a provider. */
export async function findProviderAccount(
  db: Db,
  provider: string,
  subject: string,
): Promise<number | undefined> {
  const row = await db
    .selectFrom('accounts')
    .select('userId')
    .where('provider', '=', provider)
    .where('subject', '=', subject)
    .executeTakeFirst()
  return row?.userId
}

export async function hasProviderAccount(
  db: Db,
  userId: number,
  provider: string,
): Promise<boolean> {
  const row = await db
    .selectFrom('accounts')
    .select('id')
    .where('userId', '=', userId)
    .where('provider', '=', provider)
    .executeTakeFirst()
  return row !== undefined
}

export async function insertProviderAccount(
  db: Db,
  account: { userId: number; provider: string; subject: string },
  now: number,
): Promise<void> {
  await db
    .insertInto('accounts')
    .values({ ...account, passwordHash: null, createdAt: now, updatedAt: now })
    .execute()
}

export async function findAccountUser(db: Db, accountId: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('accounts')
    .select('userId')
    .where('id', '=', accountId)
    .executeTakeFirst()
  return row?.userId
}

export async function deleteUserSessions(db: Db, userId: number): Promise<void> {
  await db.deleteFrom('browserSessions').where('userId', '=', userId).execute()
}

/** Returns how many ended. */
export async function deleteOtherSessions(
  db: Db,
  userId: number,
  sessionId: number,
): Promise<number> {
  const gone = await db
    .deleteFrom('browserSessions')
    .where('userId', '=', userId)
    .where('id', '!=', sessionId)
    .executeTakeFirst()
  return Number(gone.numDeletedRows)
}

/** The second factor was shown. False if the session ended or had it already. */
export async function completeSession(
  db: Db,
  id: number,
  times: { verifiedAt: number; expiresAt: number },
): Promise<boolean> {
  const done = await db
    .updateTable('browserSessions')
    .set({ ...times, lastUsedAt: times.verifiedAt, awaitsFactor: 0 })
    .where('id', '=', id)
    .where('awaitsFactor', '=', 1)
    .executeTakeFirst()
  return done.numUpdatedRows > 0n
}

/** Its user proved again who they are. */
export async function updateSessionVerified(db: Db, id: number, now: number): Promise<void> {
  await db.updateTable('browserSessions').set({ verifiedAt: now }).where('id', '=', id).execute()
}

export async function updateSessionUse(
  db: Db,
  id: number,
  use: { lastUsedAt: number; address: string },
): Promise<void> {
  await db.updateTable('browserSessions').set(use).where('id', '=', id).execute()
}

/** Deletes unused one-use links that were mailed to this user. */
export async function deleteUserVerifications(db: Db, userId: number): Promise<void> {
  await db.deleteFrom('verifications').where('value', '=', String(userId)).execute()
}

/**
 * Counts one try and returns how many there were and when a lock ends. It is one statement, so no concurrent try slips
 * through. Tries beyond `most` do not prolong the lock.
 */
export async function raiseWrongTries(
  db: Db,
  key: string,
  bounds: { now: number; most: number; windowMs: number },
): Promise<{ count: number; until: number }> {
  const { now, most, windowMs } = bounds
  const { rows } = await sql<{ count: number; since: number }>`
    insert into wrong_tries (key, count, since) values (${key}, 1, ${now})
    on conflict (key) do update set
      count = case when wrong_tries.since <= ${now - windowMs} then 1 else wrong_tries.count + 1 end,
      since = case
        when wrong_tries.since <= ${now - windowMs} or wrong_tries.count < ${most} then ${now}
        else wrong_tries.since end
    returning count, since`.execute(db)
  const row = rows[0]
  if (!row) throw new Error('a try could not be counted')
  return { count: row.count, until: row.since + windowMs }
}

export async function deleteWrongTries(db: Db, key: string): Promise<void> {
  await db.deleteFrom('wrongTries').where('key', '=', key).execute()
}

/** Retention: deletes what has expired. */
export async function deleteEndedSessions(db: Db, now: number, lockMs: number): Promise<void> {
  await db.deleteFrom('browserSessions').where('expiresAt', '<', now).execute()
  await db.deleteFrom('verifications').where('expiresAt', '<', now).execute()
  await db
    .deleteFrom('wrongTries')
    .where('since', '<', now - lockMs)
    .execute()
}

export interface BrowserSession {
  id: number
  address: string | null
  userAgent: string | null
  createdAt: number
  /** Null: not since it began, before uses were kept. */
  lastUsedAt: number | null
  expiresAt: number
  method: 'password' | 'provider' | 'passkey'
}

/** Newest first, up to the limit. */
export async function listUserSessions(
  db: Db,
  userId: number,
  now: number,
): Promise<BrowserSession[]> {
  return db
    .selectFrom('browserSessions')
    .select(['id', 'address', 'userAgent', 'createdAt', 'lastUsedAt', 'expiresAt', 'method'])
    .where('userId', '=', userId)
    .where('awaitsFactor', '=', 0)
    .where('expiresAt', '>', now)
    .orderBy('id', 'desc')
    .limit(100)
    .execute()
}

/** Returns false if it is not theirs or does not exist. */
export async function deleteUserSession(db: Db, userId: number, id: number): Promise<boolean> {
  const gone = await db
    .deleteFrom('browserSessions')
    .where('userId', '=', userId)
    .where('id', '=', id)
    .executeTakeFirst()
  return gone.numDeletedRows > 0n
}
