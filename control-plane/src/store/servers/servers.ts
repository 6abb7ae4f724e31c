// Stores servers, and the one-use tokens with which their agents join.
import type { Insertable, Selectable, Updateable } from 'kysely'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { JoinTokensTable, ServersTable } from '../schema.ts'
import { deleteServerUpdates } from './rollouts.ts'
import { deleteServerUsage } from './usage.ts'

/** What an agent reported about its machine in its last hello. */
export interface HostFacts {
  hostname: string
  os: string
  arch: string
  dockerVersion: string
  cpus: number
  memoryBytes: number
  diskBytes: number
  diskFreeBytes: number
  parts: { name: string; version: string; reason: string }[]
  /** How users connect by SSH, as the agent configured it; absent if not reported. */
  ssh?: { isOff?: boolean; port: number; accounts: string[] } | undefined
}
export interface Server extends Omit<Selectable<ServersTable>, 'host' | 'paused' | 'shellEnabled'> {
  host: HostFacts | null
  paused: boolean
  shellEnabled: boolean
}
export type JoinToken = Selectable<JoinTokensTable>

export const toServer = (row: Selectable<ServersTable>): Server => ({
  ...row,
  paused: row.paused === 1,
  shellEnabled: row.shellEnabled === 1,
  host: row.host === null ? null : (JSON.parse(row.host) as HostFacts),
})

export async function insertServer(db: Db, row: Insertable<ServersTable>): Promise<number> {
  const { id } = await db
    .insertInto('servers')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function findServer(db: Db, id: number): Promise<Server | undefined> {
  const [row] = await runCompiled(db, 'server by id', [id], () =>
    db.selectFrom('servers').selectAll().where('id', '=', id).where('removedAt', 'is', null),
  )
  return row && toServer(row)
}

/** Locks the server until the transaction ends. */
export async function lockServer(db: Db, id: number): Promise<Server | undefined> {
  const row = await db
    .updateTable('servers')
    .set((e) => ({ paused: e.ref('paused') }))
    .where('id', '=', id)
    .where('removedAt', 'is', null)
    .returningAll()
    .executeTakeFirst()
  return row && toServer(row)
}

/** Lists the ids of projects that name a server. */
export async function listServerProjects(db: Db, serverId: number): Promise<number[]> {
  const rows = await db
    .selectFrom('projectServers')
    .select('projectId')
    .where('serverId', '=', serverId)
    .orderBy('projectId')
    .execute()
  return rows.map((row) => row.projectId)
}

export async function updateServer(
  db: Db,
  id: number,
  change: Updateable<ServersTable>,
): Promise<void> {
  if (Object.keys(change).length === 0) return // an update without a column is no SQL
  await db.updateTable('servers').set(change).where('id', '=', id).execute()
}

/** The row stays for its tasks; its name becomes free, and no project names it. */
export async function closeServer(db: Db, server: Server, now: number): Promise<void> {
  await db.deleteFrom('joinTokens').where('serverId', '=', server.id).execute()
  await deleteServerUsage(db, server.id)
  await deleteServerUpdates(db, server.id)
  await db.deleteFrom('projectServers').where('serverId', '=', server.id).execute()
  await db.deleteFrom('serverShares').where('serverId', '=', server.id).execute()
  await db
    .updateTable('projects')
    .set({ defaultServerId: null })
    .where('defaultServerId', '=', server.id)
    .execute()
  await updateServer(db, server.id, { removedAt: now, name: `${server.name} #${server.id}` })
}

export async function countServers(db: Db, organizationId: number): Promise<number> {
  const row = await db
    .selectFrom('servers')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('organizationId', '=', organizationId)
    .where('removedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return row.count
}

/** Lists the environments and left-behind copies that prevent a server's removal. */
export const listServerEnvironments = (
  db: Db,
  serverId: number,
): Promise<{ id: number; identifier: string; organizationId: number }[]> =>
  db
    .selectFrom('environments')
    .select(['id', 'identifier', 'organizationId'])
    .where('removedAt', 'is', null)
    .where((e) => e.or([e('serverId', '=', serverId), e('formerServerId', '=', serverId)]))
    .orderBy('id')
    .execute()

export async function deleteUnusedJoinTokens(db: Db, serverId: number): Promise<void> {
  await db
    .deleteFrom('joinTokens')
    .where('serverId', '=', serverId)
    .where('usedAt', 'is', null)
    .execute()
}

export async function listServers(db: Db, organizationIds: number[]): Promise<Server[]> {
  if (organizationIds.length === 0) return []
  const rows = await db
    .selectFrom('servers')
    .selectAll()
    .where('organizationId', 'in', organizationIds)
    .where('removedAt', 'is', null)
    .orderBy('name')
    .orderBy('id')
    .execute()
  return rows.map(toServer)
}

export async function listAllServers(db: Db): Promise<Server[]> {
  const rows = await db
    .selectFrom('servers')
    .selectAll()
    .where('removedAt', 'is', null)
    .orderBy('id')
    .execute()
  return rows.map(toServer)
}

export async function listServersById(db: Db, ids: number[]): Promise<Server[]> {
  if (ids.length === 0) return []
  const rows = await runCompiled(db, `${ids.length} servers`, ids, () =>
    db.selectFrom('servers').selectAll().where('id', 'in', ids),
  )
  return rows.map(toServer)
}

export async function updateServerHost(db: Db, id: number, host: HostFacts): Promise<void> {
  await db
    .updateTable('servers')
    .set({ host: JSON.stringify(host) })
    .where('id', '=', id)
    .execute()
}

/** Of all organizations, or of these. */
export async function countEnvironmentsByServer(
  db: Db,
  serverIds: number[],
  organizationIds?: number[],
): Promise<Map<number, number>> {
  if (serverIds.length === 0 || organizationIds?.length === 0) return new Map()
  let query = db
    .selectFrom('environments')
    .select((e) => ['serverId', e.fn.countAll<number>().as('count')])
    .where('serverId', 'in', serverIds)
    .where('removedAt', 'is', null)
  if (organizationIds) query = query.where('organizationId', 'in', organizationIds)
  const rows = await query.groupBy('serverId').execute()
  return new Map(rows.map((row) => [row.serverId, row.count]))
}

/** A new token invalidates the server's former ones; used ones stay for repeated answers. */
export async function insertJoinToken(
  db: Db,
  row: Pick<JoinToken, 'id' | 'secretHash' | 'serverId' | 'createdAt' | 'expiresAt'>,
): Promise<void> {
  await deleteUnusedJoinTokens(db, row.serverId)
  await db.insertInto('joinTokens').values(row).execute()
}

export const findJoinToken = (db: Db, id: string): Promise<JoinToken | undefined> =>
  db.selectFrom('joinTokens').selectAll().where('id', '=', id).executeTakeFirst()

/** Returns true for exactly one of any number of concurrent joins. */
export async function consumeJoinToken(
  db: Db,
  id: string,
  use: { usedAt: number; usedKeyHash: string; agentId: string },
): Promise<boolean> {
  const result = await db
    .updateTable('joinTokens')
    .set(use)
    .where('id', '=', id)
    .where('usedAt', 'is', null)
    .where('expiresAt', '>', use.usedAt)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function updateJoinResponse(db: Db, id: string, response: string): Promise<void> {
  await db.updateTable('joinTokens').set({ response }).where('id', '=', id).execute()
}

export async function deleteOldJoinTokens(db: Db, before: number): Promise<void> {
  await db.deleteFrom('joinTokens').where('expiresAt', '<', before).execute()
}
