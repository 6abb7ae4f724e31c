// Deployments as tasks: requested, read, canceled. Every gateway uses the same functions, so the lock and the
// protection apply everywhere; unique indexes guard against concurrent requests.
import { AppError, TASKS } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { listRunningActions } from '../../store/deployments/actions.ts'
import {
  type AttemptStep,
  listBusyLine,
  listNewestAttempts,
  listSteps,
  type ShownAttempt,
} from '../../store/deployments/attempts.ts'
import { listTasks, type TaskFilter } from '../../store/deployments/task-history.ts'
import { listOpenTasks, type ShownTask, type Task } from '../../store/deployments/tasks.ts'
import type { Db } from '../../store/engine/db.ts'
import { lockEnvironment } from '../../store/environments/environments.ts'
import { listUserNames } from '../../store/people/people.ts'
import { type Agent, listServerAgents } from '../../store/servers/agents.ts'
import { listServersById, type Server } from '../../store/servers/servers.ts'
import {
  asReader,
  loadEnvironment,
  loadProject,
  loadTask,
  requireUnprotected,
} from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change } from '../core/transaction.ts'
import { endRemovalTask } from '../environments/removal.ts'
import { hasSession, inStartGrace } from '../servers/servers.ts'
import { stopTask } from './stopping.ts'

interface Waiting {
  code: 'server' | 'environment' | 'dispatch' | 'build_slot'
  message: string
  since: number
  deadline: number | null
  taskId: number | null
  /** From 1, among the tasks that wait for the same busy server, or for its build slots. */
  position: number | null
}

export interface TaskView {
  task: ShownTask
  attempt: ShownAttempt | undefined
  steps: AttemptStep[]
  waiting: Waiting | null
}

export async function cancelTask(ctx: Context, caller: Caller, id: number): Promise<TaskView> {
  const { environmentId } = await loadTask(ctx.db, caller, id, 'deploy')
  await loadEnvironment(ctx.db, caller, environmentId, 'deploy')
  await change(ctx, async (c) => {
    const environment = await lockEnvironment(c.db, environmentId)
    if (!environment) throw new AppError('not_found', 'It was just removed.')
    await requireUnprotected(c.db, caller, environment)
    const { task, outcome } = await stopTask(c, id, { reason: 'user', by: caller.name })
    if (outcome === 'refuse_finished') {
      throw new AppError('task_finished', `Task ${id} has ${task.status} already.`)
    }
    if (outcome === 'cancel_now') {
      await endRemovalTask(ctx, c, task, { status: 'canceled', begun: false })
    }
    await auditCaller(c, caller, task.organizationId, 'task.cancel', ['task', id])
  })
  return getTask(ctx, asReader(caller), id)
}

export async function getTask(ctx: Context, caller: Caller, id: number): Promise<TaskView> {
  const task = await loadTask(ctx.db, caller, id, 'read')
  const [one] = await viewTasks(ctx, ctx.db, [task], true)
  if (!one) throw new Error('unreachable: one task was asked for')
  return one
}

export async function listEnvironmentTasks(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  filter: TaskFilter,
  withSteps: boolean,
): Promise<TaskView[]> {
  await loadEnvironment(ctx.db, caller, environmentId, 'read')
  return viewTasks(ctx, ctx.db, await listTasks(ctx.db, { environmentId }, filter), withSteps)
}

/** Of all its environments, including removed ones. */
export async function listProjectTasks(
  ctx: Context,
  caller: Caller,
  projectId: number,
  filter: TaskFilter,
  withSteps: boolean,
): Promise<TaskView[]> {
  await loadProject(ctx.db, caller, projectId, 'read')
  return viewTasks(ctx, ctx.db, await listTasks(ctx.db, { projectId }, filter), withSteps)
}

