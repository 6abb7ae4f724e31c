// Links an environment to its pull request, and records whether its head may be deployed.
import type { Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { PullRequestsTable } from '../schema.ts'

export interface EnvironmentPullRequest extends Selectable<PullRequestsTable> {
  approved: boolean
}

export async function listEnvironmentPullRequests(
  db: Db,
  environmentIds: number[],
): Promise<Map<number, EnvironmentPullRequest>> {
  const found = new Map<number, EnvironmentPullRequest>()
  if (environmentIds.length === 0) return found
  const rows = await db
    .selectFrom('pullRequests')
    .leftJoin('approvals', (join) =>
      join
        .onRef('approvals.projectId', '=', 'pullRequests.projectId')
        .onRef('approvals.number', '=', 'pullRequests.number')
        .onRef('approvals.sha', '=', 'pullRequests.headSha'),
    )
    .selectAll('pullRequests')
    .select('approvals.at as approvedAt')
    .where('pullRequests.environmentId', 'in', environmentIds)
    .execute()
  for (const { approvedAt, ...row } of rows) {
    if (row.environmentId !== null) {
      found.set(row.environmentId, { ...row, approved: approvedAt !== null })
    }
  }
  return found
}
