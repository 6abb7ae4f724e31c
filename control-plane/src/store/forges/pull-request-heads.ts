// Reads heads of pull requests for commit statuses and reconcile rounds.
import type { Db } from '../engine/db.ts'
import { countEnvironments } from '../projects/projects.ts'
import type { PullRequest } from './pull-requests.ts'

/**
 * Lists heads that wait for approval or for a slot, in waiting order. Undefined if the project has no token to report
 * with.
 */
export async function listWaitingHeads(db: Db, projectId: number, limit: number) {
  const project = await db
    .selectFrom('projects')
    .select(['id', 'organizationId', 'name', 'environmentLimit'])
    .select(['hostTokenSealed', 'forgeConnectionId'])
    .where('id', '=', projectId)
    .where('removedAt', 'is', null)
    .executeTakeFirst()
  const hasToken = project?.hostTokenSealed !== null || project.forgeConnectionId !== null
  if (!project || !hasToken) return undefined
  const heads = await db
    .selectFrom('pullRequests')
    .select(['number', 'headSha', 'waitingFor'])
    .where('projectId', '=', projectId)
    .where('state', '=', 'open')
    .where('waitingFor', 'in', ['approval', 'environment_limit'])
    .orderBy('waitingSince')
    .orderBy('number')
    .limit(limit)
    .execute()
  const used = (await countEnvironments(db, [projectId])).get(projectId) ?? 0
  return { project, used, heads }
}

/** Finds pull requests by number, in any state. */
export async function listPullRequestsByNumber(
  db: Db,
  projectId: number,
  numbers: number[],
): Promise<PullRequest[]> {
  if (numbers.length === 0) return []
  const rows = await db
    .selectFrom('pullRequests')
    .selectAll()
    .where('projectId', '=', projectId)
    .where('number', 'in', numbers)
    .execute()
  return rows.map((row) => ({ ...row, draft: row.draft === 1, fromFork: row.fromFork === 1 }))
}
