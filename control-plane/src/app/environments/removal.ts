// Removes an environment: queued tasks are canceled, running ones are asked to stop, its server destroys it, and then
// the row is closed. Nothing waits in memory: the destroy task is the queue, so a restart or a server that is offline
// for weeks changes nothing. A failed removal keeps the environment, with the reason, for a retry.
import { AppError, type Trigger } from '@berth/shared'
import type { Context } from '../../context.ts'
import {
  listUnfinishedTasks,
  moveTask,
  type Task,
  updateTask,
  wasSentTo,
} from '../../store/deployments/tasks.ts'
import { markServerBackupsRemoved } from '../../store/environments/backups.ts'
import {
  type Environment,
  lockEnvironment,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import { closeEnvironment, closeProject } from '../../store/environments/removal.ts'
import {
  countEnvironments,
  findProject,
  lockProject,
  type Project,
} from '../../store/projects/projects.ts'
import { findServer } from '../../store/servers/servers.ts'
import { type Actor, actorName, audit, BERTH } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { emit, emitEnvironment, emitTask } from '../core/transaction.ts'
import { queueTask } from '../deployments/queue.ts'
import { stopTask } from '../deployments/stopping.ts'
import { admitWaiting } from '../forges/waiting-list.ts'
import { endSshAccess } from '../ssh/revocation.ts'

interface RemovalOptions {
  trigger: Trigger
  /** "Remove anyway": skips the repository's own destroy steps. */
  skipSteps?: boolean
}

/** Queues the destroy task after all other tasks and returns its id. */
export async function beginRemoval(
  ctx: Context,
  c: Change,
  environment: { id: number; identifier: string },
  by: Actor,
  o: RemovalOptions,
): Promise<number> {
  const held = await lockEnvironment(c.db, environment.id)
  const project = held && (await findProject(c.db, held.projectId))
  if (!held || !project) throw new AppError('not_found', 'It was just removed.')
  if (held.removingAt !== null) {
    throw new AppError('environment_removing', `${held.identifier} is being removed already.`)
  }
  await stopTasks(c, held.id, actorName(by))
  await endSshAccess(c, { environmentId: held.id }, 'environment_removed')
  await updateEnvironment(c.db, held.id, {
    removingAt: c.now,
    degradedReason: null,
    updatedAt: c.now,
  })
  const environmentNow = await leaveEmptyServer(c, { ...held, removingAt: c.now })
  const id = await queueTask(c, environmentNow, project, {
    type: 'destroy',
    by,
    trigger: o.trigger,
    skipSteps: o.skipSteps ?? false,
  })
  emitEnvironment(c, held, 'environment.updated', { removing: true, task_id: id })
  if (!(await wasSentTo(c.db, held.id, environmentNow.serverId))) {
    // it never reached its server, which may not even exist, so there is nothing to destroy
    await moveTask(c.db, id, 'succeeded', { startedAt: c.now, finishedAt: c.now })
    const task = { ...held, id, environmentId: held.id }
    emitTask(c, task, 'task.succeeded', {})
    await finishRemoval(ctx, c, held.id)
  }
  return id
}

/** Stops deployments and actions; the removal of a copy on a former server continues. */
async function stopTasks(c: Change, environmentId: number, by: string): Promise<void> {
  for (const task of await listUnfinishedTasks(c.db, environmentId)) {
    if (task.type === 'destroy') continue
    await stopTask(c, task.id, { reason: 'environment_removed', by })
  }
}

/** If it was moved but never deployed on the new server, its only copy is on the former server. */
async function leaveEmptyServer(c: Change, environment: Environment): Promise<Environment> {
  const { id, serverId, formerServerId } = environment
  if (formerServerId === null || (await wasSentTo(c.db, id, serverId))) return environment
  await updateEnvironment(c.db, id, { serverId: formerServerId, formerServerId: null })
  return { ...environment, serverId: formerServerId, formerServerId: null }
}

interface TaskEnd {
  status: 'succeeded' | 'failed' | 'canceled'
  /** Why it failed, in a sentence. */
  message?: string
  /** False if it ended before anything was done on the server. */
  begun?: boolean
}

/** Applies the end of a removal, in the transaction that ends the task; ignores other tasks. */
export async function endRemovalTask(
  ctx: Context,
  c: Change,
  task: Task,
  end: TaskEnd,
): Promise<void> {
  if (task.type !== 'destroy') return
  const environment = await lockEnvironment(c.db, task.environmentId)
  if (!environment) return
  if (task.formerCopy) return finishFormerCopy(c, environment, task, end)
  if (end.status === 'succeeded') return finishRemoval(ctx, c, environment.id)
  const begun = end.begun ?? true
  const failed = `Its removal failed: ${end.message ?? 'no reason was given.'}`
  const canceled = begun ? 'Its removal was canceled before its end.' : environment.degradedReason
  await updateEnvironment(c.db, environment.id, {
    removingAt: null,
    degradedReason: end.status === 'failed' ? failed : canceled,
    updatedAt: c.now,
  })
  emitEnvironment(c, environment, 'environment.updated', { removing: false })
}

async function finishFormerCopy(
  c: Change,
  environment: Environment,
  task: Task,
  end: TaskEnd,
): Promise<void> {
  const server = await findServer(c.db, task.serverId)
  const reason =
    `The copy on ${server?.name ?? 'its former server'} could not be removed: ` +
    `${end.message ?? 'it was canceled.'} It is tried again after the next deployment.`
  if (end.status === 'succeeded') {
    await markServerBackupsRemoved(c.db, environment.id, c.now, task.serverId)
    if (environment.formerServerId !== task.serverId) return
    await updateEnvironment(c.db, environment.id, { formerServerId: null, updatedAt: c.now })
  } else {
    await updateEnvironment(c.db, environment.id, { degradedReason: reason, updatedAt: c.now })
  }
  emitEnvironment(c, environment, 'environment.updated', {})
}

/** After the first success on another server, queues the destruction of the former copy, without a deadline. */
export async function destroyFormerCopy(c: Change, environmentId: number): Promise<void> {
  const environment = await lockEnvironment(c.db, environmentId)
  const project = environment && (await findProject(c.db, environment.projectId))
  if (!environment || !project || environment.removingAt !== null) return
  const { formerServerId } = environment
  if (formerServerId === null) return
  const open = await listUnfinishedTasks(c.db, environmentId)
  if (open.some((task) => task.formerCopy)) return
  if (!(await wasSentTo(c.db, environmentId, formerServerId))) {
    await updateEnvironment(c.db, environmentId, { formerServerId: null })
    return
  }
  const asked = { type: 'destroy', by: BERTH, trigger: 'system', formerServerId } as const
  await queueTask(c, environment, project, asked)
}

/** Its server destroyed it, or was given up: closes the row and deletes all its secrets. */
export async function finishRemoval(
  ctx: Context,
  c: Change,
  environmentId: number,
  o: { forget?: boolean } = {},
): Promise<void> {
  const environment = await lockEnvironment(c.db, environmentId)
  const project = environment && (await findProject(c.db, environment.projectId))
  if (!environment || !project) return
  if (!o.forget && (await followFormerCopy(c, environment, project))) return
  await closeEnvironment(c.db, environmentId, c.now)
  const { identifier } = environment
  const subject: [string, number] = ['environment', environmentId]
  await audit(c, BERTH, environment.organizationId, 'environment.removed', subject, { identifier })
  emitEnvironment(c, environment, 'environment.removed', { identifier })
  await placeFreed(ctx, c, project)
}

/** If a copy on a former server is left, the removal continues there. True if it does. */
async function followFormerCopy(
  c: Change,
  environment: Environment,
  project: Project,
): Promise<boolean> {
  const open = await listUnfinishedTasks(c.db, environment.id)
  const underWay = open.find((task) => task.formerCopy)
  if (underWay) {
    const former =
      environment.formerServerId === underWay.serverId ? null : environment.formerServerId
    const change = { serverId: underWay.serverId, formerServerId: former }
    await updateEnvironment(c.db, environment.id, change)
    await updateTask(c.db, underWay.id, { formerCopy: 0 })
    return true
  }
  const { formerServerId } = environment
  if (formerServerId === null || !(await wasSentTo(c.db, environment.id, formerServerId))) {
    return false
  }
  const change = { serverId: formerServerId, formerServerId: null }
  await updateEnvironment(c.db, environment.id, change)
  const asked = { type: 'destroy', by: BERTH, trigger: 'system' } as const
  await queueTask(c, { ...environment, ...change }, project, asked)
  return true
}

/**
 * Gives free places of the project to the next pull requests in line, or finishes the project's deletion. Locks the
 * project before counting, so two concurrent removals see each other's effect, and a pull request that joins the line
 * now is either seen here or finds the place.
 */
export async function placeFreed(ctx: Context, c: Change, { id }: { id: number }): Promise<void> {
  const project = await lockProject(c.db, id)
  if (project?.status === 'deleting') await finishProject(c, project)
  else if (project) await admitWaiting(ctx, c, id)
}

/** Closes the project after the last of its environments. */
export async function finishProject(c: Change, project: Project): Promise<void> {
  const left = await countEnvironments(c.db, [project.id])
  if ((left.get(project.id) ?? 0) > 0) return
  await closeProject(c.db, project.id, c.now)
  const { name, organizationId } = project
  await audit(c, BERTH, organizationId, 'project.removed', ['project', project.id], { name })
  emit(c, { organizationId, projectId: project.id }, 'project.removed', { name })
}
