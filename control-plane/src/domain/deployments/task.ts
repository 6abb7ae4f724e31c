// The life of a task: five statuses, three of them final, as a typed matrix of status × wanted status. Code that moves
// a task checks here first, and the store's conditional update checks again.
import { TASK_STATUSES, type TaskStatus } from '@berth/shared'

type Row = Record<TaskStatus, boolean>
const nowhere: Row = {
  queued: false,
  running: false,
  succeeded: false,
  failed: false,
  canceled: false,
}

/** From (row) to (column). A task never moves back, and a final status stays. */
const TASK_MATRIX: Record<TaskStatus, Row> = {
  // succeeded from queued: the agent was offline and reports several states together
  queued: { queued: false, running: true, succeeded: true, failed: true, canceled: true },
  running: { queued: false, running: false, succeeded: true, failed: true, canceled: true },
  succeeded: nowhere,
  failed: nowhere,
  canceled: nowhere,
}

/** For the conditional update: the statuses from which `to` may be reached. */
export const sourcesOf = (to: TaskStatus): TaskStatus[] =>
  TASK_STATUSES.filter((from) => TASK_MATRIX[from][to])

export type CancelDecision =
  | { kind: 'refuse_finished' }
  | { kind: 'cancel_now' }
  | { kind: 'ask_the_agent' }

/** A task without a live attempt never reached a server, so it can end here. Otherwise only the agent knows. */
export function decideCancel(status: TaskStatus, hasLiveAttempt: boolean): CancelDecision {
  if (status !== 'queued' && status !== 'running') return { kind: 'refuse_finished' }
  return hasLiveAttempt ? { kind: 'ask_the_agent' } : { kind: 'cancel_now' }
}
