// Stores requests that carry an Idempotency-Key: whether they are running, and the reply. Request bodies are not
// stored.
import type { Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { IdempotencyKeysTable } from '../schema.ts'

export type RepeatedRequest = Selectable<IdempotencyKeysTable>

export interface RequestName {
  userId: number
  method: string
  path: string
  key: string
}

interface Fresh {
  fingerprint: string
  startedAt: number
  replicaId: string
}

/** Returns the new row's id, or undefined if the key is already known. */
export async function insertRequest(db: Db, row: RequestName & Fresh): Promise<number | undefined> {
  const made = await db
    .insertInto('idempotencyKeys')
    .values(row)
    .onConflict((c) => c.columns(['userId', 'method', 'path', 'key']).doNothing())
    .returning('id')
    .executeTakeFirst()
  return made?.id
}

export const findRequest = (db: Db, name: RequestName): Promise<RepeatedRequest | undefined> =>
  db
    .selectFrom('idempotencyKeys')
    .selectAll()
    .where('userId', '=', name.userId)
    .where('method', '=', name.method)
    .where('path', '=', name.path)
    .where('key', '=', name.key)
    .executeTakeFirst()

const EMPTY = {
  status: null,
  contentType: null,
  location: null,
  body: null,
  madeId: null,
  effectAt: null,
}

/** Takes over an expired or abandoned row; returns false if a concurrent request took it first. */
export async function restartRequest(
  db: Db,
  former: RepeatedRequest,
  fresh: Fresh,
): Promise<boolean> {
  const result = await db
    .updateTable('idempotencyKeys')
    .set({ ...EMPTY, ...fresh })
    .where('id', '=', former.id)
    .where('startedAt', '=', former.startedAt)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export type Reply = Pick<RepeatedRequest, 'contentType' | 'location' | 'body' | 'madeId'> & {
  status: number
}

/** `startedAt` identifies the owner: a request whose row was taken over meanwhile writes nothing. */
export async function updateReply(
  db: Db,
  id: number,
  startedAt: number,
  reply: Reply,
): Promise<void> {
  await db
    .updateTable('idempotencyKeys')
    .set(reply)
    .where('id', '=', id)
    .where('startedAt', '=', startedAt)
    .execute()
}

/**
 * Notes in the transaction of the effect that there is one, and what the first one made. Returns false if the row was
 * taken over or deleted: then nothing of it may be committed.
 */
export async function noteRequestEffect(
  db: Db,
  effect: { id: number; startedAt: number; effectAt: number; madeId: number | null },
): Promise<boolean> {
  const result = await db
    .updateTable('idempotencyKeys')
    .set((e) => ({
      effectAt: effect.effectAt,
      madeId: e.fn.coalesce('madeId', e.val(effect.madeId)),
    }))
    .where('id', '=', effect.id)
    .where('startedAt', '=', effect.startedAt)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** A reply that is not kept. */
export async function updateStatus(
  db: Db,
  id: number,
  startedAt: number,
  status: number,
): Promise<void> {
  await db
    .updateTable('idempotencyKeys')
    .set({ status })
    .where('id', '=', id)
    .where('startedAt', '=', startedAt)
    .execute()
}

/** Only a request without an effect. */
export async function deleteRequest(db: Db, id: number, startedAt: number): Promise<void> {
  await db
    .deleteFrom('idempotencyKeys')
    .where('id', '=', id)
    .where('startedAt', '=', startedAt)
    .where('effectAt', 'is', null)
    .execute()
}

export async function deleteOldRequests(db: Db, before: number): Promise<void> {
  await db.deleteFrom('idempotencyKeys').where('startedAt', '<', before).execute()
}
