// Stores which organizations may place environments on a server of another one.
import type { Db } from '../engine/db.ts'
import { type Server, toServer } from './servers.ts'

export interface ShareHolder {
  id: number
  name: string
  slug: string
}

/** Organizations that a server is shared with, by server. */
export async function listShares(db: Db, serverIds: number[]): Promise<Map<number, ShareHolder[]>> {
  const shares = new Map<number, ShareHolder[]>()
  if (serverIds.length === 0) return shares
  const rows = await db
    .selectFrom('serverShares')
    .innerJoin('organizations', 'organizations.id', 'serverShares.organizationId')
    .select([
      'serverShares.serverId',
      'organizations.id',
      'organizations.name',
      'organizations.slug',
    ])
    .where('serverShares.serverId', 'in', serverIds)
    .where('organizations.removedAt', 'is', null)
    .orderBy('organizations.id')
    .execute()
  for (const { serverId, ...holder } of rows)
    shares.set(serverId, [...(shares.get(serverId) ?? []), holder])
  return shares
}

/** Servers of others that are shared with one of these organizations. */
export async function listSharedServers(db: Db, organizationIds: number[]): Promise<Server[]> {
  if (organizationIds.length === 0) return []
  const rows = await db
    .selectFrom('servers')
    .selectAll()
    .where('removedAt', 'is', null)
    .where('organizationId', 'not in', organizationIds)
    .where('id', 'in', (e) =>
      e
        .selectFrom('serverShares')
        .select('serverId')
        .where('organizationId', 'in', organizationIds),
    )
    .orderBy('name')
    .orderBy('id')
    .execute()
  return rows.map(toServer)
}

/** Returns false if it was shared before. */
export async function insertShare(
  db: Db,
  row: { serverId: number; organizationId: number; createdAt: number },
): Promise<boolean> {
  const result = await db
    .insertInto('serverShares')
    .values(row)
    .onConflict((on) => on.doNothing())
    .executeTakeFirst()
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n
}

/** Projects of that organization forget the server too. Returns false if it was not shared. */
export async function deleteShare(
  db: Db,
  { serverId, organizationId }: { serverId: number; organizationId: number },
): Promise<boolean> {
  const result = await db
    .deleteFrom('serverShares')
    .where('serverId', '=', serverId)
    .where('organizationId', '=', organizationId)
    .executeTakeFirst()
  if (result.numDeletedRows === 0n) return false
  await db
    .deleteFrom('projectServers')
    .where('serverId', '=', serverId)
    .where('projectId', 'in', (e) =>
      e.selectFrom('projects').select('id').where('organizationId', '=', organizationId),
    )
    .execute()
  await db
    .updateTable('projects')
    .set({ defaultServerId: null })
    .where('defaultServerId', '=', serverId)
    .where('organizationId', '=', organizationId)
    .execute()
  return true
}
