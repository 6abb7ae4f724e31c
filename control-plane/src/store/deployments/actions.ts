// Stores the actions of environments, as the last successful deployment brought them, and reads their tasks.
import { locksEnvironment } from '@berth/shared'
import type { SyncedAction } from '../../domain/deployments/action.ts'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import { updateDeployed } from '../environments/environments.ts'
import { isOpen } from './task-conditions.ts'
import { readTask, type Task } from './tasks.ts'

export async function findActions(
  db: Db,
  environmentId: number,
): Promise<{ actions: SyncedAction[]; syncedAt: number }> {
  const row = await db
    .selectFrom('environments')
    .select(['actions', 'actionsSyncedAt'])
    .where('id', '=', environmentId)
    .executeTakeFirst()
  return {
    actions: row ? (JSON.parse(row.actions) as SyncedAction[]) : [],
    syncedAt: row?.actionsSyncedAt ?? 0,
  }
}

/** Replaces the whole list; only the newest fence may write it. */
export const saveActions = (
  db: Db,
  environmentId: number,
  fence: number,
  actions: SyncedAction[],
  now: number,
): Promise<void> =>
  updateDeployed(db, environmentId, fence, {
    actions: JSON.stringify(actions),
    actionsSyncedAt: now,
  })

/** Lists open actions and lifecycle tasks. The index of open tasks is small, so the type is filtered here. */
async function listOpenActions(db: Db, environmentIds: number[]): Promise<Task[]> {
  if (environmentIds.length === 0) return []
  const rows = await runCompiled(
    db,
    `open work of ${environmentIds.length} environments`,
    environmentIds,
    () =>
      db
        .selectFrom('tasks')
        .selectAll()
        .where('environmentId', 'in', environmentIds)
        .where(isOpen)
        .orderBy('id'),
  )
  return rows.filter(({ type }) => !locksEnvironment(type)).map(readTask)
}

export async function countQueuedActions(db: Db, environmentId: number): Promise<number> {
  const open = await listOpenActions(db, [environmentId])
  return open.filter(({ status }) => status === 'queued').length
}

/** Lists running actions by environment; other tasks of the environment wait for them. */
export async function listRunningActions(
  db: Db,
  environmentIds: number[],
): Promise<Map<number, Task>> {
  const open = await listOpenActions(db, environmentIds)
  const running = open.filter(({ status }) => status === 'running')
  return new Map(running.map((task) => [task.environmentId, task]))
}