async function viewTasks(
  ctx: Context,
  db: Db,
  tasks: ShownTask[],
  withSteps: boolean,
): Promise<TaskView[]> {
  const attempts = await listNewestAttempts(
    db,
    tasks.map((t) => t.id),
  )
  const steps = withSteps
    ? await listSteps(
        db,
        [...attempts.values()].map((a) => a.id),
      )
    : []
  const queued = tasks.filter((t) => t.status === 'queued')
  const waitsForBuild = (t: ShownTask): boolean =>
    t.status === 'running' && attempts.get(t.id)?.waitingFor === 'build'
  const building = tasks.filter(waitsForBuild)
  const serverIds = [...new Set([...queued, ...building].map((t) => t.serverId))]
  const servers = new Map((await listServersById(db, serverIds)).map((s) => [s.id, s]))
  const pausers = await listUserNames(
    db,
    [...servers.values()].flatMap(({ pausedBy }) => pausedBy ?? []),
  )
  const agents = await listServerAgents(db, serverIds)
  const waitingIn = [...new Set(queued.map((t) => t.environmentId))]
  const open = await listOpenTasks(db, waitingIn)
  const acting = await listRunningActions(db, waitingIn)
  const isBusy = queued.some((t) => attempts.get(t.id)?.waitingFor === 'dispatch')
  const places = isBusy ? await positionsInQueue(db, serverIds) : new Map<number, number>()
  return tasks.map((task) => {
    const attempt = attempts.get(task.id)
    const server = servers.get(task.serverId)
    return {
      task,
      attempt,
      steps: steps.filter((s) => s.attemptId === attempt?.id),
      waiting:
        task.status === 'queued' && server
          ? (waitingBehind(task, open.get(task.environmentId)) ??
            waitingBehind(task, acting.get(task.environmentId)) ??
            explainWaiting(ctx, task, attempt, {
              server: { ...server, pauser: pausers.get(server.pausedBy ?? 0) },
              agent: agents.get(server.id),
              position: places.get(task.id),
            }))
          : attempt && server && waitsForBuild(task)
            ? waitingForBuild(task, attempt, server.name)
            : null,
    }
  })
}

async function positionsInQueue(db: Db, serverIds: number[]): Promise<Map<number, number>> {
  const lengths = new Map<number, number>()
  const places = new Map<number, number>()
  for (const { taskId, serverId } of await listBusyLine(db, serverIds)) {
    const place = (lengths.get(serverId) ?? 0) + 1
    lengths.set(serverId, place)
    places.set(taskId, place)
  }
  return places
}

/** An event queued it while another task was in progress, so it waits for that one. */
function waitingBehind(task: ShownTask, open: Task | undefined): Waiting | undefined {
  if (!open || open.id >= task.id) return undefined
  const message = `Task ${open.id} of this environment ends first.`
  const { id: taskId } = open
  const since = task.createdAt
  return { code: 'environment', message, since, deadline: null, taskId, position: null }
}

/** It runs, but its server builds others first. */
function waitingForBuild(task: ShownTask, attempt: ShownAttempt, server: string): Waiting {
  const place = attempt.waitingPlace ?? 1
  const message = `${server} builds other deployments: place ${place} in line for a build slot.`
  const since = attempt.waitingSince ?? task.startedAt ?? task.createdAt
  const position = attempt.waitingPlace
  return { code: 'build_slot', message, since, deadline: null, taskId: null, position }
}

interface WaitingFacts {
  server: Pick<Server, 'name' | 'paused' | 'organizationId'> & { pauser: string | undefined }
  agent: Agent | undefined
  /** In the line of its server. */
  position: number | undefined
}

/** On a shared server, guests do not learn who of its owners did it. */
function describePause(task: ShownTask, { name, pauser, organizationId }: WaitingFacts['server']) {
  const by = pauser && task.organizationId === organizationId ? ` by ${pauser}` : ''
  return `${name} is paused${by}.`
}

/** Why a queued task has not started, as users see it. */
function explainWaiting(
  ctx: Context,
  task: ShownTask,
  attempt: ShownAttempt | undefined,
  { server, agent, position }: WaitingFacts,
): Waiting {
  const base = { since: task.createdAt, deadline: null, taskId: null, position: null }
  if (attempt && attempt.waitingFor === 'environment') {
    const message = 'The attempt before it is being stopped on the server.'
    return { ...base, code: 'environment', message }
  }
  if (hasSession(agent)) {
    if (server.paused) return { ...base, code: 'server', message: describePause(task, server) }
    if (position !== undefined) {
      const message = `${server.name} is busy: place ${position} in line.`
      return { ...base, code: 'dispatch', message, position }
    }
    return { ...base, code: 'dispatch', message: `${server.name} is about to start it.` }
  }
  const since = Math.max(task.createdAt, agent?.disconnectedAt ?? 0)
  if (agent && inStartGrace(ctx)) {
    const message = `Waiting for ${server.name} to reconnect.`
    return { ...base, code: 'server', message, since }
  }
  const deadline = task.type === 'destroy' || attempt ? null : offlineDeadline(ctx, task, agent)
  return { ...base, code: 'server', message: `${server.name} is offline.`, since, deadline }
}

/** Counts only time in which this control plane runs and the server has no session. */
export const offlineDeadline = (
  ctx: Context,
  task: Pick<Task, 'createdAt'>,
  agent: Agent | undefined,
): number =>
  Math.max(task.createdAt, agent?.disconnectedAt ?? 0, ctx.startedAt) + TASKS.serverOfflineMs
