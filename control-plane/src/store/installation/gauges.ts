// Counts for monitoring. Each query reads open tasks or live agents, so its cost does not grow with history.
import { isOpen, isQueued } from '../deployments/task-conditions.ts'
import type { Db } from '../engine/db.ts'
import { newestCertificates } from '../servers/agents.ts'

/** Open tasks by status. */
export async function countOpenTasks(db: Db): Promise<{ status: string; count: number }[]> {
  const rows = await db
    .selectFrom('tasks')
    .select((e) => ['status', e.fn.countAll<number | string>().as('count')])
    .where(isOpen)
    .groupBy('status')
    .execute()
  return rows.map(({ status, count }) => ({ status, count: Number(count) }))
}

/** When the oldest queued task was requested. */
export async function findOldestQueued(db: Db): Promise<number | undefined> {
  const { at } = await db
    .selectFrom('tasks')
    .select((e) => e.fn.min<number | string | null>('createdAt').as('at'))
    .where(isQueued)
    .executeTakeFirstOrThrow()
  return at === null ? undefined : Number(at)
}

/** Live agents: all, and those with a session. */
export async function countAgents(db: Db): Promise<{ all: number; online: number }> {
  const row = await db
    .selectFrom('agents')
    .select((e) => [
      e.fn.countAll<number | string>().as('all'),
      e.fn.count<number | string>('sessionId').as('online'),
    ])
    .where('revokedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return { all: Number(row.all), online: Number(row.online) }
}

/** When the first of the newest certificates of live agents ends; agents renew theirs long before. */
export async function findFirstCertificateEnd(db: Db): Promise<number | undefined> {
  const { first } = await newestCertificates(db)
    .select((e) => e.fn.min<number | string | null>('agentCertificates.notAfter').as('first'))
    .where('agents.revokedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return first === null ? undefined : Number(first)
}
