// Reads what is shown beside an environment: its server, its owner's name, its newest task and its newest success. One
// statement serves a whole list.
import type { TaskStatus } from '@berth/shared'
import { sql } from 'kysely'
import { hasEnded } from '../deployments/task-conditions.ts'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'

export interface Surroundings {
  server: { id: number; name: string; hostname: string }
  ownerName: string
  lastTask: { id: number; status: TaskStatus; finishedAt: number | null } | undefined
  /** The newest successful deployment. */
  lastSuccess: { id: number; commitSha: string | null; finishedAt: number } | undefined
}

export async function listSurroundings(
  db: Db,
  environmentIds: number[],
): Promise<Map<number, Surroundings>> {
  if (environmentIds.length === 0) return new Map()
  const shape = `surroundings of ${environmentIds.length} environments`
  const rows = await runCompiled(db, shape, environmentIds, () =>
    querySurroundings(db, environmentIds),
  )
  return new Map(
    rows.map((row) => {
      const { taskId, taskStatus, finishedAt } = row
      const { successId, successSha: commitSha, successAt } = row
      const hasTask = taskId !== null && taskStatus !== null
      const surroundings: Surroundings = {
        server: { id: row.serverId, name: row.serverName, hostname: row.hostname },
        ownerName: row.ownerName ?? '',
        lastTask: hasTask ? { id: taskId, status: taskStatus, finishedAt } : undefined,
        lastSuccess:
          successId !== null && successAt !== null
            ? { id: successId, commitSha, finishedAt: successAt }
            : undefined,
      }
      return [row.id, surroundings]
    }),
  )
}

const querySurroundings = (db: Db, environmentIds: number[]) =>
  db
    .selectFrom('environments')
    .innerJoin('servers', 'servers.id', 'environments.serverId')
    .leftJoin('users', 'users.id', 'environments.ownerId')
    .leftJoin('tasks', 'tasks.id', 'environments.lastTaskId')
    .leftJoin('tasks as success', (join) =>
      join.on('success.id', '=', (eb) =>
        // repeats the condition of the index tasks_ended, so that its last entry is read
        eb
          .selectFrom('tasks')
          .select((of) => of.fn.max('tasks.id').as('id'))
          .whereRef('tasks.environmentId', '=', 'environments.id')
          .where('tasks.type', '=', sql.lit('deploy'))
          .where('tasks.status', '=', sql.lit('succeeded'))
          .where(hasEnded),
      ),
    )
    .select(['environments.id', 'environments.serverId'])
    .select(['servers.name as serverName', 'servers.hostname', 'users.name as ownerName'])
    .select(['tasks.id as taskId', 'tasks.status as taskStatus', 'tasks.finishedAt'])
    .select(['success.id as successId', 'success.commitSha as successSha'])
    .select('success.finishedAt as successAt')
    .where('environments.id', 'in', environmentIds)
