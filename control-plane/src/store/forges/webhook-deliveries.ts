// Stores webhook deliveries. Rows without decided_at are the queue; a process locks a row before it decides it, so each
// is decided once. Rejected attempts are rows of their own, a few per project, without a body.
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { DeliveriesTable, RefusedDeliveriesTable } from '../schema.ts'

export type Delivery = Selectable<DeliveriesTable>
export type RefusedDelivery = Selectable<RefusedDeliveriesTable>

export async function insertDelivery(db: Db, row: Insertable<DeliveriesTable>): Promise<number> {
  const { id } = await db
    .insertInto('deliveries')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export const findDelivery = (db: Db, id: number): Promise<Delivery | undefined> =>
  db.selectFrom('deliveries').selectAll().where('id', '=', id).executeTakeFirst()

/**
 * Counts a try outside the decision's transaction, so failures count too. Returns undefined if it is already decided.
 */
export async function countTry(db: Db, id: number): Promise<number | undefined> {
  const row = await db
    .updateTable('deliveries')
    .set((e) => ({ tries: e('tries', '+', 1) }))
    .where('id', '=', id)
    .where('decidedAt', 'is', null)
    .returning('tries')
    .executeTakeFirst()
  return row?.tries
}

/** Locks the undecided row until the transaction ends. Undefined if it is already decided. */
export const lockOpenDelivery = (db: Db, id: number): Promise<Delivery | undefined> =>
  db
    .updateTable('deliveries')
    .set((e) => ({ tries: e.ref('tries') }))
    .where('id', '=', id)
    .where('decidedAt', 'is', null)
    .returningAll()
    .executeTakeFirst()

export async function updateDelivery(
  db: Db,
  id: number,
  change: Updateable<DeliveriesTable>,
): Promise<void> {
  await db.updateTable('deliveries').set(change).where('id', '=', id).execute()
}

/** Finds the decided original of the same delivery, skipping repetitions. */
export const findDecided = (
  db: Db,
  d: { id: number; projectId: number; deliveryId: string },
  since: number,
): Promise<Delivery | undefined> =>
  db
    .selectFrom('deliveries')
    .selectAll()
    .where('projectId', '=', d.projectId)
    .where('deliveryId', '=', d.deliveryId)
    .where('receivedAt', '>=', since)
    .where('decidedAt', 'is not', null)
    .where('outcome', 'not in', ['duplicate', 'error'])
    .where('replayOf', 'is', null)
    .where('id', '!=', d.id)
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()

/** Returns whether this id was seen before, so that its body is stored only once. */
export async function wasSeen(db: Db, projectId: number, deliveryId: string): Promise<boolean> {
  const row = await db
    .selectFrom('deliveries')
    .select('id')
    .where('projectId', '=', projectId)
    .where('deliveryId', '=', deliveryId)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Lists undecided rows, oldest first. */
export const listOpenDeliveries = (
  db: Db,
  limit: number,
): Promise<{ id: number; tries: number; receivedAt: number }[]> =>
  db
    .selectFrom('deliveries')
    .select(['id', 'tries', 'receivedAt'])
    .where('decidedAt', 'is', null)
    .orderBy('id')
    .limit(limit)
    .execute()

export interface DeliveryFilter {
  outcome?: string | undefined
  rule?: string | undefined
  event?: string | undefined
  pullRequest?: number | undefined
  beforeId?: number | undefined
  limit: number
}

/** Newest first, by key. */
export async function listDeliveries(
  db: Db,
  projectId: number,
  filter: DeliveryFilter,
): Promise<Delivery[]> {
  let query = db
    .selectFrom('deliveries')
    .selectAll()
    .where('projectId', '=', projectId)
    .orderBy('id', 'desc')
    .limit(filter.limit)
  if (filter.outcome !== undefined) query = query.where('outcome', '=', filter.outcome)
  if (filter.rule !== undefined) query = query.where('rule', '=', filter.rule)
  if (filter.event !== undefined) query = query.where('event', '=', filter.event)
  if (filter.pullRequest !== undefined) {
    query = query.where('pullRequestNumber', '=', filter.pullRequest)
  }
  if (filter.beforeId !== undefined) query = query.where('id', '<', filter.beforeId)
  return query.execute()
}

/** Deletes expired rows and bodies, and rows above the limit of a project. Undecided rows stay. */
export async function deleteOldDeliveries(
  db: Db,
  o: { rowsBefore: number; bodiesBefore: number; perProject: number },
): Promise<void> {
  await db
    .deleteFrom('deliveries')
    .where('receivedAt', '<', o.rowsBefore)
    .where('decidedAt', 'is not', null)
    .execute()
  await db
    .updateTable('deliveries')
    .set({ body: null })
    .where('receivedAt', '<', o.bodiesBefore)
    .where('body', 'is not', null)
    .execute()
  const crowded = await db
    .selectFrom('deliveries')
    .select('projectId')
    .groupBy('projectId')
    .having((e) => e(e.fn.countAll<number>(), '>', o.perProject))
    .execute()
  for (const { projectId } of crowded) {
    const oldest = await db
      .selectFrom('deliveries')
      .select('id')
      .where('projectId', '=', projectId)
      .orderBy('id', 'desc')
      .offset(o.perProject)
      .limit(1)
      .executeTakeFirst()
    if (!oldest) continue
    await db
      .deleteFrom('deliveries')
      .where('projectId', '=', projectId)
      .where('id', '<=', oldest.id)
      .where('decidedAt', 'is not', null)
      .execute()
  }
}

/** Keeps only the newest rejected attempts of a project. */
export async function insertRefused(
  db: Db,
  rows: Insertable<RefusedDeliveriesTable>[],
  kept: number,
): Promise<void> {
  if (rows.length === 0) return
  await db.insertInto('refusedDeliveries').values(rows).execute()
  for (const projectId of new Set(rows.map((row) => row.projectId))) {
    await sql`delete from refused_deliveries where project_id = ${projectId} and id not in
      (select id from refused_deliveries where project_id = ${projectId}
       order by id desc limit ${kept})`.execute(db)
  }
}

export const listRefused = (db: Db, projectId: number, limit: number): Promise<RefusedDelivery[]> =>
  db
    .selectFrom('refusedDeliveries')
    .selectAll()
    .where('projectId', '=', projectId)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
