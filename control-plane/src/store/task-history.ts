// Pages of finished and unfinished tasks, and the newest of one outcome. Every list is walked by a key that ends in
// the id, newest first, and stops at its limit: what a page costs does not depend on how long the history is.
// Deliberately absent: counts.
import { TASK_TYPES, type TaskStatus, type TaskType, type Trigger } from '@berth/shared'
import type { SelectQueryBuilder } from 'kysely'
import { runCompiled } from './compiled.ts'
import type { Db } from './database.ts'
import type { Schema } from './schema.ts'
import { readTask, type Task } from './tasks.ts'

export interface TaskFilter {
  status?: TaskStatus[] | undefined
  types?: TaskType[] | undefined
  trigger?: Trigger | undefined
  since?: number | undefined
  until?: number | undefined
  beforeId?: number | undefined
  limit: number
}

/** Whose history: one environment's, or that of all environments a project has and had. */
export type TaskScope = { environmentId: number } | { projectId: number }

type Query = SelectQueryBuilder<Schema, 'tasks', object>

const scoped = (db: Db, scope: TaskScope): Query => {
  const tasks = db.selectFrom('tasks')
  return 'environmentId' in scope
    ? tasks.where('environmentId', '=', scope.environmentId)
    : tasks.where('projectId', '=', scope.projectId)
}

/** The newest task before a moment: older ones than that need not be looked at. */
async function lastBefore(db: Db, scope: TaskScope, at: number): Promise<number | undefined> {
  const row = await scoped(db, scope)
    .select('id')
    .where('createdAt', '<', at)
    .orderBy('createdAt', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.id
}

async function firstFrom(db: Db, scope: TaskScope, at: number): Promise<number | undefined> {
  const row = await scoped(db, scope)
    .select('id')
    .where('createdAt', '>=', at)
    .orderBy('createdAt')
    .limit(1)
    .executeTakeFirst()
  return row?.id
}

/** What one walk looks for; undefined: anything. In the order in which the statement asks for it. */
interface Walk {
  type: TaskType | undefined
  status: TaskStatus | undefined
  after: number | undefined
  end: number | undefined
  beforeId: number | undefined
  trigger: Trigger | undefined
}

function walkQuery(db: Db, scope: TaskScope, walk: Walk, limit: number) {
  let query = scoped(db, scope).selectAll().orderBy('id', 'desc').limit(limit)
  if (walk.type) query = query.where('type', '=', walk.type)
  if (walk.status) query = query.where('status', '=', walk.status)
  if (walk.after !== undefined) query = query.where('id', '>', walk.after)
  if (walk.end !== undefined) query = query.where('id', '<', walk.end)
  if (walk.beforeId !== undefined) query = query.where('id', '<', walk.beforeId)
  if (walk.trigger) query = query.where('triggerBy', '=', walk.trigger)
  return query
}

/** One walk for each outcome that was asked for: a database cannot merge ordered ranges by itself. */
function outcomes({ status, types }: TaskFilter): Pick<Walk, 'type' | 'status'>[] {
  const all = new Set(types ?? TASK_TYPES)
  const statuses = status?.length ? [...new Set(status)] : [undefined]
  if (!status?.length && all.size === TASK_TYPES.length) {
    return [{ type: undefined, status: undefined }]
  }
  return [...all].flatMap((type) => statuses.map((one) => ({ type, status: one })))
}

/** Newest first. */
export async function listTasks(db: Db, scope: TaskScope, filter: TaskFilter): Promise<Task[]> {
  const { since, until, beforeId, trigger, limit } = filter
  // times as ids, so that a walk along the ids ends where the time does
  const after = since === undefined ? undefined : await lastBefore(db, scope, since)
  const end = until === undefined ? undefined : await firstFrom(db, scope, until)
  const [whose, id] = Object.entries(scope)[0] as [string, number]
  const found: Task[] = []
  for (const outcome of outcomes(filter)) {
    const walk: Walk = { ...outcome, after, end, beforeId, trigger }
    const asked = Object.values(walk)
    const shape = `tasks by ${whose} ${asked.map((value) => value !== undefined).join()}`
    const values = [id, ...asked.filter((value) => value !== undefined), limit]
    const rows = await runCompiled(db, shape, values, () => walkQuery(db, scope, walk, limit))
    found.push(...rows.map(readTask))
  }
  return found.toSorted((a, b) => b.id - a.id).slice(0, filter.limit)
}

/** The newest deployment with this end, before or after another one. */
export async function findNewestDeployment(
  db: Db,
  environmentId: number,
  status: TaskStatus,
  than: { beforeId?: number; afterId?: number } = {},
): Promise<Task | undefined> {
  let query = scoped(db, { environmentId })
    .where('type', '=', 'deploy')
    .where('status', '=', status)
    .orderBy('id', 'desc')
    .limit(1)
  if (than.beforeId !== undefined) query = query.where('id', '<', than.beforeId)
  if (than.afterId !== undefined) query = query.where('id', '>', than.afterId)
  const row = await query.selectAll().executeTakeFirst()
  return row && readTask(row)
}
