// Actions of environments, as the last successful deployment brought them, and their tasks.
import type { SyncedAction } from '../domain/action.ts'
import type { Db } from './database.ts'
import { updateDeployed } from './environments.ts'
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

/** The whole list, written only by the newest fence. */
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

export async function countQueuedActions(db: Db, environmentId: number): Promise<number> {
  const { count } = await db
    .selectFrom('tasks')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('environmentId', '=', environmentId)
    .where('status', '=', 'queued')
    .where('type', '=', 'action')
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Actions that run now, by environment: what waits there waits for them. */
export async function listRunningActions(
  db: Db,
  environmentIds: number[],
): Promise<Map<number, Task>> {
  if (environmentIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('tasks')
    .selectAll()
    .where('environmentId', 'in', environmentIds)
    .where('status', '=', 'running')
    .where('type', '=', 'action')
    .execute()
  return new Map(rows.map((row) => [row.environmentId, readTask(row)]))
}
