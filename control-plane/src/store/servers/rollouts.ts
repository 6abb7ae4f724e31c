// Stores rollouts of new agents, and the update of each server.
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { AgentRolloutsTable, AgentUpdatesTable } from '../schema.ts'

export type Rollout = Selectable<AgentRolloutsTable>
export type AgentUpdate = Selectable<AgentUpdatesTable>

const INSERTED = 500 // a statement has a bounded number of values

export async function insertRollout(
  db: Db,
  row: Insertable<AgentRolloutsTable>,
  updates: Omit<Insertable<AgentUpdatesTable>, 'rolloutId'>[],
): Promise<number> {
  const { id } = await db
    .insertInto('agentRollouts')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  const rows = updates.map((update) => ({ ...update, rolloutId: id }))
  for (let at = 0; at < rows.length; at += INSERTED) {
    await db
      .insertInto('agentUpdates')
      .values(rows.slice(at, at + INSERTED))
      .execute()
  }
  return id
}

export const listRunningRollouts = (db: Db): Promise<Rollout[]> =>
  db
    .selectFrom('agentRollouts')
    .selectAll()
    .where('state', '=', sql.lit('running')) // literal text, as in the partial index
    .orderBy('id')
    .execute()

/** Newest first. Null: those of the whole installation too. */
export const listRollouts = (
  db: Db,
  organizationIds: readonly number[],
  withInstallation: boolean,
  limit: number,
): Promise<Rollout[]> =>
  db
    .selectFrom('agentRollouts')
    .selectAll()
    .where((e) =>
      e.or([
        ...(organizationIds.length > 0 ? [e('organizationId', 'in', organizationIds)] : []),
        ...(withInstallation ? [e('organizationId', 'is', null)] : []),
      ]),
    )
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()

export async function findRollout(db: Db, id: number): Promise<Rollout | undefined> {
  return db.selectFrom('agentRollouts').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Whether a release was ever rolled out everywhere, so that a start does not repeat it. */
export async function hasRolledOut(db: Db, counter: number): Promise<boolean> {
  const row = await db
    .selectFrom('agentRollouts')
    .select('id')
    .where('counter', '=', counter)
    .where('organizationId', 'is', null)
    .executeTakeFirst()
  return row !== undefined
}

export async function updateRollout(
  db: Db,
  id: number,
  change: Updateable<AgentRolloutsTable>,
): Promise<void> {
  await db.updateTable('agentRollouts').set(change).where('id', '=', id).execute()
}

export const listUpdates = (db: Db, rolloutIds: readonly number[]): Promise<AgentUpdate[]> =>
  rolloutIds.length === 0
    ? Promise.resolve([])
    : db
        .selectFrom('agentUpdates')
        .selectAll()
        .where('rolloutId', 'in', rolloutIds)
        .orderBy('serverId')
        .execute()

export async function findUpdate(db: Db, id: string): Promise<AgentUpdate | undefined> {
  return db.selectFrom('agentUpdates').selectAll().where('id', '=', id).executeTakeFirst()
}

export type LatestUpdate = AgentUpdate & { version: string }

/** The newest update of each server. */
export async function listLatestUpdates(
  db: Db,
  serverIds: readonly number[],
): Promise<Map<number, LatestUpdate>> {
  if (serverIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('agentUpdates')
    .innerJoin('agentRollouts', 'agentRollouts.id', 'agentUpdates.rolloutId')
    .selectAll('agentUpdates')
    .select('agentRollouts.version')
    .where('agentUpdates.id', 'in', (e) =>
      e
        .selectFrom('servers')
        .select((one) =>
          one
            .selectFrom('agentUpdates as newest')
            .select('newest.id')
            .whereRef('newest.serverId', '=', 'servers.id')
            .orderBy('newest.rolloutId', 'desc')
            .limit(1)
            .as('id'),
        )
        .where('servers.id', 'in', serverIds),
    )
    .execute()
  return new Map(rows.map((row) => [row.serverId, row]))
}

/** The update that a server is offered now. */
export async function findOffer(
  db: Db,
  serverId: number,
): Promise<(AgentUpdate & { counter: number }) | undefined> {
  return db
    .selectFrom('agentUpdates')
    .innerJoin('agentRollouts', 'agentRollouts.id', 'agentUpdates.rolloutId')
    .selectAll('agentUpdates')
    .select('agentRollouts.counter')
    .where('agentUpdates.serverId', '=', serverId)
    .where('agentUpdates.state', '=', 'offered')
    .orderBy('agentUpdates.rolloutId', 'desc')
    .executeTakeFirst()
}

/** Ends open updates of these servers in other rollouts: the newest wins. */
export async function supersedeUpdates(
  db: Db,
  serverIds: readonly number[],
  reason: string,
  now: number,
): Promise<void> {
  await db
    .updateTable('agentUpdates')
    .set({ state: 'skipped', reason, finishedAt: now })
    .where('serverId', 'in', serverIds)
    .where('state', 'in', ['waiting', 'offered'])
    .execute()
}

/** False if it had ended already. */
export async function endUpdate(
  db: Db,
  id: string,
  change: Pick<AgentUpdate, 'state' | 'reason' | 'finishedAt'>,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('agentUpdates')
    .set(change)
    .where('id', '=', id)
    .where('state', 'in', ['waiting', 'offered'])
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export async function offerUpdate(db: Db, id: string, now: number): Promise<void> {
  await db
    .updateTable('agentUpdates')
    .set({ state: 'offered', offeredAt: now })
    .where('id', '=', id)
    .where('state', '=', 'waiting')
    .execute()
}

/** A removed server keeps no history here. */
export async function deleteServerUpdates(db: Db, serverId: number): Promise<void> {
  await db.deleteFrom('agentUpdates').where('serverId', '=', serverId).execute()
}
