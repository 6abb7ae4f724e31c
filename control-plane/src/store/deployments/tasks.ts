// Stores tasks; the table is the queue. Every change of status is one conditional update, so a final task never
// changes.

import { locksEnvironment, type TaskStatus } from '@berth/shared'
import type { Failure, Task as RestTask } from '@berth/shared/api'
import { AttemptState } from '@berth/shared/wire'
import type { Insertable, Selectable, Updateable } from 'kysely'
import { sourcesOf } from '../../domain/deployments/task.ts'
import { insertCompiled, runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { TasksTable } from '../schema.ts'
import { isOpen, isQueued } from './task-conditions.ts'

type Warning = RestTask['warnings'][number]
export interface Task
  extends Omit<
    Selectable<TasksTable>,
    'failure' | 'warnings' | 'reset' | 'noCache' | 'skipSteps' | 'formerCopy' | 'reuseRelease'
  > {
  reset: boolean
  noCache: boolean
  reuseRelease: boolean
  skipSteps: boolean
  formerCopy: boolean
  failure: Failure | null
  warnings: Warning[]
}

/** The columns that users see; the others are for performing the task. */
export const SHOWN = [
  'id',
  'organizationId',
  'projectId',
  'environmentId',
  'serverId',
  'type',
  'reset',
  'status',
  'triggerBy',
  'userId',
  'triggeredBy',
  'deliveryId',
  'message',
  'branch',
  'recipe',
  'commitSha',
  'commitMessage',
  'commitAuthor',
  'cancelRequestedAt',
  'cancelReason',
  'canceledBy',
  'supersededBy',
  'failure',
  'warnings',
  'lateOutcome',
  'createdAt',
  'startedAt',
  'liveAt',
  'finishedAt',
  'action',
  'service',
] as const satisfies readonly (keyof TasksTable)[]
export type ShownTask = Pick<Task, (typeof SHOWN)[number]>

const NO_WARNINGS: Warning[] = []

export const readShownTask = (
  row: Pick<Selectable<TasksTable>, (typeof SHOWN)[number]>,
): ShownTask => ({
  ...row,
  reset: row.reset === 1,
  failure: row.failure === null ? null : (JSON.parse(row.failure) as Failure),
  warnings: row.warnings === '[]' ? NO_WARNINGS : (JSON.parse(row.warnings) as Warning[]),
})

export const readTask = (row: Selectable<TasksTable>): Task => ({
  ...row,
  reset: row.reset === 1,
  noCache: row.noCache === 1,
  reuseRelease: row.reuseRelease === 1,
  formerCopy: row.formerCopy === 1,
  skipSteps: row.skipSteps === 1,
  failure: row.failure === null ? null : (JSON.parse(row.failure) as Failure),
  warnings: JSON.parse(row.warnings) as Warning[],
})

export async function insertTask(db: Db, row: Insertable<TasksTable>): Promise<number> {
  const [made] = await insertCompiled(db, 'task', row, () =>
    db.insertInto('tasks').values(row).returning('id'),
  )
  if (!made) throw new Error('unreachable: an inserted task has an id')
  return made.id
}

export async function findTask(db: Db, id: number): Promise<Task | undefined> {
  const [row] = await runCompiled(db, 'task by id', [id], () =>
    db.selectFrom('tasks').selectAll().where('id', '=', id),
  )
  return row && readTask(row)
}

/** The removal of a left-behind copy does not lock the environment, nor does what runs without a deployment. */
const locks = (row: Pick<Selectable<TasksTable>, 'type' | 'formerCopy'>): boolean =>
  locksEnvironment(row.type) && row.formerCopy === 0

/** Finds the deployment or removal that locks an environment; a running one comes before a queued one. */
export async function findOpenTask(db: Db, environmentId: number): Promise<Task | undefined> {
  const rows = await runCompiled(db, 'open tasks of an environment', [environmentId], () =>
    db
      .selectFrom('tasks')
      .selectAll()
      .where(isOpen)
      .where('environmentId', '=', environmentId)
      .orderBy('id'),
  )
  const row = rows.find(locks)
  return row && readTask(row)
}

/** Lists every deployment, removal and action of an environment that has not ended. */
export async function listUnfinishedTasks(db: Db, environmentId: number): Promise<Task[]> {
  const rows = await db
    .selectFrom('tasks')
    .selectAll()
    .where(isOpen)
    .where('environmentId', '=', environmentId)
    .orderBy('id')
    .execute()
  return rows.map(readTask)
}

/** Lists the tasks that a server still has to perform. */
export const listServerTasks = (db: Db, serverId: number): Promise<{ id: number }[]> =>
  db.selectFrom('tasks').select('id').where(isOpen).where('serverId', '=', serverId).execute()

/** Returns whether a server ever accepted an attempt for an environment; otherwise it holds nothing of it. */
export async function wasSentTo(db: Db, environmentId: number, serverId: number): Promise<boolean> {
  const row = await db
    .selectFrom('attempts')
    .innerJoin('tasks', 'tasks.id', 'attempts.taskId')
    .select('attempts.id')
    .where('attempts.environmentId', '=', environmentId)
    .where('tasks.serverId', '=', serverId)
    .where('attempts.state', '!=', AttemptState.REFUSED)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Returns false if the task's current status does not allow this transition. */
export async function moveTask(
  db: Db,
  id: number,
  to: TaskStatus,
  change: Updateable<TasksTable> = {},
): Promise<boolean> {
  const result = await db
    .updateTable('tasks')
    .set({ ...change, status: to })
    .where('id', '=', id)
    .where('status', 'in', sourcesOf(to))
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/**
 * Locks the task until the transaction ends. Sending, canceling and ending it lock it first, so that none of them
 * decides on stale data. The lock is an update that changes nothing, which works on both databases.
 */
export async function lockTask(db: Db, id: number): Promise<Task | undefined> {
  const row = await db
    .updateTable('tasks')
    .set((e) => ({ status: e.ref('status') }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
  return row && readTask(row)
}

/** Updates details of a task that do not change its status. */
export async function updateTask(
  db: Db,
  id: number,
  change: Omit<Updateable<TasksTable>, 'status'>,
): Promise<void> {
  await db.updateTable('tasks').set(change).where('id', '=', id).execute()
}

/** Records the task that replaced a superseded one; returns false if this one was not superseded. */
export async function updateSuccessor(db: Db, id: number, successor: number): Promise<boolean> {
  const values = [successor, id, 'superseded'] as const
  const rows = await runCompiled(db, 'successor of a task', values, () =>
    db
      .updateTable('tasks')
      .set({ supersededBy: successor })
      .where('id', '=', id)
      .where('cancelReason', '=', 'superseded')
      .where('supersededBy', 'is', null)
      .returning('id'),
  )
  return rows.length > 0
}

export async function listTasksById(db: Db, ids: number[]): Promise<Map<number, Task>> {
  if (ids.length === 0) return new Map()
  const rows = await runCompiled(db, `${ids.length} tasks`, ids, () =>
    db.selectFrom('tasks').selectAll().where('id', 'in', ids),
  )
  return new Map(rows.map((row) => [row.id, readTask(row)]))
}

/** Lists queued and running deployments by environment; the running one wins. */
export async function listOpenTasks(db: Db, environmentIds: number[]): Promise<Map<number, Task>> {
  if (environmentIds.length === 0) return new Map()
  const shape = `open tasks of ${environmentIds.length} environments`
  const rows = await runCompiled(db, shape, environmentIds, () =>
    db
      .selectFrom('tasks')
      .selectAll()
      .where(isOpen)
      .where('environmentId', 'in', environmentIds)
      .orderBy('id', 'desc'),
  )
  return new Map(rows.filter(locks).map((row) => [row.environmentId, readTask(row)]))
}

/** Lists unfinished tasks of a server without a live attempt, which could be sent to its agent now, oldest first. */
export async function listDispatchable(db: Db, serverId: number, limit: number): Promise<Task[]> {
  const rows = await db
    .selectFrom('tasks')
    .selectAll()
    .where(isOpen)
    .where('serverId', '=', serverId)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('attempts')
            .select('attempts.id')
            .whereRef('attempts.environmentId', '=', 'tasks.environmentId')
            .where('attempts.state', '<', 100),
        ),
      ),
    )
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(readTask)
}

export type UnsentTask = Pick<
  Task,
  'id' | 'organizationId' | 'projectId' | 'environmentId' | 'serverId' | 'type' | 'createdAt'
>

/** Lists queued tasks from before a time that never had an attempt: "no attempt" proves "never sent". */
export const listNeverSent = (db: Db, createdUntil: number): Promise<UnsentTask[]> =>
  runCompiled(db, 'tasks never sent', [createdUntil], () =>
    db
      .selectFrom('tasks')
      .select(['id', 'organizationId', 'projectId', 'environmentId', 'serverId'])
      .select(['type', 'createdAt'])
      .where(isQueued)
      .where('createdAt', '<=', createdUntil)
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('attempts')
              .select('attempts.id')
              .whereRef('attempts.taskId', '=', 'tasks.id'),
          ),
        ),
      )
      .orderBy('createdAt'),
  )
