// Stores pull requests: one row each, kept after the end, found by (project, number). The waiting list is the rows that
// wait for a slot, ordered by when they began to wait. Approvals are rows of their own and are never withdrawn.
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { PullRequestsTable } from '../schema.ts'

export interface PullRequest extends Omit<Selectable<PullRequestsTable>, 'draft' | 'fromFork'> {
  draft: boolean
  fromFork: boolean
}

const toPullRequest = (row: Selectable<PullRequestsTable>): PullRequest => ({
  ...row,
  draft: row.draft === 1,
  fromFork: row.fromFork === 1,
})

export async function findPullRequest(
  db: Db,
  projectId: number,
  number: number,
): Promise<PullRequest | undefined> {
  const row = await db
    .selectFrom('pullRequests')
    .selectAll()
    .where('projectId', '=', projectId)
    .where('number', '=', number)
    .executeTakeFirst()
  return row && toPullRequest(row)
}

export async function insertPullRequest(
  db: Db,
  row: Insertable<PullRequestsTable>,
): Promise<PullRequest> {
  const made = await db
    .insertInto('pullRequests')
    .values(row)
    .returningAll()
    .executeTakeFirstOrThrow()
  return toPullRequest(made)
}

export async function updatePullRequest(
  db: Db,
  id: number,
  change: Updateable<PullRequestsTable>,
): Promise<PullRequest> {
  const row = await db
    .updateTable('pullRequests')
    .set(change)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  return toPullRequest(row)
}

/** Deletes ended pull requests without an environment. */
export async function deleteEndedPullRequests(db: Db, projectId: number): Promise<void> {
  await db
    .deleteFrom('pullRequests')
    .where('projectId', '=', projectId)
    .where('state', 'in', ['merged', 'closed'])
    .where('environmentId', 'is', null)
    .execute()
}

/** Lists open ones, highest number first, up to the limit. */
export async function listOpenPullRequests(
  db: Db,
  projectId: number,
  limit: number,
): Promise<PullRequest[]> {
  const rows = await db
    .selectFrom('pullRequests')
    .selectAll()
    .where('projectId', '=', projectId)
    .where(sql<boolean>`state in ('open', 'presumed_closed')`) // literal text, as in the partial index
    .orderBy('number', 'desc')
    .limit(limit)
    .execute()
  return rows.map(toPullRequest)
}

/** Lists open ones that wait for anything but an approval, the longest-waiting first. */
export async function listWaitingPullRequests(
  db: Db,
  projectId: number,
  limit: number,
): Promise<PullRequest[]> {
  const rows = await db
    .selectFrom('pullRequests')
    .selectAll()
    .where('projectId', '=', projectId)
    .where('waitingFor', 'in', ['environment_limit', 'server_not_ready', 'environment_removing'])
    .where('state', '=', 'open')
    .orderBy('waitingSince')
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(toPullRequest)
}

/** Returns the ids on the waiting list, first come, first served. The one with the id `opens` counts as open. */
export async function listWaiting(
  db: Db,
  projectId: number,
  limit: number,
  opens = 0,
): Promise<number[]> {
  const rows = await db
    .selectFrom('pullRequests')
    .select('id')
    .where('projectId', '=', projectId)
    .where('waitingFor', '=', 'environment_limit')
    .where((eb) => eb.or([eb('state', '=', 'open'), eb('id', '=', opens)]))
    .orderBy('waitingSince')
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map((row) => row.id)
}

/** Lists projects of this server with pull requests that wait for a server. */
export async function listProjectsAwaiting(db: Db, serverId: number): Promise<number[]> {
  const rows = await db
    .selectFrom('pullRequests')
    .innerJoin('projects', 'projects.id', 'pullRequests.projectId')
    .innerJoin('projectServers', 'projectServers.projectId', 'projects.id')
    .select('projects.id')
    .distinct()
    .where('projectServers.serverId', '=', serverId)
    .where('projects.removedAt', 'is', null)
    .where('pullRequests.waitingFor', '=', 'server_not_ready')
    .execute()
  return rows.map((row) => row.id)
}

export async function insertApproval(
  db: Db,
  approval: { projectId: number; number: number; sha: string; userId: number; at: number },
): Promise<void> {
  await db
    .insertInto('approvals')
    .values(approval)
    .onConflict((conflict) => conflict.columns(['projectId', 'number', 'sha']).doNothing())
    .execute()
}

export async function isApproved(
  db: Db,
  projectId: number,
  number: number,
  sha: string | null,
): Promise<boolean> {
  if (sha === null || sha === '') return false
  const row = await db
    .selectFrom('approvals')
    .select('sha')
    .where('projectId', '=', projectId)
    .where('number', '=', number)
    .where('sha', '=', sha)
    .executeTakeFirst()
  return row !== undefined
}

export interface Approval {
  number: number
  sha: string
  userId: number
  at: number
}

/** Returns the newest approval of each pull request. */
export async function listApprovals(
  db: Db,
  projectId: number,
  numbers: number[],
): Promise<Map<number, Approval>> {
  if (numbers.length === 0) return new Map()
  const rows = await db
    .selectFrom('approvals')
    .select(['number', 'sha', 'userId', 'at'])
    .where('projectId', '=', projectId)
    .where('number', 'in', numbers)
    .orderBy('at')
    .execute()
  return new Map(rows.map((row) => [row.number, row]))
}
