// Pages of finished and unfinished tasks, and the newest of one outcome. Every list is walked by a key that ends in
// the id, newest first, and stops at its limit: what a page costs does not depend on how long the history is.
// Deliberately absent: counts.
import { TASK_TYPES, type TaskStatus, type TaskType, type Trigger } from '@berth/shared'
import type { SelectQueryBuilder } from 'kysely'
import { runCompiled } from './compiled.ts'
import type { Db } from './database.ts'
import type { Schema } from './schema.ts'
import { hasEnded, isOpen } from './task-words.ts'
import { readShownTask, readTask, SHOWN, type ShownTask, type Task } from './tasks.ts'

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

/**
 * Ids rise with time, but not to the millisecond: who waits for a lock has taken its time before its id, and clocks are
 * set. So a moment becomes an id with this much to spare, and each row's own time decides.
 */
const SPARE_MS = 10 * 60_000

/** A task of before a moment: older ones need not be looked at. */
async function lastBefore(db: Db, at: number): Promise<number | undefined> {
  const [row] = await runCompiled(db, 'last task before', [at, 1], () =>
    db
      .selectFrom('tasks')
      .select('id')
      .where('createdAt', '<', at)
      .orderBy('createdAt', 'desc')
      .limit(1),
  )
  return row?.id
}

async function firstFrom(db: Db, at: number): Promise<number | undefined> {
  const [row] = await runCompiled(db, 'first task from', [at, 1], () =>
    db.selectFrom('tasks').select('id').where('createdAt', '>=', at).orderBy('createdAt').limit(1),
  )
  return row?.id
}

/** What one walk looks for; undefined: anything. In the order in which the statement asks for it. */
interface Walk {
  type: TaskType
  status: TaskStatus | undefined
  after: number | undefined
  end: number | undefined
  beforeId: number | undefined
  since: number | undefined
  until: number | undefined
  trigger: Trigger | undefined
}

function walkQuery(db: Db, scope: TaskScope, walk: Walk, limit: number) {
  let query = scoped(db, scope).select(SHOWN).orderBy('id', 'desc').limit(limit)
  query = query.where('type', '=', walk.type)
  if (walk.status) query = query.where(hasEnded).where('status', '=', walk.status)
  if (walk.after !== undefined) query = query.where('id', '>', walk.after)
  if (walk.end !== undefined) query = query.where('id', '<', walk.end)
  if (walk.beforeId !== undefined) query = query.where('id', '<', walk.beforeId)
  if (walk.since !== undefined) query = query.where('createdAt', '>=', walk.since)
  if (walk.until !== undefined) query = query.where('createdAt', '<', walk.until)
  if (walk.trigger) query = query.where('triggerBy', '=', walk.trigger)
  return query
}

/** One walk for each outcome that was asked for: a database cannot merge ordered ranges by itself. */
function outcomes({ status, types }: TaskFilter): Pick<Walk, 'type' | 'status'>[] {
  const asked = new Set(status)
  const ended = [...asked].filter((one) => !OPEN.has(one))
  const statuses = asked.size === 0 ? [undefined] : ended
  return [...new Set(types ?? TASK_TYPES)].flatMap((type) =>
    statuses.map((one) => ({ type, status: one })),
  )
}

const OPEN: ReadonlySet<TaskStatus> = new Set(['queued', 'running'])

/** What has not ended is little and kept apart; here it is looked through whole. */
async function listOpen(db: Db, scope: TaskScope, filter: TaskFilter): Promise<ShownTask[]> {
  const { status, types, since = 0, until = Infinity, beforeId = Infinity, trigger } = filter
  if (!status?.some((one) => OPEN.has(one))) return []
  const [whose, id] = Object.entries(scope)[0] as [string, number]
  const rows = await runCompiled(db, `open tasks by ${whose}`, [id], () =>
    scoped(db, scope).select(SHOWN).where(isOpen).orderBy('id', 'desc'),
  )
  const isAsked = (row: (typeof rows)[number]): boolean =>
    status.includes(row.status) &&
    (types ?? TASK_TYPES).includes(row.type) &&
    (trigger ?? row.triggerBy) === row.triggerBy &&
    row.createdAt >= since &&
    row.createdAt < until &&
    row.id < beforeId
  return rows.filter(isAsked).map(readShownTask)
}

/** Newest first. */
export async function listTasks(
  db: Db,
  scope: TaskScope,
  filter: TaskFilter,
): Promise<ShownTask[]> {
  const { since, until, beforeId, trigger, limit } = filter
  // times as ids, so that a walk along the ids ends where the time does
  const after = since === undefined ? undefined : await lastBefore(db, since - SPARE_MS)
  const end = until === undefined ? undefined : await firstFrom(db, until + SPARE_MS)
  const [whose, id] = Object.entries(scope)[0] as [string, number]
  const found = await listOpen(db, scope, filter)
  for (const outcome of outcomes(filter)) {
    const walk: Walk = { ...outcome, after, end, beforeId, since, until, trigger }
    const asked = Object.values(walk)
    const shape = `tasks by ${whose} ${asked.map((value) => value !== undefined).join()}`
    const values = [id, ...asked.filter((value) => value !== undefined), limit]
    const rows = await runCompiled(db, shape, values, () => walkQuery(db, scope, walk, limit))
    for (const row of rows) found.push(readShownTask(row))
  }
  return found.toSorted((a, b) => b.id - a.id).slice(0, filter.limit)
}

/** The newest deployment with this end, before or after another one. */
export async function findNewestDeployment(
  db: Db,
  environmentId: number,
  status: 'succeeded' | 'failed' | 'canceled',
  than: { beforeId?: number; afterId?: number } = {},
): Promise<Task | undefined> {
  let query = scoped(db, { environmentId })
    .where(hasEnded)
    .where('type', '=', 'deploy')
    .where('status', '=', status)
    .orderBy('id', 'desc')
    .limit(1)
  if (than.beforeId !== undefined) query = query.where('id', '<', than.beforeId)
  if (than.afterId !== undefined) query = query.where('id', '>', than.afterId)
  const row = await query.selectAll().executeTakeFirst()
  return row && readTask(row)
}
