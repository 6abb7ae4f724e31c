// The one way to change something: load, decide, save and emit in one transaction; wake-ups go out after the commit. No
// network, docker or file work happens inside. A wake-up is a hint: a process that misses it re-reads on its own timer.
// Event rows are written at the end of the transaction, so that their numbers follow the order of commits.
import type { EventKind } from '@berth/shared'
import type { Context } from '../../context.ts'
import { insertEvents } from '../../store/core/events.ts'
import { workInside } from '../../store/engine/compiled.ts'
import { isDeadlock, isUniqueViolation } from '../../store/engine/database.ts'
import type { Db } from '../../store/engine/db.ts'
import { insertAgentWakes } from '../../store/installation/replicas.ts'
import { appendAudits } from './audit-chain.ts'
import type { Change } from './change.ts'
import { queueCommitStatuses } from './commit-statuses.ts'
import { collectNotices, writeNotices } from './notices.ts'
import { noteEffect, runOutsideTurns } from './turns.ts'

/** The part of a context that a change needs. */
type ChangeContext = Pick<Context, 'db' | 'engine' | 'clock' | 'notifier' | 'secretStore'>

const DEADLOCK_TRIES = 5 // each try ends one of the transactions that wait for each other

export async function change<T>(ctx: ChangeContext, work: (c: Change) => Promise<T>): Promise<T> {
  for (let left = DEADLOCK_TRIES; ; left--) {
    try {
      return await changeOnce(ctx, work)
    } catch (error) {
      if (left <= 1 || !isDeadlock(error)) throw error
    }
  }
}

const UNIQUE_TRIES = 3

/** Decides again if a user's deployment and an event collided at a unique index. */
export async function changeUnlessTaken<T>(
  ctx: ChangeContext,
  work: (c: Change) => Promise<T>,
): Promise<T> {
  for (let left = UNIQUE_TRIES; ; left--) {
    try {
      return await change(ctx, work)
    } catch (error) {
      if (left <= 1 || !isUniqueViolation(error)) throw error
    }
  }
}

async function changeOnce<T>(ctx: ChangeContext, work: (c: Change) => Promise<T>): Promise<T> {
  const topics = new Set<string>()
  const perform = async (db: Db): Promise<T> => {
    const c: Change = {
      db,
      notify: (topic) => void topics.add(topic),
      now: ctx.clock.now(),
      audits: [],
      events: [],
      happened: [],
    }
    const done = await work(c)
    await queueCommitStatuses(c)
    const notices = await collectNotices(c)
    await noteEffect(c)
    await appendAudits(ctx, c)
    if (ctx.engine === 'postgres') await insertAgentWakes(db, [...topics].flatMap(toWake))
    await insertEvents(db, ctx.engine, c.events)
    // after the lock of the events, so that the order of their ids is the order of commits
    await writeNotices(c, ctx.engine, notices)
    return done
  }
  const result = await ctx.db.transaction().execute((db) => workInside(db, () => perform(db)))
  runOutsideTurns(() => {
    for (const topic of topics) ctx.notifier.notify(topic)
  })
  return result
}

/** What another replica must not miss is a row as well. */
function toWake(topic: string): { agentId: string; isTrust: boolean }[] {
  const [kind, agentId] = topic.split(':')
  if (agentId === undefined || (kind !== 'agent' && kind !== 'trust')) return []
  return [{ agentId, isTrust: kind === 'trust' }]
}

export const agentTopic = (agentId: string): string => `agent:${agentId}`
/** The list of what a server must trust or refuse may have changed. */
export const trustTopic = (agentId: string): string => `trust:${agentId}`
export const taskTopic = (taskId: number): string => `task:${taskId}`
export const logTopic = (attemptId: string): string => `log:${attemptId}`
/** A verified delivery of this project's forge arrived. */
export const deliveryTopic = (projectId: number): string => `delivery:${projectId}`
export const EVENTS_TOPIC = 'events'
export const MAIL_TOPIC = 'mail'

/** The subject of an event: always an organization, and the levels below it that apply. */
interface EventScope {
  organizationId: number
  projectId?: number | null
  environmentId?: number | null
  taskId?: number | null
}

/**
 * The one way to publish a live event. The body is small and holds names, numbers and words, never a value, because
 * every reader of the organization can see it.
 */
export function emit(c: Change, about: EventScope, kind: EventKind, body: object = {}): void {
  c.events.push({
    organizationId: about.organizationId,
    projectId: about.projectId ?? null,
    environmentId: about.environmentId ?? null,
    taskId: about.taskId ?? null,
    kind,
    body,
    at: c.now,
  })
  if (about.taskId) c.notify(taskTopic(about.taskId))
  c.notify(EVENTS_TOPIC)
}

interface TaskSubject {
  organizationId: number
  projectId: number
  environmentId: number
  id: number
}

export function emitEnvironment(
  c: Change,
  { organizationId, projectId, id }: { organizationId: number; projectId: number; id: number },
  kind: `environment.${string}`,
  body: object = {},
): void {
  emit(c, { organizationId, projectId, environmentId: id }, kind, body)
}

/** Emits all that people see of a task. */
export function emitTask(
  c: Change,
  { organizationId, projectId, environmentId, id }: TaskSubject,
  kind: `task.${string}`,
  body: object,
): void {
  emit(c, { organizationId, projectId, environmentId, taskId: id }, kind, body)
}
