// Joins an event with the current state of its environment and task, so that a page updates without another query. The
// state may be newer than the event, never older; it excludes what depends on the viewer's permissions.
import type { TaskStatus } from '@berth/shared'
import { type EnvironmentStatus, environmentStatus } from '../domain/environments/environment.ts'
import { degradation, isStopped } from '../domain/environments/observation.ts'
import type { EventRow } from '../store/core/events.ts'
import { listRunningSteps } from '../store/deployments/attempts.ts'
import { listOpenTasks, listTasksById } from '../store/deployments/tasks.ts'
import type { Db } from '../store/engine/db.ts'
import { listEnvironmentsById } from '../store/environments/environments.ts'

export interface LiveEvent extends EventRow {
  /** Null if the event concerns no environment, or a removed one. */
  environment: { id: number; status: EnvironmentStatus; locked: boolean } | null
  task: LiveTask | null
}

interface LiveTask {
  id: number
  status: TaskStatus
  /** Null if it is in none now. */
  phase: string | null
  phase_title: string | null
  step: string | null
  step_title: string | null
}

const distinct = (ids: (number | null)[]): number[] => [...new Set(ids.filter((id) => id !== null))]

type RunningStep =
  Awaited<ReturnType<typeof listRunningSteps>> extends Map<number, infer S> ? S : never

const describeTask = (
  { id, status }: { id: number; status: TaskStatus },
  step: RunningStep | undefined,
): LiveTask => ({
  id,
  status,
  phase: step?.phase ?? null,
  phase_title: step?.phaseTitle ?? null,
  step: step?.stepId ?? null,
  step_title: step?.title ?? null,
})

export async function describeEvents(db: Db, rows: EventRow[]): Promise<LiveEvent[]> {
  const environmentIds = distinct(rows.map((row) => row.environmentId))
  const environments = await listEnvironmentsById(db, environmentIds)
  const open = await listOpenTasks(db, environmentIds)
  const lastIds = distinct([...environments.values()].map((e) => e.lastTaskId))
  const tasks = await listTasksById(db, distinct([...rows.map((row) => row.taskId), ...lastIds]))
  const running = [...tasks.values()].filter((task) => task.status === 'running')
  const steps = await listRunningSteps(
    db,
    running.map((task) => task.id),
  )
  return rows.map((row) => {
    const environment = environments.get(row.environmentId ?? 0)
    const task = tasks.get(row.taskId ?? 0)
    const locked = environment !== undefined && open.has(environment.id)
    return {
      ...row,
      task: task ? describeTask(task, steps.get(task.id)) : null,
      environment: environment
        ? {
            id: environment.id,
            locked,
            status: environmentStatus({
              removing: environment.removingAt !== null,
              locked,
              deployed: environment.deployedFence > 0,
              degradedReason: degradation(environment),
              stopped: isStopped(environment),
              lastTask: tasks.get(environment.lastTaskId ?? 0),
            }),
          }
        : null,
    }
  })
}
