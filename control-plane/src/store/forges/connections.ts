// Stores connections to forges with encrypted tokens, what Berth made in the repositories of connected projects, and
// what must still be removed there. One conditional update claims a due row, so that two replicas never do the same.
import type { Insertable, Selectable, Updateable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { ForgeConnectionsTable, ForgeRemovalsTable, ForgeSetupsTable } from '../schema.ts'

export type ForgeConnection = Selectable<ForgeConnectionsTable>
export type ForgeSetup = Selectable<ForgeSetupsTable>
export type ForgeRemoval = Selectable<ForgeRemovalsTable>

export const findConnection = (db: Db, id: number): Promise<ForgeConnection | undefined> =>
  db.selectFrom('forgeConnections').selectAll().where('id', '=', id).executeTakeFirst()

export const listConnections = (db: Db, organizationId: number): Promise<ForgeConnection[]> =>
  db
    .selectFrom('forgeConnections')
    .selectAll()
    .where('organizationId', '=', organizationId)
    .orderBy('id')
    .execute()

export async function insertConnection(
  db: Db,
  row: Insertable<ForgeConnectionsTable>,
): Promise<number> {
  const made = await db
    .insertInto('forgeConnections')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  return made.id
}

export async function updateConnection(
  db: Db,
  id: number,
  columns: Updateable<ForgeConnectionsTable>,
): Promise<void> {
  await db.updateTable('forgeConnections').set(columns).where('id', '=', id).execute()
}

/** With the removals that only this connection could have performed. */
export async function deleteConnection(db: Db, id: number): Promise<void> {
  await db.deleteFrom('forgeRemovals').where('connectionId', '=', id).execute()
  // the row of a removed project stays, and must not hold the connection
  await db
    .updateTable('projects')
    .set({ forgeConnectionId: null })
    .where('forgeConnectionId', '=', id)
    .execute()
  await db.deleteFrom('forgeConnections').where('id', '=', id).execute()
}

/** All of an organization that ends. */
export async function deleteConnectionsOf(db: Db, organizationId: number): Promise<void> {
  for (const { id } of await listConnections(db, organizationId)) await deleteConnection(db, id)
}

/** Projects that use any of these connections, by name. */
export async function listConnectedProjects(
  db: Db,
  connectionIds: number[],
): Promise<{ id: number; name: string; connectionId: number }[]> {
  if (connectionIds.length === 0) return []
  const rows = await db
    .selectFrom('projects')
    .select(['id', 'name', 'forgeConnectionId'])
    .where('forgeConnectionId', 'in', connectionIds)
    .where('removedAt', 'is', null)
    .orderBy('name')
    .execute()
  return rows.map(({ forgeConnectionId, ...row }) => ({
    ...row,
    connectionId: forgeConnectionId ?? 0,
  }))
}

/** The address of every project of an organization, to mark repositories that have one. */
export const listRepositoryUrls = (
  db: Db,
  organizationId: number,
): Promise<{ id: number; repoUrl: string }[]> =>
  db
    .selectFrom('projects')
    .select(['id', 'repoUrl'])
    .where('organizationId', '=', organizationId)
    .where('removedAt', 'is', null)
    .execute()

export const findSetup = (db: Db, projectId: number): Promise<ForgeSetup | undefined> =>
  db.selectFrom('forgeSetups').selectAll().where('projectId', '=', projectId).executeTakeFirst()

export async function putSetup(db: Db, row: ForgeSetup): Promise<void> {
  const { projectId: _, ...columns } = row
  await db
    .insertInto('forgeSetups')
    .values(row)
    .onConflict((conflict) => conflict.column('projectId').doUpdateSet(columns))
    .execute()
}

export async function updateSetup(
  db: Db,
  projectId: number,
  columns: Updateable<ForgeSetupsTable>,
): Promise<void> {
  await db.updateTable('forgeSetups').set(columns).where('projectId', '=', projectId).execute()
}

export async function setProjectConnection(
  db: Db,
  projectId: number,
  connectionId: number | null,
): Promise<void> {
  await db
    .updateTable('projects')
    .set({ forgeConnectionId: connectionId })
    .where('id', '=', projectId)
    .execute()
}

export async function deleteSetup(db: Db, projectId: number): Promise<void> {
  await db.deleteFrom('forgeSetups').where('projectId', '=', projectId).execute()
}

/** Disconnects a project that ends; what Berth made at the forge is left for the removals. */
export async function leaveForge(db: Db, projectId: number, now: number): Promise<void> {
  const found = await db
    .selectFrom('forgeSetups')
    .innerJoin('projects', 'projects.id', 'forgeSetups.projectId')
    .select(['forgeSetups.repository', 'forgeSetups.keyId', 'forgeSetups.webhookId'])
    .select('projects.forgeConnectionId')
    .where('projectId', '=', projectId)
    .executeTakeFirst()
  if (!found) return
  const { forgeConnectionId, ...made } = found
  if (forgeConnectionId !== null) {
    await insertRemoval(db, { ...made, connectionId: forgeConnectionId, nextAt: now })
  }
  await deleteSetup(db, projectId)
  await setProjectConnection(db, projectId, null)
}

/** Setups whose check or installation is due, the oldest first. */
export const listDueSetups = (db: Db, now: number, limit: number): Promise<ForgeSetup[]> =>
  db
    .selectFrom('forgeSetups')
    .selectAll()
    .where('nextCheckAt', '<=', now)
    .orderBy('nextCheckAt')
    .limit(limit)
    .execute()

/** Returns true if the caller claimed it. */
export async function claimSetup(
  db: Db,
  { projectId, nextCheckAt }: Pick<ForgeSetup, 'projectId' | 'nextCheckAt'>,
  next: number,
): Promise<boolean> {
  const result = await db
    .updateTable('forgeSetups')
    .set({ nextCheckAt: next })
    .where('projectId', '=', projectId)
    .where('nextCheckAt', '=', nextCheckAt)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** The forge must learn of a changed key, secret or repository; nothing happens if the project is not connected. */
export async function askForInstall(db: Db, projectId: number, now: number): Promise<void> {
  await updateSetup(db, projectId, { installDue: 1, nextCheckAt: now })
}

type MadeAtForge = Pick<ForgeRemoval, 'connectionId' | 'repository' | 'keyId' | 'webhookId'>

export async function insertRemoval(
  db: Db,
  { nextAt, ...made }: MadeAtForge & { nextAt: number },
): Promise<void> {
  if (made.keyId === null && made.webhookId === null) return
  await db
    .insertInto('forgeRemovals')
    .values({ ...made, tries: 0, nextAt })
    .execute()
}

export const listDueRemovals = (db: Db, now: number, limit: number): Promise<ForgeRemoval[]> =>
  db
    .selectFrom('forgeRemovals')
    .selectAll()
    .where('nextAt', '<=', now)
    .orderBy('nextAt')
    .limit(limit)
    .execute()

/** Returns true if the caller claimed it; it comes back at `next` unless it is deleted. */
export async function claimRemoval(
  db: Db,
  { id, nextAt }: Pick<ForgeRemoval, 'id' | 'nextAt'>,
  next: number,
): Promise<boolean> {
  const result = await db
    .updateTable('forgeRemovals')
    .set((e) => ({ nextAt: next, tries: e('tries', '+', 1) }))
    .where('id', '=', id)
    .where('nextAt', '=', nextAt)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function deleteRemoval(db: Db, id: number): Promise<void> {
  await db.deleteFrom('forgeRemovals').where('id', '=', id).execute()
}

/** Connected projects whose last check found something broken, by id. */
export const listBrokenSetups = (db: Db, afterId: number, limit: number) =>
  db
    .selectFrom('forgeSetups')
    .innerJoin('projects', 'projects.id', 'forgeSetups.projectId')
    .select(['forgeSetups.projectId', 'forgeSetups.checks', 'forgeSetups.repository'])
    .select(['projects.organizationId', 'projects.name as projectName'])
    .where('forgeSetups.broken', '=', 1)
    .where('projects.removedAt', 'is', null)
    .where('forgeSetups.projectId', '>', afterId)
    .orderBy('forgeSetups.projectId')
    .limit(limit)
    .execute()
