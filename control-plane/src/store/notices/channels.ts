// Stores channels of notifications and their rules. Addresses of receivers and signing secrets are sealed.
import type { Happening, NoticeEnvironment } from '@berth/shared'
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { NoticeChannelsTable } from '../schema.ts'

type ChannelRow = Selectable<NoticeChannelsTable>

export interface Rule {
  projectId: number | null
  environmentType: NoticeEnvironment | null
  happenings: Happening[]
}

export interface Channel extends Omit<ChannelRow, 'recipients'> {
  recipients: string[]
}

const toChannel = (row: ChannelRow): Channel => ({
  ...row,
  recipients: JSON.parse(row.recipients) as string[],
})

export async function insertChannel(db: Db, row: Insertable<NoticeChannelsTable>): Promise<number> {
  const made = await db
    .insertInto('noticeChannels')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  return made.id
}

export async function updateChannel(
  db: Db,
  id: number,
  change: Updateable<NoticeChannelsTable>,
): Promise<void> {
  await db.updateTable('noticeChannels').set(change).where('id', '=', id).execute()
}

export async function findChannel(db: Db, id: number): Promise<Channel | undefined> {
  const row = await db
    .selectFrom('noticeChannels')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirst()
  return row && toChannel(row)
}

/** Locks it until the transaction ends, so that two changes do not undo each other. */
export async function lockChannel(db: Db, id: number): Promise<Channel | undefined> {
  await db
    .updateTable('noticeChannels')
    .set({ updatedAt: sql`updated_at` })
    .where('id', '=', id)
    .execute()
  return findChannel(db, id)
}

/** Keeps them from being deleted until the transaction ends; returns those that exist. Only with PostgreSQL. */
export async function holdChannels(db: Db, ids: readonly number[]): Promise<Set<number>> {
  const rows = await db
    .selectFrom('noticeChannels')
    .select('id')
    .where('id', 'in', ids)
    .orderBy('id')
    .forKeyShare()
    .execute()
  return new Set(rows.map(({ id }) => id))
}

/** Waits for those who hold the channel, so that its notices are known before it is deleted. Only with PostgreSQL. */
export async function awaitHolders(db: Db, id: number): Promise<void> {
  await db.selectFrom('noticeChannels').select('id').where('id', '=', id).forUpdate().execute()
}

export async function listChannels(db: Db, organizationId: number): Promise<Channel[]> {
  const rows = await db
    .selectFrom('noticeChannels')
    .selectAll()
    .where('organizationId', '=', organizationId)
    .orderBy('name')
    .execute()
  return rows.map(toChannel)
}

/** Locks every channel of an organization that sends mail to this address. */
export async function listChannelsTo(
  db: Db,
  organizationId: number,
  address: string,
): Promise<Channel[]> {
  const all = await listChannels(db, organizationId)
  return all.filter(({ recipients }) => recipients.includes(address))
}

export async function deleteChannel(db: Db, id: number): Promise<void> {
  await db.deleteFrom('notices').where('channelId', '=', id).execute()
  await db.deleteFrom('noticeRules').where('channelId', '=', id).execute()
  await db.deleteFrom('noticeChannels').where('id', '=', id).execute()
}

/** All of an organization that ends. */
export async function deleteChannelsOf(db: Db, organizationId: number): Promise<void> {
  await db.deleteFrom('notices').where('organizationId', '=', organizationId).execute()
  await db.deleteFrom('noticeRules').where('organizationId', '=', organizationId).execute()
  await db.deleteFrom('noticeChannels').where('organizationId', '=', organizationId).execute()
}

export async function replaceRules(
  db: Db,
  channel: { id: number; organizationId: number },
  rules: readonly Rule[],
): Promise<void> {
  await db.deleteFrom('noticeRules').where('channelId', '=', channel.id).execute()
  if (rules.length === 0) return
  await db
    .insertInto('noticeRules')
    .values(
      rules.map(({ projectId, environmentType, happenings }) => ({
        organizationId: channel.organizationId,
        channelId: channel.id,
        projectId,
        environmentType,
        happenings: JSON.stringify(happenings),
      })),
    )
    .execute()
}

export interface ChannelRule extends Rule {
  channelId: number
}

export async function listRules(db: Db, organizationId: number): Promise<ChannelRule[]> {
  const rows = await db
    .selectFrom('noticeRules')
    .select(['channelId', 'projectId', 'environmentType', 'happenings'])
    .where('organizationId', '=', organizationId)
    .orderBy('id')
    .execute()
  return rows.map((row) => ({ ...row, happenings: JSON.parse(row.happenings) as Happening[] }))
}

/** Waiting notifications by channel. */
export async function countWaiting(db: Db, channelIds: number[]): Promise<Map<number, number>> {
  if (channelIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('notices')
    .select(['channelId', (e) => e.fn.countAll<number>().as('n')])
    .where('channelId', 'in', channelIds)
    .where('status', '=', 'waiting')
    .groupBy('channelId')
    .execute()
  return new Map(rows.map(({ channelId, n }) => [channelId, Number(n)]))
}
