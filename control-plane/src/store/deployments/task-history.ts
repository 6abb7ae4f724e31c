// Reads pages of tasks, and the newest task of one outcome. Every list walks a key that ends in the id, newest first,
// and stops at its limit, so a page costs the same in a long history; a trigger has keys of its own. There are
// deliberately no counts.
import { TASK_TYPES, type TaskStatus, type TaskType, type Trigger } from '@berth/shared'
import type { SelectQueryBuilder } from 'kysely'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { Schema } from '../schema.ts'
import { hasEnded, isOpen } from './task-conditions.ts'
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

/** The history of one environment, or of all present and former environments of a project. */
export type TaskScope = { environmentId: number } | { projectId: number }

type Query = SelectQueryBuilder<Schema, 'tasks', object>

const scoped = (db: Db, scope: TaskScope): Query => {
  const tasks = db.selectFrom('tasks')
  return 'environmentId' in scope
    ? tasks.where('environmentId', '=', scope.environmentId)
    : tasks.where('projectId', '=', scope.projectId)
}

/**
 * Ids rise with time, but not to the millisecond: a transaction that waits for a lock took its time before its id, and
 * clocks are adjusted. So a time becomes an id with this margin, and each row's own time decides.
 */
const SPARE_MS = 10 * 60_000

/** Finds a task from before a time; the query can skip all older ones. */
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

/** The bounds of a page, in the order in which the statement uses them. Undefined means unbounded. */
interface Bounds {
  after: number | undefined
  end: number | undefined
  beforeId: number | undefined
  since: number | undefined
  until: number | undefined
  trigger: Trigger | undefined
}

/** A part of a history with its own order: tasks that ended in one way by their key, all open tasks by another. */
interface Part {
  types: readonly TaskType[]
  statuses: readonly TaskStatus[]
  is: typeof isOpen
}

const OPEN: readonly TaskStatus[] = ['queued', 'running']
const ENDED: readonly TaskStatus[] = ['succeeded', 'failed', 'canceled']

function partsOf({ status, types }: TaskFilter): Part[] {
  const kinds = [...new Set(types ?? TASK_TYPES)]
  const isAsked = (one: TaskStatus): boolean => !status?.length || status.includes(one)
  const open = OPEN.filter(isAsked)
  const ended = ENDED.filter(isAsked).flatMap((one) =>
    kinds.map((type): Part => ({ types: [type], statuses: [one], is: hasEnded })),
  )
  const isOpenAsked = open.length > 0 && kinds.length > 0
  return isOpenAsked ? [...ended, { types: kinds, statuses: open, is: isOpen }] : ended
}

function partQuery(db: Db, scope: TaskScope, part: Part, bounds: Bounds) {
  let query = scoped(db, scope).select('id').where(part.is)
  query = query.where('type', 'in', part.types).where('status', 'in', part.statuses)
  if (bounds.after !== undefined) query = query.where('id', '>', bounds.after)
  if (bounds.end !== undefined) query = query.where('id', '<', bounds.end)
  if (bounds.beforeId !== undefined) query = query.where('id', '<', bounds.beforeId)
  if (bounds.since !== undefined) query = query.where('createdAt', '>=', bounds.since)
  if (bounds.until !== undefined) query = query.where('createdAt', '<', bounds.until)
  if (bounds.trigger) query = query.where('triggerBy', '=', bounds.trigger)
  return query
}

/**
 * Selects the newest rows of each part. Each has its own limit, because PostgreSQL would read a whole part before
 * merging it.
 */
const newestOf = (db: Db, scope: TaskScope, parts: Part[], bounds: Bounds, limit: number) =>
  parts
    .map((part) => partQuery(db, scope, part, bounds).orderBy('id', 'desc').limit(limit))
    .map((part) => db.selectFrom(part.as('part')).select('id'))
    .reduce((all, part) => all.unionAll(part))

/**
 * Lists tasks, newest first. One statement merges the parts, each walked in key order: the databases read only as much
 * of each as is shown, and a task that ends concurrently is neither missed nor listed twice.
 */
export async function listTasks(
  db: Db,
  scope: TaskScope,
  filter: TaskFilter,
): Promise<ShownTask[]> {
  const { since, until, beforeId, trigger, limit } = filter
  const parts = partsOf(filter)
  if (parts.length === 0) return []
  // times become ids, so that a walk along the ids ends where the time does
  const after = since === undefined ? undefined : await lastBefore(db, since - SPARE_MS)
  const end = until === undefined ? undefined : await firstFrom(db, until + SPARE_MS)
  const bounds: Bounds = { after, end, beforeId, since, until, trigger }
  const [whose, id] = Object.entries(scope)[0] as [string, number]
  const asked = Object.values(bounds)
  const given = asked.filter((value) => value !== undefined)
  const sizes = parts.map(({ is, types, statuses }) => [
    is === isOpen,
    types.length,
    statuses.length,
  ])
  const shape = `tasks by ${whose} ${sizes.join(';')} ${asked.map((value) => value !== undefined).join()}`
  const values = parts.flatMap((part) => [id, ...part.types, ...part.statuses, ...given, limit])
  const rows = await runCompiled(db, shape, [...values, limit], () =>
    db
      .selectFrom('tasks')
      .select(SHOWN)
      .where('id', 'in', newestOf(db, scope, parts, bounds, limit))
      .orderBy('id', 'desc')
      .limit(limit),
  )
  return rows.map(readShownTask)
}

/** Finds the newest deployment with this outcome, before or after another one. */
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

/** Lists the commits of an environment's deployments that begin with these hex digits. */
export async function listCommitsBy(
  db: Db,
  environmentId: number,
  prefix: string,
): Promise<string[]> {
  const rows = await scoped(db, { environmentId })
    .where('type', '=', 'deploy')
    .where('commitSha', 'like', `${prefix}%`)
    .select('commitSha')
    .distinct()
    .execute()
  return rows.flatMap(({ commitSha }) => commitSha ?? [])
}
