// Environments that people create: settings, variables, Basic Auth, the limit and, on request, the first deployment in
// one transaction. A refused request leaves no rows.
import { AppError, invalidFields, type Trigger } from '@berth/shared'
import type { EnvironmentCreate } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { defaultDomain, RESERVED_IDENTIFIER } from '../../domain/environments/environment.ts'
import {
  checkValues,
  limitProblems,
  sizesOf,
  type Values,
} from '../../domain/environments/variables.ts'
import { branchProblem } from '../../domain/forges/repository.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import {
  insertEnvironment,
  listEnvironments,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import { upsertVariables } from '../../store/environments/variables.ts'
import {
  countEnvironments,
  listProjectServers,
  lockProject,
  type Project,
  touchProject,
} from '../../store/projects/projects.ts'
import { asReader, loadProject, requirePermission } from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { holdServerOf } from '../core/locks.ts'
import { change, emit } from '../core/transaction.ts'
import { queueDeployment } from '../deployments/deployments.ts'
import { getTask, type TaskView } from '../deployments/tasks.ts'
import { authColumns, type HashedAuth, hashAuth } from '../projects/basic-auth.ts'
import { claimEnvironmentDomain } from './hostnames.ts'
import { inEnvironment, sealVariables } from './sealed-variables.ts'
import { mergedProblems } from './variables.ts'
import { type EnvironmentView, getEnvironment } from './views.ts'

interface Created {
  view: EnvironmentView
  /** The first deployment, if it was requested. */
  task: TaskView | null
}

export async function createEnvironment(
  ctx: Context,
  caller: Caller,
  projectId: number,
  asked: EnvironmentCreate,
  trigger: Trigger,
): Promise<Created> {
  const project = await loadProject(ctx.db, caller, projectId, 'environment:write')
  if (asked.deploy) requirePermission(caller, project.organizationId, 'deploy')
  const { serverId, values } = await checkEnvironment(ctx, project, asked)
  const auth = await hashAuth(asked.basic_auth ?? { mode: 'inherit' })
  const made = await change(ctx, async (c) => {
    await touchProject(c.db, projectId, c.now)
    const current = await lockProject(c.db, projectId)
    if (!current) throw new AppError('not_found', 'It was just removed.')
    if (current.status === 'deleting') {
      throw new AppError('project_deleting', `${current.name} is being deleted.`)
    }
    await requireBelowLimit(c, current)
    if (!(await holdServerOf(c, current, serverId))) {
      const servers = (await listProjectServers(c.db, [projectId])).get(projectId) ?? []
      throw invalidFields([notInProject(current.name, servers)])
    }
    const id = await insertWhole(ctx, c, caller, current, asked, { serverId, values, auth })
    const taskId = asked.deploy ? await queueDeployment(ctx, c, caller, id, {}, trigger) : null
    return { id, taskId }
  }).catch(async (error: unknown) => {
    if (!isUniqueViolation(error)) throw error
    const [same] = await listEnvironments(ctx.db, projectId, { identifier: asked.identifier })
    throw same
      ? new AppError('identifier_taken', `${project.name} has an environment ${asked.identifier}.`)
      : new AppError('domain_in_use', `The domain belongs to another environment.`)
  })
  const reader = asReader(caller)
  return {
    view: await getEnvironment(ctx, reader, made.id),
    task: made.taskId === null ? null : await getTask(ctx, reader, made.taskId),
  }
}

interface Prepared {
  serverId: number
  values: Values
  auth: HashedAuth
}

async function insertWhole(
  ctx: Context,
  c: Change,
  caller: Caller,
  project: Project,
  asked: EnvironmentCreate,
  { serverId, values, auth }: Prepared,
): Promise<number> {
  const { organizationId } = project
  const { identifier, branch } = asked
  const domain = asked.domain ?? defaultDomain(identifier, project.domain)
  const [same] = await listEnvironments(c.db, project.id, { identifier })
  if (same) {
    throw new AppError('identifier_taken', `${project.name} has an environment ${identifier}.`)
  }
  await claimEnvironmentDomain(ctx, c, project, null, domain)
  const id = await insertEnvironment(c.db, {
    organizationId,
    projectId: project.id,
    identifier,
    title: asked.title ?? identifier,
    type: 'manual',
    recipe: asked.recipe ?? null,
    branch,
    domain,
    serverId,
    ownerId: caller.userId,
    protected: asked.protected ? 1 : 0,
    sticky: asked.sticky ? 1 : 0,
    autoDeploy: (asked.auto_deploy ?? project.autoDeploy === 1) ? 1 : 0,
    basicAuthMode: auth.mode,
    createdAt: c.now,
    updatedAt: c.now,
  })
  const made = { id, organizationId }
  if (auth.mode === 'own') {
    await updateEnvironment(c.db, id, authColumns(ctx, 'environments', made, auth))
  }
  const reached = { projectId: project.id, type: 'manual', fromFork: false, identifier } as const
  const after = sizesOf(values)
  const tooMuch = await mergedProblems(c.db, reached, { after }, 'variables')
  if (tooMuch.length > 0) throw invalidFields(tooMuch)
  const sealed = await sealVariables(ctx, c, inEnvironment(made), values)
  const by = { userId: caller.userId, now: c.now, revision: 0 }
  await upsertVariables(c.db, id, sealed, by)
  const details = { identifier, branch, basic_auth: auth.mode, keys: sealed.map((v) => v.key) }
  const subject: Subject = ['environment', id]
  await auditCaller(c, caller, organizationId, 'environment.create', subject, details)
  const about = { organizationId, projectId: project.id, environmentId: id }
  emit(c, about, 'environment.created', { identifier })
  return id
}

/** Environments count until their removal ends. */
async function requireBelowLimit(c: Change, project: Project): Promise<void> {
  const used = (await countEnvironments(c.db, [project.id])).get(project.id) ?? 0
  const limit = project.environmentLimit
  if (used < limit) return
  throw new AppError(
    'environment_limit_reached',
    `The project uses ${used} of ${limit} environments. Delete one, or ask a platform administrator for more.`,
    { limit, used },
  )
}

async function checkEnvironment(
  ctx: Context,
  project: Project,
  asked: EnvironmentCreate,
): Promise<{ serverId: number; values: Values }> {
  const { values, problems } = checkValues(asked.variables ?? {}, 'variables')
  problems.push(...limitProblems(sizesOf(values), 'variables'))
  const branch = branchProblem(asked.branch, 'branch')
  if (branch) problems.push(branch)
  if (RESERVED_IDENTIFIER.test(asked.identifier)) {
    problems.push({
      field: 'identifier',
      code: 'reserved_identifier',
      message: `${asked.identifier} is kept for a pull request. Choose another identifier.`,
    })
  }
  const servers = (await listProjectServers(ctx.db, [project.id])).get(project.id) ?? []
  const serverId = asked.server_id ?? project.defaultServerId ?? servers[0]?.id
  if (serverId === undefined) {
    throw new AppError('project_not_ready', `${project.name} has no server.`)
  }
  if (!servers.some((s) => s.id === serverId)) problems.push(notInProject(project.name, servers))
  if (problems.length > 0) throw invalidFields(problems)
  return { serverId, values }
}

export const notInProject = (project: string, servers: { name: string }[]) => ({
  field: 'server_id',
  code: 'server_not_in_project',
  message: `The server is not one of ${project}: ${servers.map((s) => s.name).join(', ')}.`,
})
