// Counts tasks as they end, from the event table, so that each end is counted once, whichever way it came about.
import { isFinished } from '@berth/shared'
import type { Context } from '../context.ts'
import type { EventRow } from '../store/core/events.ts'
import { type AttemptStep, listNewestAttempts, listSteps } from '../store/deployments/attempts.ts'
import { listTasksById, type Task } from '../store/deployments/tasks.ts'

const ENDS = new Set(['task.succeeded', 'task.failed', 'task.canceled'])
/** Agents name the phases; another name would make the number of labels unbounded. */
const PHASES = new Set([
  ...['checkout', 'configure', 'build', 'release', 'run', 'start', 'route', 'verify', 'cleanup'],
])
const known = (phase: string): string => (PHASES.has(phase) ? phase : 'other')

export async function countEnded(ctx: Context, rows: EventRow[]): Promise<void> {
  const ids = rows.flatMap(({ kind, taskId }) =>
    ENDS.has(kind) && taskId !== null ? [taskId] : [],
  )
  if (ids.length === 0) return
  const tasks = [...(await listTasksById(ctx.db, [...new Set(ids)])).values()]
  const succeeded = tasks.filter(({ status }) => status === 'succeeded')
  const attempts = await listNewestAttempts(
    ctx.db,
    succeeded.map(({ id }) => id),
  )
  const steps = await listSteps(
    ctx.db,
    [...attempts.values()].map(({ id }) => id),
  )
  for (const task of tasks) countTask(ctx, task)
  for (const task of succeeded) {
    const attemptId = attempts.get(task.id)?.id
    countPhases(
      ctx,
      task,
      steps.filter((step) => step.attemptId === attemptId),
    )
  }
}

function countTask(
  { metrics }: Context,
  { type, status, failure, createdAt, finishedAt }: Task,
): void {
  if (!isFinished(status) || finishedAt === null) return
  const phase = failure?.phase ? known(failure.phase) : ''
  metrics.task(type, status, phase, (finishedAt - createdAt) / 1_000)
}

function countPhases({ metrics }: Context, { type }: Task, steps: AttemptStep[]): void {
  const sums = new Map<string, number>()
  for (const { phase, durationMs } of steps) {
    sums.set(known(phase), (sums.get(known(phase)) ?? 0) + (durationMs ?? 0))
  }
  for (const [phase, ms] of sums) metrics.phase(type, phase, ms / 1_000)
}
