// Restart, stop and start of an environment or one service, without a deployment: the request, and what its end means
// for what users see. The environment is locked first, so that the decision stays true until the commit.
import { AppError, type LifecycleVerb, type TaskStatus, type Trigger } from '@berth/shared'
import type { LifecycleRequest } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { decideLifecycle, type LifecycleDecision } from '../../domain/deployments/lifecycle.ts'
import {
  observeChange,
  type StopRecord,
  stoppedServices,
} from '../../domain/environments/observation.ts'
import { countQueuedActions } from '../../store/deployments/actions.ts'
import { findOpenTask, type Task } from '../../store/deployments/tasks.ts'
import {
  type Environment,
  lockEnvironment,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import { listUserNames } from '../../store/people/people.ts'
import { findProject, type Project } from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import { asReader, loadEnvironment } from '../core/access.ts'
import { byCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { assertDeployable, inProgress, serverNotReady, toOpenTask } from './deployments.ts'
import { queueTask } from './queue.ts'
import { getTask, type TaskView } from './tasks.ts'

export async function requestLifecycle(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  verb: LifecycleVerb,
  asked: LifecycleRequest,
  trigger: Trigger,
): Promise<TaskView> {
  await loadEnvironment(ctx.db, caller, environmentId, 'deploy')
  const id = await change(ctx, (c) =>
    queueLifecycle(ctx, c, caller, environmentId, verb, asked, trigger),
  )
  return getTask(ctx, asReader(caller), id)
}

/**
 * Locks the environment and checks that a task which works on what is deployed may be queued now; throws a refusal
 * otherwise.
 */
export async function admitTask(
  ctx: Context,
  c: Change,
  caller: Caller,
  environmentId: number,
  service: string | null,
): Promise<{ environment: Environment; project: Project }> {
  const environment = await lockEnvironment(c.db, environmentId)
  const project = environment && (await findProject(c.db, environment.projectId))
  const server = environment && (await findServer(c.db, environment.serverId))
  if (!environment || !project || !server) throw new AppError('not_found', 'It was just removed.')
  const open = await findOpenTask(c.db, environmentId)
  const owners = await listUserNames(c.db, [environment.ownerId])
  const decision = decideLifecycle(caller, {
    environment: {
      protected: environment.protected,
      ownerId: environment.ownerId,
      removing: environment.removingAt !== null,
      isDeployed: environment.deployedFence > 0,
    },
    ownerName: owners.get(environment.ownerId) ?? 'another user',
    projectDeleting: project.status === 'deleting',
    serverJoined: (await findServerAgent(c.db, server.id)) !== undefined,
    openTask: open && toOpenTask(open),
    queued: await countQueuedActions(c.db, environmentId),
    services: environment.services.map(({ name }) => name),
    service,
  })
  if (decision.kind === 'in_progress') throw inProgress(ctx, environment.identifier, decision.task)
  if (decision.kind === 'server_not_ready') throw serverNotReady(server)
  if (decision.kind !== 'start') throw refusal(decision, environment, project, service)
  return { environment, project }
}

async function queueLifecycle(
  ctx: Context,
  c: Change,
  caller: Caller,
  environmentId: number,
  verb: LifecycleVerb,
  asked: LifecycleRequest,
  trigger: Trigger,
): Promise<number> {
  const service = asked.service ?? null
  const { environment, project } = await admitTask(ctx, c, caller, environmentId, service)
  return queueTask(c, environment, project, {
    type: verb,
    service,
    by: byCaller(caller),
    trigger,
    message: asked.message ?? null,
  })
}

type Refused = Exclude<LifecycleDecision, { kind: 'start' | 'in_progress' | 'server_not_ready' }>

function refusal(
  decision: Refused,
  environment: Environment,
  project: { name: string },
  service: string | null,
): AppError {
  const { identifier } = environment
  switch (decision.kind) {
    case 'protected':
    case 'removing':
    case 'project_deleting':
      return assertDeployable(decision, environment, project)
    case 'not_deployed':
      return new AppError(
        'not_deployed',
        `${identifier} was never deployed successfully, so nothing of it runs. Deploy it first.`,
      )
    case 'unknown': {
      const known = environment.services.map(({ name }) => name).join(', ') || 'none'
      const message = `${identifier} has no service '${service}'. It has: ${known}.`
      return new AppError('not_found', message)
    }
    case 'too_many':
      return new AppError(
        'too_many_tasks',
        `${decision.limit} tasks of ${identifier} wait already. Wait for one of them or cancel it.`,
        { limit: decision.limit },
      )
  }
}

/**
 * After its end. The server reports what it sees soon after; until then its success counts. A stop that failed in the
 * middle may have stopped some services, so who asked for it is kept as well.
 */
export async function recordLifecycle(
  c: Change,
  task: Task,
  status: TaskStatus,
  at: number,
): Promise<void> {
  const environment = await lockEnvironment(c.db, task.environmentId)
  if (!environment || environment.deployedFence === 0) return
  const isStop = task.type === 'stop'
  const observed =
    status === 'succeeded'
      ? observeChange(environment, { service: task.service, stopped: isStop })
      : environment.observed
  const isOver = stoppedServices({ ...environment, observed }).length === 0
  const record: StopRecord = { by: task.triggeredBy, at, taskId: task.id }
  const stopped = isStop ? record : isOver && status === 'succeeded' ? null : environment.stopped
  await updateEnvironment(c.db, environment.id, {
    observed: observed && JSON.stringify(observed),
    stopped: stopped && JSON.stringify(stopped),
  })
}
