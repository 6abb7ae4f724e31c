// Stores episodes of alerts, and reads the facts that begin and end them.
import type { TaskStatus } from '@berth/shared'
import { type Selectable, sql } from 'kysely'
import type { Observation } from '../../domain/environments/observation.ts'
import { BACKUP_SCHEDULE } from '../deployments/schedules.ts'
import type { Db } from '../engine/db.ts'
import type { AlertsTable } from '../schema.ts'
import { type AgentCertificate, newestCertificates } from '../servers/agents.ts'
import type { HostFacts } from '../servers/servers.ts'

export type Alert = Selectable<AlertsTable>

/** Returns false if the alert is already open. */
export async function insertAlert(
  db: Db,
  row: Pick<Alert, 'organizationId' | 'kind' | 'subjectId' | 'begunAt'>,
): Promise<boolean> {
  const made = await db
    .insertInto('alerts')
    .values({ ...row, endedAt: null })
    .onConflict((o) => o.doNothing())
    .returning('id')
    .executeTakeFirst()
  return made !== undefined
}

/** Returns false if another process ended it. */
export async function updateAlertEnded(db: Db, id: number, now: number): Promise<boolean> {
  const result = await db
    .updateTable('alerts')
    .set({ endedAt: now })
    .where('id', '=', id)
    .where('endedAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export const listOpenAlerts = (db: Db): Promise<Alert[]> =>
  db.selectFrom('alerts').selectAll().where('endedAt', 'is', null).execute()

export async function deleteOldAlerts(db: Db, before: number): Promise<void> {
  await db.deleteFrom('alerts').where('endedAt', '<', before).execute()
}

export interface WatchedAgent {
  agentId: string
  serverId: number
  serverName: string
  organizationId: number
  paused: boolean
  host: HostFacts | null
  connected: boolean
  awaySince: number
  diskFreeBytes: number | null
}

/** Lists servers that have an agent, by id. */
export async function listWatchedAgents(
  db: Db,
  afterServerId: number,
  limit: number,
): Promise<WatchedAgent[]> {
  const rows = await db
    .selectFrom('agents')
    .innerJoin('servers', 'servers.id', 'agents.serverId')
    .select(['agents.id as agentId', 'servers.id as serverId', 'servers.name as serverName'])
    .select(['servers.organizationId', 'servers.paused', 'servers.host'])
    .select(['agents.sessionId', 'agents.disconnectedAt', 'agents.joinedAt'])
    .select('agents.diskFreeBytes')
    .where('agents.revokedAt', 'is', null)
    .where('servers.id', '>', afterServerId)
    .orderBy('servers.id')
    .limit(limit)
    .execute()
  return rows.map(({ sessionId, disconnectedAt, joinedAt, ...row }) => ({
    ...row,
    paused: row.paused === 1,
    host: row.host === null ? null : (JSON.parse(row.host) as HostFacts),
    connected: sessionId !== null,
    awaySince: disconnectedAt ?? joinedAt,
  }))
}

/** Finds each agent's certificate of the highest generation. */
export async function listNewestCertificates(
  db: Db,
  agentIds: string[],
): Promise<Map<string, AgentCertificate>> {
  if (agentIds.length === 0) return new Map()
  const rows = await newestCertificates(db)
    .selectAll('agentCertificates')
    .where('agents.id', 'in', agentIds)
    .execute()
  return new Map(rows.map((row) => [row.agentId, row]))
}

interface WatchedEnvironment {
  id: number
  identifier: string
  projectId: number
  projectName: string
  organizationId: number
  deployedFence: number
  commitSha: string | null
  degradedReason: string | null
  observed: Observation | null
}

/** Lists deployed environments that are protected, that a user watches or that a rule names, by id. */
export async function listWatchedEnvironments(
  db: Db,
  afterId: number,
  limit: number,
): Promise<WatchedEnvironment[]> {
  const rows = await db
    .selectFrom('environments')
    .innerJoin('projects', 'projects.id', 'environments.projectId')
    .select(['environments.id', 'environments.identifier', 'environments.projectId'])
    .select(['environments.deployedFence', 'environments.commitSha', 'environments.observed'])
    .select(['environments.degradedReason', 'projects.organizationId'])
    .select('projects.name as projectName')
    .where((e) =>
      e.or([
        e('environments.protected', '=', 1),
        e.exists(
          e
            .selectFrom('environmentWatchers')
            .select('environmentWatchers.userId')
            .whereRef('environmentWatchers.environmentId', '=', 'environments.id'),
        ),
        e.exists(
          e
            .selectFrom('noticeRules')
            .select('noticeRules.id')
            .whereRef('noticeRules.organizationId', '=', 'environments.organizationId')
            .where('noticeRules.happenings', 'like', '%"environment.%'),
        ),
      ]),
    )
    .where('environments.removedAt', 'is', null)
    .where('environments.removingAt', 'is', null)
    .where('environments.deployedFence', '>', 0)
    .where('environments.id', '>', afterId)
    .orderBy('environments.id')
    .limit(limit)
    .execute()
  return rows.map(({ observed, ...row }) => ({
    ...row,
    observed: observed === null ? null : (JSON.parse(observed) as Observation),
  }))
}

interface BackedUpEnvironment {
  id: number
  identifier: string
  projectName: string
  organizationId: number
  /** Of the newest scheduled backup that succeeded or failed; undefined: there is none. */
  newest: { status: TaskStatus; failure: string | null } | undefined
}

/** Lists environments that are backed up on a schedule, by id. */
export async function listBackedUpEnvironments(
  db: Db,
  afterId: number,
  limit: number,
): Promise<BackedUpEnvironment[]> {
  const rows = await db
    .selectFrom('schedules')
    .innerJoin('environments', 'environments.id', 'schedules.environmentId')
    .innerJoin('projects', 'projects.id', 'environments.projectId')
    .select(['environments.id', 'environments.identifier', 'projects.organizationId'])
    .select('projects.name as projectName')
    .where('schedules.action', '=', BACKUP_SCHEDULE)
    .where('environments.removedAt', 'is', null)
    .where('environments.removingAt', 'is', null)
    .where('environments.id', '>', afterId)
    .orderBy('environments.id')
    .limit(limit)
    .execute()
  if (rows.length === 0) return []
  const tried = await db
    .selectFrom('scheduleRuns')
    .innerJoin('tasks', 'tasks.id', 'scheduleRuns.taskId')
    .select(['scheduleRuns.environmentId', 'tasks.status', 'tasks.failure'])
    .where('scheduleRuns.id', 'in', (e) =>
      e
        .selectFrom('scheduleRuns as runs')
        .innerJoin('tasks as ended', 'ended.id', 'runs.taskId')
        .select((one) => one.fn.max('runs.id').as('id'))
        .where('runs.action', '=', BACKUP_SCHEDULE)
        .where(
          'runs.environmentId',
          'in',
          rows.map(({ id }) => id),
        )
        .where('ended.status', 'in', ['succeeded', 'failed'])
        .groupBy('runs.environmentId'),
    )
    .execute()
  const newest = new Map(tried.map(({ environmentId, ...task }) => [environmentId, task]))
  return rows.map((row) => ({ ...row, newest: newest.get(row.id) }))
}

interface FailedDelivery {
  projectId: number
  projectName: string
  organizationId: number
  event: string
  reason: string
}

/** Finds the newest failed delivery of each project that had one recently. */
export async function listFailedDeliveries(
  db: Db,
  since: number,
  limit: number,
): Promise<FailedDelivery[]> {
  const rows = await db
    .selectFrom('deliveries')
    .innerJoin('projects', 'projects.id', 'deliveries.projectId')
    .select(['deliveries.projectId', 'deliveries.organizationId', 'deliveries.event'])
    .select(['deliveries.reason', 'deliveries.error', 'projects.name as projectName'])
    .where('deliveries.outcome', '=', sql.lit('error')) // literal text, as in the partial index
    .where('deliveries.decidedAt', '>=', since)
    .where('projects.removedAt', 'is', null)
    .orderBy('deliveries.id', 'desc')
    .limit(limit)
    .execute()
  const newest = new Map<number, FailedDelivery>()
  for (const { reason, error, ...row } of rows.toReversed()) {
    newest.set(row.projectId, { ...row, reason: reason ?? error ?? '' })
  }
  return [...newest.values()]
}

export const findNewestDecided = (
  db: Db,
  projectId: number,
): Promise<{ outcome: string } | undefined> =>
  db
    .selectFrom('deliveries')
    .select('outcome')
    .where('projectId', '=', projectId)
    .where('decidedAt', 'is not', null)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()

/**
 * Lists who receives an alert: the owners and admins of the organization, and the watchers of the environment that it is
 * about. What runs in an environment (`ofServices`) matters to owners and admins only if it is protected.
 */
export const listAlerted = (
  db: Db,
  organizationId: number,
  environmentId: number | null,
  { ofServices }: { ofServices: boolean },
): Promise<{ userId: number; email: string }[]> =>
  db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.userId')
    .select(['members.userId', 'users.email'])
    .where('members.organizationId', '=', organizationId)
    .where('users.disabledAt', 'is', null)
    .where((e) => {
      const mayManage = e('members.role', 'in', ['owner', 'admin'])
      if (environmentId === null) return mayManage
      const watches = e
        .selectFrom('environmentWatchers')
        .select('environmentWatchers.userId')
        .where('environmentWatchers.environmentId', '=', environmentId)
        .whereRef('environmentWatchers.userId', '=', 'members.userId')
      const isProtected = e
        .selectFrom('environments')
        .select('environments.id')
        .where('environments.id', '=', environmentId)
        .where('environments.protected', '=', 1)
      const managers = ofServices ? e.and([mayManage, e.exists(isProtected)]) : mayManage
      return e.or([e.exists(watches), managers])
    })
    .orderBy('members.userId')
    .execute()
