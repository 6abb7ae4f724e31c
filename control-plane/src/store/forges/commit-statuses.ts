// Stores statuses and comments to be sent to a forge. At most one row per subject (a commit, a pull request) is
// pending: a newer one replaces the older one that was not sent yet. Sent rows are kept for a limited time.
import type { Insertable, Selectable, Updateable } from 'kysely'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { HostReportsTable } from '../schema.ts'

export type DueReport = Selectable<HostReportsTable>
type ReportKind = 'status' | 'comment'

export async function replaceReport(
  db: Db,
  row: Omit<Insertable<HostReportsTable>, 'kind'> & { kind: ReportKind },
): Promise<void> {
  await db
    .deleteFrom('hostReports')
    .where('projectId', '=', row.projectId)
    .where('kind', '=', row.kind)
    .where('subject', '=', row.subject)
    .where('nextAt', 'is not', null)
    .execute()
  await db.insertInto('hostReports').values(row).execute()
}

/** Finds the newest report of a subject, sent or not. */
export const findNewestReport = (
  db: Db,
  projectId: number,
  kind: ReportKind,
  subject: string,
): Promise<DueReport | undefined> =>
  db
    .selectFrom('hostReports')
    .selectAll()
    .where('projectId', '=', projectId)
    .where('kind', '=', kind)
    .where('subject', '=', subject)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()

/** Finds the id that the forge gave the comment. */
export async function findExternalId(
  db: Db,
  projectId: number,
  kind: ReportKind,
  subject: string,
): Promise<string | null> {
  const row = await db
    .selectFrom('hostReports')
    .select('externalId')
    .where('projectId', '=', projectId)
    .where('kind', '=', kind)
    .where('subject', '=', subject)
    .where('externalId', 'is not', null)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.externalId ?? null
}

export const listDueReports = (db: Db, now: number, limit: number): Promise<DueReport[]> =>
  db
    .selectFrom('hostReports')
    .selectAll()
    .where('nextAt', '<=', now)
    .orderBy('nextAt')
    .orderBy('id')
    .limit(limit)
    .execute()

/** Returns true if the caller may send it. */
export async function claimReport(db: Db, report: DueReport, until: number): Promise<boolean> {
  const result = await db
    .updateTable('hostReports')
    .set({ nextAt: until })
    .where('id', '=', report.id)
    .where('nextAt', '=', report.nextAt)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function updateReport(
  db: Db,
  id: number,
  change: Updateable<HostReportsTable>,
): Promise<void> {
  await db.updateTable('hostReports').set(change).where('id', '=', id).execute()
}

/** Deletes pending reports beyond the newest `keep` of a project. */
export async function dropOldestReports(db: Db, projectId: number, keep: number): Promise<void> {
  const first = await db
    .selectFrom('hostReports')
    .select('id')
    .where('projectId', '=', projectId)
    .where('nextAt', 'is not', null)
    .orderBy('id', 'desc')
    .offset(keep)
    .limit(1)
    .executeTakeFirst()
  if (!first) return
  await db
    .deleteFrom('hostReports')
    .where('projectId', '=', projectId)
    .where('nextAt', 'is not', null)
    .where('id', '<=', first.id)
    .execute()
}

export async function deleteWaitingReports(db: Db, projectId: number): Promise<void> {
  await db
    .deleteFrom('hostReports')
    .where('projectId', '=', projectId)
    .where('nextAt', 'is not', null)
    .execute()
}

export async function deleteOldReports(db: Db, before: number): Promise<void> {
  await db
    .deleteFrom('hostReports')
    .where('createdAt', '<', before)
    .where('nextAt', 'is', null)
    .execute()
}

/** Reads everything that a report of a task contains; the environment may already be removed. */
export async function findTaskFacts(db: Db, taskId: number) {
  const [facts] = await runCompiled(db, 'facts of a task', [taskId], () =>
    queryTaskFacts(db, taskId),
  )
  return facts
}

const queryTaskFacts = (db: Db, taskId: number) =>
  db
    .selectFrom('tasks')
    .innerJoin('environments', 'environments.id', 'tasks.environmentId')
    .innerJoin('projects', 'projects.id', 'tasks.projectId')
    .innerJoin('servers', 'servers.id', 'tasks.serverId')
    .select([
      'tasks.id',
      'tasks.organizationId',
      'tasks.projectId',
      'tasks.environmentId',
      'tasks.type',
      'tasks.status',
      'tasks.commitSha',
      'tasks.failure',
      'tasks.cancelReason',
      'environments.identifier',
      'environments.pullRequestNumber',
      'environments.services',
      'environments.removedAt as environmentRemovedAt',
      'projects.name as projectName',
      'projects.hostTokenSealed',
      'projects.forgeConnectionId',
      'projects.commentOnPullRequests',
      'projects.removedAt as projectRemovedAt',
      'servers.name as serverName',
      'servers.hostname as serverHostname',
    ])
    .where('tasks.id', '=', taskId)
