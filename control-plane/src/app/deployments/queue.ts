// The one way into the queue: writes the task's row, the environment's references to it, audit and event in the
// caller's transaction. The caller decided that it may be queued; unique indexes guard against concurrent requests.
import { locksEnvironment, type TaskType, type Trigger } from '@berth/shared'
import { effectiveRecipe } from '../../domain/environments/environment.ts'
import { insertTask, updateSuccessor } from '../../store/deployments/tasks.ts'
import { type Environment, rememberTask } from '../../store/environments/environments.ts'
import type { Project } from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { type Actor, actorName, audit } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { agentTopic, emitTask } from '../core/transaction.ts'

interface AskedTask {
  type: TaskType
  /** The name of an action of the last successful deployment. */
  action?: string
  /** A restart, stop or start of one service. */
  service?: string | null
  /** The backup that the task makes or restores. */
  backupId?: number
  by: Actor
  trigger: Trigger
  /** Null means the branch's head. */
  sha?: string | null
  /** Set when a user chose the commit: the known heads of the branch. Absent if the environment follows its branch. */
  pinnedFrom?: string[] | null
  noCache?: boolean
  /** A rollback to a release that the server may have kept. */
  reuseRelease?: boolean
  /** A deployment that first removes the deployed services. */
  reset?: boolean
  /** A removal without the repository's own steps. */
  skipSteps?: boolean
  message?: string | null
  /** The former server, for the removal of the copy left there. */
  formerServerId?: number
}

export async function queueTask(
  c: Change,
  environment: Environment,
  project: Project,
  asked: AskedTask,
): Promise<number> {
  const { by, trigger } = asked
  const sha = asked.sha ?? null
  const task = {
    organizationId: environment.organizationId,
    projectId: environment.projectId,
    environmentId: environment.id,
    serverId: asked.formerServerId ?? environment.serverId,
  }
  const id = await insertTask(c.db, {
    ...task,
    type: asked.type,
    reset: asked.reset ? 1 : 0,
    noCache: asked.noCache ? 1 : 0,
    reuseRelease: asked.reuseRelease ? 1 : 0,
    skipSteps: asked.skipSteps ? 1 : 0,
    formerCopy: asked.formerServerId === undefined ? 0 : 1,
    status: 'queued',
    triggerBy: trigger,
    userId: by.type === 'user' ? by.caller.userId : null,
    requestId: by.type === 'user' ? by.caller.origin.requestId : null,
    triggeredBy: actorName(by),
    message: asked.message ?? null,
    branch: environment.branch,
    recipe: effectiveRecipe(environment, project.defaultRecipe),
    askedSha: sha,
    // everything but a deployment or removal works on the deployed commit
    commitSha: locksEnvironment(asked.type) ? sha : environment.commitSha,
    action: asked.action ?? null,
    service: asked.service ?? null,
    backupId: asked.backupId ?? null,
    deliveryId: by.type === 'webhook' ? by.deliveryId : null,
    createdAt: c.now,
  })
  const deploys = asked.type === 'deploy'
  if (asked.formerServerId === undefined && locksEnvironment(asked.type)) {
    await rememberTask(c.db, environment.id, {
      lastTaskId: id,
      ...(deploys
        ? { pinnedFrom: asked.pinnedFrom ? JSON.stringify(asked.pinnedFrom) : null }
        : {}),
      ...(deploys && sha ? { targetSha: sha } : {}),
    })
  }
  if (deploys) await nameSuccessor(c, environment, id)
  const details = {
    environment_id: environment.id,
    type: asked.type,
    commit_sha: sha,
    trigger,
    ...(asked.action ? { action: asked.action } : {}),
    ...(asked.service ? { service: asked.service } : {}),
    ...(asked.backupId ? { backup_id: asked.backupId } : {}),
  }
  await audit(c, by, task.organizationId, 'task.create', ['task', id], details)
  emitTask(c, { ...task, id }, 'task.queued', { trigger })
  const agent = await findServerAgent(c.db, task.serverId)
  if (agent) c.notify(agentTopic(agent.id))
  return id
}

/** Links a withdrawn task to its successor, even if that comes much later. */
async function nameSuccessor(c: Change, environment: Environment, id: number): Promise<void> {
  const { lastTaskId: former, organizationId, projectId, id: environmentId } = environment
  if (former === null || !(await updateSuccessor(c.db, former, id))) return
  const task = { organizationId, projectId, environmentId, id: former }
  emitTask(c, task, 'task.updated', { superseded_by: id })
}
