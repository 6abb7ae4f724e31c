// Stores when scheduled actions are due, and the history of their runs.
import type { TaskStatus } from '@berth/shared'
import type { Insertable, Selectable } from 'kysely'
import type { UnstartedRuns } from '../../domain/deployments/schedule.ts'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { ScheduleRunsTable, SchedulesTable } from '../schema.ts'

export type StoredSchedule = Selectable<SchedulesTable>

export interface ScheduledRun extends Selectable<ScheduleRunsTable> {
  /** Of the started task. */
  taskStatus: TaskStatus | null
}

/** The name under which an environment's own backups have their schedule and history; no action can have it. */
export const BACKUP_SCHEDULE = '@backup'

export const listSchedules = (db: Db, environmentId: number): Promise<StoredSchedule[]> =>
  db.selectFrom('schedules').selectAll().where('environmentId', '=', environmentId).execute()

/** Lists what is due, longest ago first; a round every second reads it. */
export const listDueSchedules = (db: Db, now: number, limit: number): Promise<StoredSchedule[]> =>
  runCompiled(db, 'due schedules', [now, limit], () =>
    db
      .selectFrom('schedules')
      .selectAll()
      .where('nextRunAt', '<=', now)
      .orderBy('nextRunAt')
      .limit(limit),
  )

/** Replaces the schedules of the actions of an environment. */
export async function saveSchedules(
  db: Db,
  environmentId: number,
  rows: Insertable<SchedulesTable>[],
): Promise<void> {
  await db
    .deleteFrom('schedules')
    .where('environmentId', '=', environmentId)
    .where('action', '!=', BACKUP_SCHEDULE)
    .execute()
  if (rows.length > 0) await db.insertInto('schedules').values(rows).execute()
}

export async function saveSchedule(db: Db, row: Insertable<SchedulesTable>): Promise<void> {
  await deleteSchedule(db, row.environmentId, row.action)
  await db.insertInto('schedules').values(row).execute()
}

export async function deleteSchedule(db: Db, environmentId: number, action: string): Promise<void> {
  await db
    .deleteFrom('schedules')
    .where('environmentId', '=', environmentId)
    .where('action', '=', action)
    .execute()
}

/** False if another process has decided this run already. */
export async function takeRun(
  db: Db,
  due: Pick<StoredSchedule, 'environmentId' | 'action' | 'nextRunAt'>,
  nextRunAt: number | null,
): Promise<boolean> {
  const result = await db
    .updateTable('schedules')
    .set({ nextRunAt })
    .where('environmentId', '=', due.environmentId)
    .where('action', '=', due.action)
    .where('nextRunAt', '=', due.nextRunAt)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

interface ActionKey {
  environmentId: number
  action: string
}

export async function insertStartedRun(
  db: Db,
  { environmentId, action }: ActionKey,
  dueAt: number,
  taskId: number,
): Promise<void> {
  const row = { environmentId, action, outcome: 'started' as const, reason: null, taskId }
  await db
    .insertInto('scheduleRuns')
    .values({ ...row, dueAt, lastDueAt: dueAt, runs: 1 })
    .execute()
}

/** Extends the newest row if it says the same, so that a long pause is one line. */
export async function recordUnstarted(db: Db, of: ActionKey, what: UnstartedRuns): Promise<void> {
  const [newest] = await listRuns(db, of, 1)
  if (newest?.outcome === what.outcome && newest.reason === what.reason) {
    await db
      .updateTable('scheduleRuns')
      .set({ lastDueAt: what.lastDueAt, runs: newest.runs + what.runs })
      .where('id', '=', newest.id)
      .execute()
    return
  }
  const { environmentId, action } = of
  await db
    .insertInto('scheduleRuns')
    .values({ environmentId, action, taskId: null, ...what })
    .execute()
}

function selectRuns(db: Db) {
  return db
    .selectFrom('scheduleRuns')
    .leftJoin('tasks', 'tasks.id', 'scheduleRuns.taskId')
    .selectAll('scheduleRuns')
    .select('tasks.status as taskStatus')
}

/** Newest first. */
export const listRuns = (db: Db, of: ActionKey, limit: number): Promise<ScheduledRun[]> =>
  selectRuns(db)
    .where('scheduleRuns.environmentId', '=', of.environmentId)
    .where('scheduleRuns.action', '=', of.action)
    .orderBy('scheduleRuns.id', 'desc')
    .limit(limit)
    .execute()

/** The newest run of each action. */
export async function listLastRuns(
  db: Db,
  environmentId: number,
): Promise<Map<string, ScheduledRun>> {
  const rows = await selectRuns(db)
    .where('scheduleRuns.id', 'in', (e) =>
      e
        .selectFrom('scheduleRuns')
        .select((one) => one.fn.max('id').as('id'))
        .where('environmentId', '=', environmentId)
        .groupBy('action'),
    )
    .execute()
  return new Map(rows.map((row) => [row.action, row]))
}

/** Keeps the newest rows of one action. */
export async function trimRuns(db: Db, of: ActionKey, kept: number): Promise<void> {
  const oldest = await db
    .selectFrom('scheduleRuns')
    .select('id')
    .where('environmentId', '=', of.environmentId)
    .where('action', '=', of.action)
    .orderBy('id', 'desc')
    .offset(kept)
    .limit(1)
    .executeTakeFirst()
  if (!oldest) return
  await db
    .deleteFrom('scheduleRuns')
    .where('environmentId', '=', of.environmentId)
    .where('action', '=', of.action)
    .where('id', '<=', oldest.id)
    .execute()
}

export async function deleteOldRuns(db: Db, before: number): Promise<void> {
  await db.deleteFrom('scheduleRuns').where('lastDueAt', '<', before).execute()
}
