// Dispatches queued tasks: a task gets an attempt, with its own fence, only while its agent has a session. So "no
// attempt" proves "never sent".
import { isFinished, TASKS, type Trigger } from '@berth/shared'
import { AttemptState, Desired } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import { uuidv7 } from '../../identity/uuid.ts'
import { insertAttempt, listTaskAttempts } from '../../store/deployments/attempts.ts'
import { listDispatchable, lockTask, moveTask, type Task } from '../../store/deployments/tasks.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import {
  type Environment,
  lockEnvironment,
  takeFence,
} from '../../store/environments/environments.ts'
import { isApproved } from '../../store/forges/pull-requests.ts'
import { findAgent, updateUnderEpoch } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import type { Change } from '../core/change.ts'
import { change, emitTask } from '../core/transaction.ts'

const BATCH = 50 // attempts created in one transaction; the next wake-up or re-read continues

/** True when an attempt was created. Checks the session's epoch: a superseded session dispatches nothing. */
export async function dispatchTasks(
  ctx: Context,
  { agentId, serverId, epoch }: { agentId: string; serverId: number; epoch: number },
): Promise<boolean> {
  const waiting = await listDispatchable(ctx.db, serverId, 1)
  if (waiting.length === 0) return false // the usual case, without a write transaction
  return change(ctx, async (c) => {
    // write first: this locks the row, so that a session at another replica begins after this and finds the attempts
    if (!(await updateUnderEpoch(c.db, agentId, epoch, { sessionEpoch: epoch }))) return false
    const current = await findAgent(c.db, agentId)
    const server = await findServer(c.db, serverId)
    if (!server || server.paused || current?.drainingAt !== null) return false
    let made = false
    const busy = new Set<number>()
    for (const task of await listDispatchable(c.db, server.id, BATCH)) {
      if (busy.has(task.environmentId)) continue // one after the other, oldest first
      busy.add(task.environmentId)
      made = (await makeAttempt(c, task, agentId)) || made
    }
    return made
  }).catch((error: unknown) => {
    // another transaction gave the environment its attempt first; the next read finds it
    if (isUniqueViolation(error)) return false
    throw error
  })
}

async function makeAttempt(c: Change, listed: Task, agentId: string): Promise<boolean> {
  // lock order: environment before task; a push may be replacing this task
  const environment = await lockEnvironment(c.db, listed.environmentId)
  const task = await lockTask(c.db, listed.id)
  if (!task || isFinished(task.status)) return false // canceled or failed since it was listed
  const number = (await listTaskAttempts(c.db, task.id)).length + 1
  if (!environment || number > TASKS.attempts) return false
  const objection = await objectionTo(c, environment, task)
  if (objection) return withdraw(c, task, objection)
  const fence = await takeFence(c.db, task.environmentId)
  await insertAttempt(c.db, {
    id: uuidv7(c.now),
    taskId: task.id,
    number,
    agentId,
    environmentId: task.environmentId,
    fence,
    state: AttemptState.ASSIGNED,
    desired: task.cancelRequestedAt === null ? Desired.RUNNING : Desired.STOPPED,
    variablesRevision: environment.variablesRevision,
    createdAt: c.now,
  })
  await emitTask(c, task, 'task.dispatched', { attempt: number })
  return true
}

interface Objection {
  code: 'approval_required' | 'environment_protected'
  message: string
}

const AUTOMATIC: readonly Trigger[] = ['webhook', 'reconcile', 'system']

/** The last check before a server gets the task: its environment may have changed while it was queued. */
async function objectionTo(
  c: Change,
  environment: Environment,
  task: Task,
): Promise<Objection | undefined> {
  if (task.type !== 'deploy') return undefined
  const { projectId, pullRequestNumber: number, identifier } = environment
  if (environment.protected && AUTOMATIC.includes(task.triggerBy) && task.startedAt === null) {
    const message = `${identifier} was protected before this began: only its owner deploys it.`
    return { code: 'environment_protected', message }
  }
  if (!environment.fromFork) return undefined
  if (number !== null && (await isApproved(c.db, projectId, number, task.askedSha)))
    return undefined
  const message = 'The pull request comes from a fork by now: a member must approve the commit.'
  return { code: 'approval_required', message }
}

/** Cancels instead of failing: once the objection ends, the same commit is deployed. */
async function withdraw(c: Change, task: Task, why: Objection): Promise<false> {
  const warnings = [...task.warnings, { ...why, step: null }]
  const moved = await moveTask(c.db, task.id, 'canceled', {
    cancelRequestedAt: task.cancelRequestedAt ?? c.now,
    cancelReason: 'superseded',
    finishedAt: c.now,
    warnings: JSON.stringify(warnings),
  })
  if (moved) emitTask(c, task, 'task.canceled', { reason: 'superseded' })
  return false
}
