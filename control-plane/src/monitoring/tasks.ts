// Reports tasks as they end, to metrics, traces and the log. It reads the event table, so that each end is reported
// once, whichever way it came about.
import { isFinished } from '@berth/shared'
import type { Context } from '../context.ts'
import type { EventRow } from '../store/core/events.ts'
import {
  type Attempt,
  type AttemptStep,
  listNewestAttempts,
  listSteps,
} from '../store/deployments/attempts.ts'
import { listTasksById, type Task } from '../store/deployments/tasks.ts'
import { spansOfTask } from './spans.ts'

const ENDS = new Set(['task.succeeded', 'task.failed', 'task.canceled'])
/** Agents name the phases; another name would make the number of labels unbounded. */
const PHASES = new Set([
  ...['checkout', 'configure', 'build', 'release', 'run', 'start', 'route', 'verify', 'cleanup'],
])
const known = (phase: string): string => (PHASES.has(phase) ? phase : 'other')

export async function reportEnded(ctx: Context, rows: EventRow[]): Promise<void> {
  const ids = rows.flatMap(({ kind, taskId }) =>
    ENDS.has(kind) && taskId !== null ? [taskId] : [],
  )
  if (ids.length === 0) return
  const tasks = [...(await listTasksById(ctx.db, [...new Set(ids)])).values()]
  const attempts = await listNewestAttempts(ctx.db, [...new Set(ids)])
  const steps = await listSteps(
    ctx.db,
    [...attempts.values()].map(({ id }) => id),
  )
  for (const task of tasks) {
    const attempt = attempts.get(task.id)
    const own = steps.filter((step) => step.attemptId === attempt?.id)
    countTask(ctx, task)
    if (task.status === 'succeeded') countPhases(ctx, task, own)
    logTask(ctx, task, attempt)
    if (!ctx.traces.isOn) continue
    for (const span of spansOfTask(task, attempt, own)) ctx.traces.record(span)
  }
}

function logTask({ log }: Context, task: Task, attempt: Pick<Attempt, 'id'> | undefined): void {
  const { id: taskId, requestId, environmentId, type, status, createdAt, finishedAt } = task
  const about = { taskId, requestId, attemptId: attempt?.id, environmentId, type, status }
  const ms = finishedAt === null ? null : finishedAt - createdAt
  log.info({ ...about, code: task.failure?.code, ms }, 'task ended')
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
