// Requests for a deployment or a reset: by a user through any gateway, or at creation of the environment. The
// environment is locked first, so that the decision about its lock, protection and removal stays true until the commit.
import { AppError, type Trigger } from '@berth/shared'
import type { TaskCreate } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { toUtc } from '../../domain/core/utc.ts'
import {
  type DeploymentDecision,
  decideDeployment,
  type OpenTask,
  triggerWords,
} from '../../domain/deployments/deployment.ts'
import { pinFor } from '../../domain/deployments/pinning.ts'
import { findOpenTask, type Task } from '../../store/deployments/tasks.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import { type Environment, lockEnvironment } from '../../store/environments/environments.ts'
import { findPullRequest, isApproved, listApprovals } from '../../store/forges/pull-requests.ts'
import { listUserNames } from '../../store/people/people.ts'
import { findProject } from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { findServer, type Server } from '../../store/servers/servers.ts'
import {
  asReader,
  environmentProtected,
  loadEnvironment,
  requirePermission,
} from '../core/access.ts'
import { byCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { resolveCommit } from './commits.ts'
import { queueTask } from './queue.ts'
import { getTask, type TaskView } from './tasks.ts'

export const inProgress = (ctx: Context, identifier: string, task: OpenTask): AppError =>
  new AppError(
    'deployment_in_progress',
    `Environment ${identifier} already has task ${task.id} ${task.status} ` +
      `(started by ${triggerWords(task.trigger)}). Wait for it or cancel it.`,
    {
      task_id: task.id,
      task_status: task.status,
      task_url: `${ctx.baseUrl}/tasks/${task.id}`,
      trigger: task.trigger,
      started_at: task.startedAt === null ? null : toUtc(task.startedAt),
    },
  )

export const toOpenTask = (task: Task): OpenTask => ({
  id: task.id,
  status: task.status,
  trigger: task.triggerBy,
  startedAt: task.startedAt,
  createdAt: task.createdAt,
})

export const serverNotReady = (server: Server): AppError =>
  new AppError(
    'server_not_ready',
    `No agent ever joined from ${server.name}. Make a join token and run the command on it: berth server join-token ${server.name}.`,
    { server: { id: server.id, name: server.name } },
  )

/** Refusals that apply to everything that users start in an environment. */
export function assertDeployable(
  decision: { kind: 'protected'; owner: string } | { kind: 'removing' | 'project_deleting' },
  environment: Environment,
  project: { name: string },
): AppError {
  switch (decision.kind) {
    case 'protected':
      return environmentProtected(environment, decision.owner)
    case 'removing':
      return new AppError('environment_removing', `${environment.identifier} is being removed.`)
    case 'project_deleting':
      return new AppError('project_deleting', `${project.name} is being deleted.`)
  }
}

interface Asked extends TaskCreate {
  reset?: boolean
}

/** The Deploy button, the client and the API: one deployment, or a refusal that says why. */
export async function requestDeployment(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: TaskCreate,
  trigger: Trigger,
): Promise<TaskView> {
  const environment = await loadEnvironment(ctx.db, caller, environmentId, 'deploy')
  const given = asked.commit_sha
  const commit = given ? { commit_sha: await resolveCommit(ctx, environment, given) } : {}
  return startDeployment(ctx, caller, environmentId, { ...asked, ...commit }, trigger)
}

/** Removes the deployed services first; settings and variables stay, and the commit is the last requested one. */
export async function resetEnvironment(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: { confirm?: string | undefined },
  trigger: Trigger,
): Promise<TaskView> {
  const environment = await loadEnvironment(ctx.db, caller, environmentId, 'environment:write')
  requirePermission(caller, environment.organizationId, 'deploy')
  const { identifier } = environment
  if (asked.confirm !== identifier && !environment.protected) {
    throw new AppError(
      'confirmation_required',
      `A reset deletes the data of ${identifier}. Confirm with its identifier.`,
      { confirm: identifier },
    )
  }
  return startDeployment(ctx, caller, environmentId, { reset: true }, trigger)
}

async function startDeployment(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: Asked,
  trigger: Trigger,
): Promise<TaskView> {
  const id = await change(ctx, (c) =>
    queueDeployment(ctx, c, caller, environmentId, asked, trigger),
  ).catch(async (error: unknown) => {
    if (!isUniqueViolation(error)) throw error
    // the index decided after our check: a concurrent request queued its deployment first
    const environment = await loadEnvironment(ctx.db, caller, environmentId, 'deploy')
    const open = await findOpenTask(ctx.db, environmentId)
    if (open) throw inProgress(ctx, environment.identifier, toOpenTask(open))
    throw error
  })
  return getTask(ctx, asReader(caller), id)
}

export async function queueDeployment(
  ctx: Context,
  c: Change,
  caller: Caller,
  environmentId: number,
  asked: Asked,
  trigger: Trigger,
): Promise<number> {
  const environment = await lockEnvironment(c.db, environmentId)
  const project = environment && (await findProject(c.db, environment.projectId))
  const server = environment && (await findServer(c.db, environment.serverId))
  if (!environment || !project || !server) throw new AppError('not_found', 'It was just removed.')
  const agent = await findServerAgent(c.db, server.id)
  const open = await findOpenTask(c.db, environmentId)
  const owners = await listUserNames(c.db, [environment.ownerId])
  const decision = decideDeployment(caller, {
    environment: { ...environment, removing: environment.removingAt !== null },
    ownerName: owners.get(environment.ownerId) ?? 'another user',
    projectDeleting: project.status === 'deleting',
    server: { id: server.id, name: server.name, joined: agent !== undefined },
    openTask: open && toOpenTask(open),
    reset: asked.reset ?? false,
  })
  if (decision.kind !== 'start') throw refusal(ctx, decision, environment, project, server)
  return queueTask(c, environment, project, {
    type: 'deploy',
    by: byCaller(caller),
    trigger,
    sha: await commitFor(c, environment, asked),
    pinnedFrom: pinOf(environment, asked),
    noCache: asked.no_cache ?? false,
    reuseRelease: asked.reuse_release ?? false,
    reset: asked.reset ?? false,
    message: asked.message ?? null,
  })
}

/** A reset deploys the same commit again. */
function pinOf(environment: Environment, asked: Asked): string[] | null {
  if (asked.reset) return environment.pinnedFrom
  return asked.commit_sha ? pinFor(environment, asked.commit_sha) : null
}

/** Null means the branch's head. A fork deploys only approved commits; by default, the approved one. */
async function commitFor(
  c: Change,
  environment: Environment,
  asked: Asked,
): Promise<string | null> {
  const wanted = asked.reset ? environment.targetSha : (asked.commit_sha ?? null)
  const { fromFork, projectId, pullRequestNumber: number, identifier } = environment
  if (!fromFork || number === null) return wanted
  const pull = await findPullRequest(c.db, projectId, number)
  const head = pull?.headSha ?? ''
  const approved = async (sha: string) => isApproved(c.db, projectId, number, sha)
  const newest = (await listApprovals(c.db, projectId, [number])).get(number)?.sha ?? null
  const sha = wanted ?? ((await approved(head)) ? head : newest)
  if (sha !== null && (await approved(sha))) return sha
  throw new AppError(
    'approval_required',
    `${identifier} comes from a fork: a member must approve the commit first.`,
    { head_sha: head },
  )
}

function refusal(
  ctx: Context,
  decision: Exclude<DeploymentDecision, { kind: 'start' }>,
  environment: Environment,
  project: { name: string },
  server: Server,
): AppError {
  const { identifier } = environment
  switch (decision.kind) {
    case 'protected':
    case 'removing':
    case 'project_deleting':
      return assertDeployable(decision, environment, project)
    case 'protection_active':
      return new AppError(
        'protection_active',
        `${identifier} is protected and cannot be reset. Remove protection and save first.`,
        { fields: ['reset'] },
      )
    case 'in_progress':
      return inProgress(ctx, identifier, decision.task)
    case 'server_not_ready':
      return serverNotReady(server)
  }
}
