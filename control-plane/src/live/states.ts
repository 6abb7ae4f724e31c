// An event together with the state its environment and task have now, so that a page changes without asking again. The
// state may be newer than the event, never older; what depends on the viewer (what they may do) is not here.
import type { TaskStatus } from '@berth/shared'
import { type EnvironmentStatus, environmentStatus } from '../domain/environment.ts'
import { degradation } from '../domain/observation.ts'
import type { Db } from '../store/database.ts'
import { listEnvironmentsById } from '../store/environments.ts'
import type { EventRow } from '../store/events.ts'
import { listOpenTasks, listTasksById } from '../store/tasks.ts'

export interface LiveEvent extends EventRow {
  /** Null: about no environment, or one that is gone. */
  environment: { id: number; status: EnvironmentStatus; locked: boolean } | null
  task: { id: number; status: TaskStatus } | null
}

const distinct = (ids: (number | null)[]): number[] => [...new Set(ids.filter((id) => id !== null))]

export async function describeEvents(db: Db, rows: EventRow[]): Promise<LiveEvent[]> {
  const environmentIds = distinct(rows.map((row) => row.environmentId))
  const environments = await listEnvironmentsById(db, environmentIds)
  const open = await listOpenTasks(db, environmentIds)
  const lastIds = distinct([...environments.values()].map((e) => e.lastTaskId))
  const tasks = await listTasksById(db, distinct([...rows.map((row) => row.taskId), ...lastIds]))
  return rows.map((row) => {
    const environment = environments.get(row.environmentId ?? 0)
    const task = tasks.get(row.taskId ?? 0)
    const locked = environment !== undefined && open.has(environment.id)
    return {
      ...row,
      task: task ? { id: task.id, status: task.status } : null,
      environment: environment
        ? {
            id: environment.id,
            locked,
            status: environmentStatus({
              removing: environment.removingAt !== null,
              locked,
              deployed: environment.deployedFence > 0,
              degradedReason: degradation(environment),
              lastTask: tasks.get(environment.lastTaskId ?? 0),
            }),
          }
        : null,
    }
  })
}
