// Stops a task, for every cause. A task that never reached a server ends here; for any other one the agent is asked to
// stop, because only it knows the state.
import { AppError } from '@berth/shared'
import { type CancelDecision, decideCancel } from '../../domain/deployments/task.ts'
import { findLiveAttempt, stopAttempt } from '../../store/deployments/attempts.ts'
import { lockTask, moveTask, type Task, updateTask } from '../../store/deployments/tasks.ts'
import type { Change } from '../core/change.ts'
import { agentTopic, emitTask } from '../core/transaction.ts'

interface StopReason {
  reason: 'user' | 'superseded' | 'environment_removed'
  /** The name of the user or the event; null if the task that replaces it says enough. */
  by: string | null
}

interface Stopped {
  task: Task
  outcome: CancelDecision['kind']
}

/** Never refuses: a finished task stays as it is, and the outcome says so. */
export async function stopTask(c: Change, id: number, why: StopReason): Promise<Stopped> {
  const task = await lockTask(c.db, id)
  if (!task) throw new AppError('not_found', "Not found, or you don't have access.")
  const attempt = await findLiveAttempt(c.db, id)
  const decision = decideCancel(task.status, attempt !== undefined)
  const asked = {
    cancelRequestedAt: task.cancelRequestedAt ?? c.now,
    cancelReason: why.reason,
    canceledBy: why.by,
    supersededBy: null, // the queue names the successor
  }
  switch (decision.kind) {
    case 'refuse_finished':
      break
    case 'cancel_now':
      await moveTask(c.db, id, 'canceled', { ...asked, finishedAt: c.now })
      emitTask(c, task, 'task.canceled', { reason: why.reason })
      break
    case 'ask_the_agent':
      await updateTask(c.db, id, asked)
      if (attempt) {
        await stopAttempt(c.db, attempt.id)
        c.notify(agentTopic(attempt.agentId))
      }
      emitTask(c, task, 'task.canceling', { reason: why.reason })
      break
  }
  return { task, outcome: decision.kind }
}
