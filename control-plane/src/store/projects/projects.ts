// Stores projects and the servers they may use.
import type { Insertable, Selectable, Updateable } from 'kysely'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { ProjectsTable } from '../schema.ts'

export type Project = Selectable<ProjectsTable>

export async function insertProject(
  db: Db,
  row: Insertable<ProjectsTable>,
  serverIds: number[],
): Promise<number> {
  const { id } = await db
    .insertInto('projects')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  await db
    .insertInto('projectServers')
    .values(serverIds.map((serverId) => ({ projectId: id, serverId })))
    .execute()
  return id
}

/** The key is encrypted for the row's id, which exists only after the insert. */
export async function updateDeployKey(
  db: Db,
  id: number,
  key: { deployKeyPublic: string; deployKeySealed: string },
): Promise<void> {
  await db.updateTable('projects').set(key).where('id', '=', id).execute()
}

/** Serializes changes to what a project contains. */
export async function touchProject(db: Db, id: number, now: number): Promise<void> {
  await db.updateTable('projects').set({ updatedAt: now }).where('id', '=', id).execute()
}

export async function updateProject(
  db: Db,
  id: number,
  change: Updateable<ProjectsTable>,
): Promise<void> {
  await db.updateTable('projects').set(change).where('id', '=', id).execute()
}

/** Locks the project until the transaction ends. */
export const lockProject = (db: Db, id: number): Promise<Project | undefined> =>
  db
    .updateTable('projects')
    .set((e) => ({ updatedAt: e.ref('updatedAt') }))
    .where('id', '=', id)
    .where('removedAt', 'is', null)
    .returningAll()
    .executeTakeFirst()

export async function findProject(db: Db, id: number): Promise<Project | undefined> {
  const [project] = await runCompiled(db, 'project by id', [id], () =>
    db.selectFrom('projects').selectAll().where('id', '=', id).where('removedAt', 'is', null),
  )
  return project
}

/** The columns that lists show; a row has fifty more. */
export type ProjectSummary = Pick<
  Project,
  'id' | 'organizationId' | 'name' | 'repoUrl' | 'domain' | 'environmentLimit'
>

export interface ProjectPage {
  name?: string | undefined
  after?: { name: string; id: number }
  limit: number
}

export async function listProjects(
  db: Db,
  organizationIds: number[],
  page: ProjectPage,
): Promise<ProjectSummary[]> {
  if (organizationIds.length === 0) return []
  const { name, after } = page
  const shape = [organizationIds.length, name === undefined, after === undefined].join()
  const values = [
    ...organizationIds,
    ...(name === undefined ? [] : [name]),
    ...(after === undefined ? [] : [after.name, after.name, after.id]),
    page.limit,
  ]
  return runCompiled(db, `projects ${shape}`, values, () =>
    queryProjects(db, organizationIds, page),
  )
}

function queryProjects(db: Db, organizationIds: number[], filter: ProjectPage) {
  let query = db
    .selectFrom('projects')
    .select(['id', 'organizationId', 'name', 'repoUrl', 'domain', 'environmentLimit'])
    .where('organizationId', 'in', organizationIds)
    .where('removedAt', 'is', null)
    .orderBy('name')
    .orderBy('id')
    .limit(filter.limit)
  if (filter.name !== undefined) query = query.where('name', '=', filter.name)
  const { after } = filter
  if (after) {
    query = query.where((e) =>
      e.or([
        e('name', '>', after.name),
        e.and([e('name', '=', after.name), e('id', '>', after.id)]),
      ]),
    )
  }
  return query
}

/** Lists the servers of projects, sorted by name. */
export async function listProjectServers(
  db: Db,
  projectIds: number[],
): Promise<Map<number, { id: number; name: string; hostname: string }[]>> {
  const byProject = new Map<number, { id: number; name: string; hostname: string }[]>()
  if (projectIds.length === 0) return byProject
  const rows = await runCompiled(db, `servers of ${projectIds.length} projects`, projectIds, () =>
    db
      .selectFrom('projectServers')
      .innerJoin('servers', 'servers.id', 'projectServers.serverId')
      .select(['projectServers.projectId', 'servers.id', 'servers.name', 'servers.hostname'])
      .where('projectServers.projectId', 'in', projectIds)
      .orderBy('servers.name'),
  )
  for (const { projectId, id, name, hostname } of rows) {
    const server = { id, name, hostname }
    const list = byProject.get(projectId)
    if (list) list.push(server)
    else byProject.set(projectId, [server])
  }
  return byProject
}

export async function replaceProjectServers(
  db: Db,
  id: number,
  serverIds: readonly number[],
): Promise<void> {
  await db.deleteFrom('projectServers').where('projectId', '=', id).execute()
  await db
    .insertInto('projectServers')
    .values(serverIds.map((serverId) => ({ projectId: id, serverId })))
    .execute()
}

export async function countProjects(db: Db, organizationId: number): Promise<number> {
  const row = await db
    .selectFrom('projects')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('organizationId', '=', organizationId)
    .where('removedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return row.count
}

export async function countEnvironments(
  db: Db,
  projectIds: number[],
): Promise<Map<number, number>> {
  if (projectIds.length === 0) return new Map()
  const rows = await runCompiled(
    db,
    `environments of ${projectIds.length} projects`,
    projectIds,
    () =>
      db
        .selectFrom('environments')
        .select((e) => ['projectId', e.fn.countAll<number>().as('count')])
        .where('projectId', 'in', projectIds)
        .where('removedAt', 'is', null)
        .groupBy('projectId'),
  )
  return new Map(rows.map((row) => [row.projectId, row.count]))
}
