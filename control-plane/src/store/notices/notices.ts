// Stores notifications on their way to a channel, and the ledger of what became of them. A row is written in the
// transaction of what it is about. The rows of one channel, of e-mail those of one address, form a lane: they are sent
// in the order of their ids.
import type { NotificationStatus } from '@berth/shared'
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { NoticesTable } from '../schema.ts'

/** Literal text, as in the partial indexes of rows that wait. */
const WAITING = sql.lit('waiting' as const)

export type NoticeRow = Selectable<NoticesTable>
export type NewNotice = Insertable<NoticesTable>
type NoticeChange = Updateable<NoticesTable>

export async function insertNotices(db: Db, rows: NewNotice[]): Promise<number[]> {
  if (rows.length === 0) return []
  const made = await db.insertInto('notices').values(rows).returning('id').execute()
  return made.map(({ id }) => id)
}

export const findNotice = (db: Db, id: number): Promise<NoticeRow | undefined> =>
  db.selectFrom('notices').selectAll().where('id', '=', id).executeTakeFirst()

export interface Lane {
  channelId: number
  recipient: string
}

/** Lanes whose first waiting row is due, longest due first. */
export const listDueLanes = (db: Db, now: number, limit: number): Promise<Lane[]> =>
  db
    .selectFrom('notices as n')
    .select(['n.channelId', 'n.recipient'])
    .where('n.status', '=', WAITING)
    .where('n.nextAt', '<=', now)
    .where((e) =>
      e.not(
        e.exists(
          e
            .selectFrom('notices as before')
            .select('before.id')
            .whereRef('before.channelId', '=', 'n.channelId')
            .whereRef('before.recipient', '=', 'n.recipient')
            .where('before.status', '=', WAITING)
            .whereRef('before.id', '<', 'n.id'),
        ),
      ),
    )
    .orderBy('n.nextAt')
    .orderBy('n.id')
    .limit(limit)
    .execute()

/** The first waiting row of a lane, due or not. */
export const findFirstWaiting = (
  db: Db,
  { channelId, recipient }: Lane,
): Promise<NoticeRow | undefined> =>
  db
    .selectFrom('notices')
    .selectAll()
    .where('channelId', '=', channelId)
    .where('recipient', '=', recipient)
    .where('status', '=', WAITING)
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()

export async function updateNotice(db: Db, id: number, change: NoticeChange): Promise<void> {
  await db.updateTable('notices').set(change).where('id', '=', id).execute()
}

const over = (now: number, error: string) => ({
  status: 'skipped' as const,
  nextAt: null,
  error,
  finishedAt: now,
})

/** Skips waiting rows beyond the newest `keep` of a channel. */
export async function skipOldest(
  db: Db,
  channelId: number,
  { keep, now, error }: { keep: number; now: number; error: string },
): Promise<void> {
  const first = await db
    .selectFrom('notices')
    .select('id')
    .where('channelId', '=', channelId)
    .where('status', '=', WAITING)
    .orderBy('id', 'desc')
    .offset(keep)
    .limit(1)
    .executeTakeFirst()
  if (!first) return
  await db
    .updateTable('notices')
    .set(over(now, error))
    .where('channelId', '=', channelId)
    .where('status', '=', WAITING)
    .where('id', '<=', first.id)
    .execute()
}

/** Skips all waiting rows of a channel, or those to one address. */
export async function skipWaiting(
  db: Db,
  lane: { channelId: number; recipient?: string },
  { now, error }: { now: number; error: string },
): Promise<void> {
  let query = db
    .updateTable('notices')
    .set(over(now, error))
    .where('channelId', '=', lane.channelId)
    .where('status', '=', WAITING)
  if (lane.recipient !== undefined) query = query.where('recipient', '=', lane.recipient)
  await query.execute()
}

/** Newest first. */
export async function listNotices(
  db: Db,
  channelId: number,
  page: { limit: number; from: number | undefined; status?: NotificationStatus | undefined },
): Promise<NoticeRow[]> {
  let query = db.selectFrom('notices').selectAll().where('channelId', '=', channelId)
  if (page.from !== undefined) query = query.where('id', '<', page.from)
  if (page.status !== undefined) query = query.where('status', '=', page.status)
  return query.orderBy('id', 'desc').limit(page.limit).execute()
}

/** Of a project that ends: what is not sent yet is of no use, and its texts go. */
export async function deleteNoticesOfProject(db: Db, projectId: number): Promise<void> {
  await db.deleteFrom('noticeRules').where('projectId', '=', projectId).execute()
  await db
    .deleteFrom('notices')
    .where('projectId', '=', projectId)
    .where('status', '!=', 'waiting')
    .execute()
}

/** Applies retention: by age, and to the newest rows of each channel. */
export async function deleteOldNotices(
  db: Db,
  { before, keep }: { before: number; keep: number },
): Promise<void> {
  await db
    .deleteFrom('notices')
    .where('createdAt', '<', before)
    .where('status', '!=', 'waiting')
    .execute()
  const channels = await db.selectFrom('noticeChannels').select('id').execute()
  for (const { id } of channels) {
    const first = await db
      .selectFrom('notices')
      .select('id')
      .where('channelId', '=', id)
      .orderBy('id', 'desc')
      .offset(keep)
      .limit(1)
      .executeTakeFirst()
    if (!first) continue
    await db
      .deleteFrom('notices')
      .where('channelId', '=', id)
      .where('id', '<=', first.id)
      .where('status', '!=', 'waiting')
      .execute()
  }
}
