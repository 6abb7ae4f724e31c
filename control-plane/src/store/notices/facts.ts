// Reads what a notification says about a task, an environment or a project.
import type { Db } from '../engine/db.ts'

export type TaskFacts = NonNullable<Awaited<ReturnType<typeof findTaskFacts>>>

export const findTaskFacts = (db: Db, taskId: number) =>
  db
    .selectFrom('tasks')
    .select([
      'id',
      'type',
      'status',
      'action',
      'branch',
      'commitSha',
      'commitMessage',
      'triggeredBy',
      'failure',
      'environmentId',
      'projectId',
      'organizationId',
      'serverId',
    ])
    .where('id', '=', taskId)
    .executeTakeFirst()

export type EnvironmentFacts = NonNullable<Awaited<ReturnType<typeof findEnvironmentFacts>>>

export const findEnvironmentFacts = (db: Db, environmentId: number) =>
  db
    .selectFrom('environments')
    .innerJoin('servers', 'servers.id', 'environments.serverId')
    .select([
      'environments.id',
      'environments.identifier',
      'environments.type',
      'environments.protected',
      'environments.services',
      'environments.projectId',
      'environments.pullRequestNumber',
      'servers.hostname as serverHostname',
    ])
    .where('environments.id', '=', environmentId)
    .executeTakeFirst()

export const findNames = async (db: Db, organizationId: number, projectId: number | null) => {
  const organization = await db
    .selectFrom('organizations')
    .select(['id', 'name'])
    .where('id', '=', organizationId)
    .executeTakeFirstOrThrow()
  const project =
    projectId === null
      ? undefined
      : await db
          .selectFrom('projects')
          .select(['id', 'name'])
          .where('id', '=', projectId)
          .executeTakeFirst()
  return { organization, project: project ?? null }
}
