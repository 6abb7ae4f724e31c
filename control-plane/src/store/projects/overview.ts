// Reads across the projects of organizations, for the first page of the dashboard. Every list is short.
import type { Db } from '../engine/db.ts'

/** Open pull requests of forks whose commit waits for an approval, the longest-waiting first. */
export const listAwaitingApproval = (db: Db, organizationIds: number[], limit: number) =>
  db
    .selectFrom('pullRequests')
    .innerJoin('projects', 'projects.id', 'pullRequests.projectId')
    .select([
      'pullRequests.projectId',
      'pullRequests.number',
      'pullRequests.title',
      'pullRequests.author',
      'pullRequests.url',
      'pullRequests.headSha',
      'pullRequests.waitingSince',
      'projects.name as projectName',
    ])
    .where('projects.organizationId', 'in', organizationIds)
    .where('projects.removedAt', 'is', null)
    .where('pullRequests.state', '=', 'open')
    .where('pullRequests.waitingFor', '=', 'approval')
    .orderBy('pullRequests.waitingSince')
    .orderBy('pullRequests.id')
    .limit(limit)
    .execute()

/** Connected projects whose last check found something broken, by name. */
export const listBrokenForges = (db: Db, organizationIds: number[], limit: number) =>
  db
    .selectFrom('forgeSetups')
    .innerJoin('projects', 'projects.id', 'forgeSetups.projectId')
    .select(['projects.id as projectId', 'projects.name as projectName', 'forgeSetups.checkedAt'])
    .where('projects.organizationId', 'in', organizationIds)
    .where('projects.removedAt', 'is', null)
    .where('forgeSetups.broken', '=', 1)
    .orderBy('projects.name')
    .limit(limit)
    .execute()

export const listEnvironmentNames = (db: Db, ids: number[]) =>
  db.selectFrom('environments').select(['id', 'identifier']).where('id', 'in', ids).execute()

/** Projects in the order of their newest change of any kind. */
export const listLiveliestProjects = (db: Db, organizationIds: number[], limit: number) =>
  db
    .selectFrom('projects')
    .select(['id', 'name'])
    .where('organizationId', 'in', organizationIds)
    .where('removedAt', 'is', null)
    .orderBy('updatedAt', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
