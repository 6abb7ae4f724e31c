// Stores environments. Only the newest fence writes facts of a deployment.
import type { Insertable, Selectable, Updateable } from 'kysely'
import type { DeployedService } from '../../domain/environments/environment.ts'
import type { Observation, StopRecord } from '../../domain/environments/observation.ts'
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
    | 'stopped'
  > {
  protected: boolean
  sticky: boolean
  autoDeploy: boolean
  branchMissing: boolean
  fromFork: boolean
  services: DeployedService[]
  observed: Observation | null
  pinnedFrom: string[] | null
  stopped: StopRecord | null
}

function toEnvironment(row: Selectable<EnvironmentsTable>): Environment {
  // the type hides the row's actions; a copy without them would cost more than the row itself
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
    stopped: row.stopped === null ? null : (JSON.parse(row.stopped) as StopRecord),
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

/** Also a removed one, whose row stays for what refers to it. */
export async function findFormerEnvironment(db: Db, id: number): Promise<Environment | undefined> {
  const query = db.selectFrom('environments').selectAll().where('id', '=', id)
  const row = await query.executeTakeFirst()
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
 * Locks the environment until the transaction ends. Deploying, changing and removing it lock it first, in every
 * gateway. The lock is an update that changes nothing, which works on both databases.
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
 * Sticky ones of either type come first, then manual ones, then pull requests, each newest first. Sorted here, because
 * a project has few and SQLite would copy whole rows to sort them.
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

/** Strictly increasing per environment; assigned in the transaction that creates the attempt. */
export async function takeFence(db: Db, id: number): Promise<number> {
  const { fence } = await db
    .updateTable('environments')
    .set((e) => ({ fence: e('fence', '+', 1) }))
    .where('id', '=', id)
    .returning('fence')
    .executeTakeFirstOrThrow()
  return fence
}

/** After a restore, agents may know higher fences than the database. */
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

/** Records the newest task of an environment and the commit it was requested for. */
export async function rememberTask(
  db: Db,
  id: number,
  newest: { lastTaskId: number; targetSha?: string; pinnedFrom?: string | null },
): Promise<void> {
  await updateCompiled(db, 'newest task', newest, [id], () =>
    db.updateTable('environments').set(newest).where('id', '=', id),
  )
}

/** Records facts of a deployment; only the newest fence writes them. */
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

/** Lists environments that an event wanted to deploy before their server first joined. */
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
