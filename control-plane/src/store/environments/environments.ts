// Environments. Facts of a deployment are written only by the newest fence.
import type { Insertable, Selectable, Updateable } from 'kysely'
import type { DeployedService } from '../../domain/environments/environment.ts'
import type { Observation } from '../../domain/environments/observation.ts'
import { runCompiled, updateCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { EnvironmentsTable } from '../schema.ts'

export interface Environment
  extends Omit<
    Selectable<EnvironmentsTable>,
    | 'protected'
    | 'sticky'
    | 'autoDeploy'
    | 'branchMissing'
    | 'fromFork'
    | 'services'
    | 'actions'
    | 'observed'
    | 'pinnedFrom'
    | 'actionsSyncedAt'
  > {
  protected: boolean
  sticky: boolean
  autoDeploy: boolean
  branchMissing: boolean
  fromFork: boolean
  services: DeployedService[]
  observed: Observation | null
  pinnedFrom: string[] | null
}

function toEnvironment(row: Selectable<EnvironmentsTable>): Environment {
  // its actions stay in it, hidden by the type: a copy without them costs more than the row itself
  return {
    ...row,
    protected: row.protected === 1,
    sticky: row.sticky === 1,
    autoDeploy: row.autoDeploy === 1,
    branchMissing: row.branchMissing === 1,
    fromFork: row.fromFork === 1,
    services: JSON.parse(row.services) as DeployedService[],
    observed: row.observed === null ? null : (JSON.parse(row.observed) as Observation),
    pinnedFrom: row.pinnedFrom === null ? null : (JSON.parse(row.pinnedFrom) as string[]),
  }
}

export async function insertEnvironment(
  db: Db,
  row: Insertable<EnvironmentsTable>,
): Promise<number> {
  const { id } = await db
    .insertInto('environments')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function findEnvironment(db: Db, id: number): Promise<Environment | undefined> {
  const [row] = await runCompiled(db, 'environment by id', [id], () =>
    db.selectFrom('environments').selectAll().where('id', '=', id).where('removedAt', 'is', null),
  )
  return row && toEnvironment(row)
}

export async function listEnvironmentsById(
  db: Db,
  ids: number[],
): Promise<Map<number, Environment>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('environments')
    .selectAll()
    .where('id', 'in', ids)
    .where('removedAt', 'is', null)
    .execute()
  return new Map(rows.map((row) => [row.id, toEnvironment(row)]))
}

/**
 * The environment, held until the transaction ends: whoever deploys, changes or removes it takes this first, so that
 * the lock holds at every gateway. A write that changes nothing, because both databases understand that.
 */
export async function lockEnvironment(db: Db, id: number): Promise<Environment | undefined> {
  const [row] = await runCompiled(db, 'lock environment', [id], () =>
    db
      .updateTable('environments')
      .set((e) => ({ updatedAt: e.ref('updatedAt') }))
      .where('id', '=', id)
      .where('removedAt', 'is', null)
      .returningAll(),
  )
  return row && toEnvironment(row)
}

interface EnvironmentFilter {
  type?: string | undefined
  branch?: string | undefined
  identifier?: string | undefined
}

const rank = (e: Environment): number => (e.sticky ? 0 : e.type === 'manual' ? 1 : 2)

/**
 * Sticky ones of either type first, then manual, then pull requests; the newest first inside each. Sorted here: a project
 * has few, and SQLite would copy whole rows to sort them.
 */
export async function listEnvironments(
  db: Db,
  projectId: number,
  filter: EnvironmentFilter = {},
): Promise<Environment[]> {
  const { type, branch, identifier } = filter
  const wanted = [type, branch, identifier]
  const shape = wanted.map((value) => Boolean(value)).join()
  const values = [projectId, ...wanted.filter(Boolean)]
  const rows = await runCompiled(db, `environments ${shape}`, values, () =>
    queryEnvironments(db, projectId, filter),
  )
  return rows
    .map(toEnvironment)
    .sort((a, b) => rank(a) - rank(b) || b.createdAt - a.createdAt || b.id - a.id)
}

function queryEnvironments(db: Db, projectId: number, filter: EnvironmentFilter) {
  let query = db
    .selectFrom('environments')
    .selectAll()
    .where('projectId', '=', projectId)
    .where('removedAt', 'is', null)
  if (filter.type) query = query.where('type', '=', filter.type as Environment['type'])
  if (filter.branch) query = query.where('branch', '=', filter.branch)
  if (filter.identifier) query = query.where('identifier', '=', filter.identifier)
  return query
}

/** Strictly increasing per environment, given in the transaction that creates the attempt. */
export async function takeFence(db: Db, id: number): Promise<number> {
  const { fence } = await db
    .updateTable('environments')
    .set((e) => ({ fence: e('fence', '+', 1) }))
    .where('id', '=', id)
    .returning('fence')
    .executeTakeFirstOrThrow()
  return fence
}

/** After a restore the agents may be ahead of us. */
export async function raiseFence(db: Db, id: number, atLeast: number): Promise<boolean> {
  const result = await db
    .updateTable('environments')
    .set({ fence: atLeast })
    .where('id', '=', id)
    .where('fence', '<', atLeast)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function updateEnvironment(
  db: Db,
  id: number,
  change: Updateable<EnvironmentsTable>,
): Promise<void> {
  await db.updateTable('environments').set(change).where('id', '=', id).execute()
}

/** The newest task of an environment, and the commit it was asked for. */
export async function rememberTask(
  db: Db,
  id: number,
  newest: { lastTaskId: number; targetSha?: string; pinnedFrom?: string | null },
): Promise<void> {
  await updateCompiled(db, 'newest task', newest, [id], () =>
    db.updateTable('environments').set(newest).where('id', '=', id),
  )
}

/** Facts of a deployment: only the newest fence writes them. */
export async function updateDeployed(
  db: Db,
  id: number,
  fence: number,
  change: Updateable<EnvironmentsTable>,
): Promise<void> {
  await db
    .updateTable('environments')
    .set(change)
    .where('id', '=', id)
    .where('fence', '=', fence)
    .execute()
}

export const listEnvironmentServers = (
  db: Db,
  ids: number[],
): Promise<{ id: number; serverId: number }[]> =>
  ids.length === 0
    ? Promise.resolve([])
    : db.selectFrom('environments').select(['id', 'serverId']).where('id', 'in', ids).execute()

/** Those an event wanted to deploy before their server ever joined. */
export async function listEnvironmentsAwaitingServer(
  db: Db,
  serverId: number,
): Promise<Environment[]> {
  const rows = await db
    .selectFrom('environments')
    .selectAll()
    .where('serverId', '=', serverId)
    .where('deployOnJoin', '=', 1)
    .where('removedAt', 'is', null)
    .orderBy('id')
    .execute()
  return rows.map(toEnvironment)
}
