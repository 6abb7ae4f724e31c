// Settings of an environment. domain/environments/settings.ts decides what protection, a running deployment and the
// kind of the environment allow; the environment's lock keeps that decision valid until the commit.
import { AppError, invalidFields } from '@berth/shared'
import type { EnvironmentPatch } from '@berth/shared/api'
import type { Updateable } from 'kysely'
import type { Context } from '../../context.ts'
import { type Caller, roleIn } from '../../domain/core/access.ts'
import {
  decideSettings,
  moveServer,
  type SettingsDecision,
} from '../../domain/environments/settings.ts'
import { branchProblem } from '../../domain/forges/repository.ts'
import { findOpenTask, wasSentTo } from '../../store/deployments/tasks.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import {
  type Environment,
  lockEnvironment,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import { findMember } from '../../store/people/organizations.ts'
import { listUserNames } from '../../store/people/people.ts'
import { findProject, listProjectServers, type Project } from '../../store/projects/projects.ts'
import type { EnvironmentsTable } from '../../store/schema.ts'
import { asReader, environmentProtected, loadEnvironment } from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { holdServerOf } from '../core/locks.ts'
import { change, emitEnvironment } from '../core/transaction.ts'
import { inProgress, toOpenTask } from '../deployments/deployments.ts'
import { endShellsOfOthers, endSshAccess } from '../ssh/revocation.ts'
import { notInProject } from './environments.ts'
import { claimEnvironmentDomain, keepFormerDomain } from './hostnames.ts'
import { type EnvironmentView, getEnvironment } from './views.ts'

export async function changeEnvironment(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: EnvironmentPatch,
): Promise<EnvironmentView> {
  await loadEnvironment(ctx.db, caller, id, 'environment:write')
  await change(ctx, (c) => applySettings(ctx, c, caller, id, asked)).catch((error: unknown) => {
    if (!isUniqueViolation(error)) throw error
    throw new AppError('domain_in_use', `${asked.domain} belongs to another environment.`)
  })
  return getEnvironment(ctx, asReader(caller), id)
}

async function applySettings(
  ctx: Context,
  c: Change,
  caller: Caller,
  id: number,
  asked: EnvironmentPatch,
): Promise<void> {
  const environment = await lockEnvironment(c.db, id)
  const project = environment && (await findProject(c.db, environment.projectId))
  if (!environment || !project) throw new AppError('not_found', 'It was just removed.')
  const open = await findOpenTask(c.db, id)
  const decision = decideSettings(
    caller,
    {
      environment: { ...environment, removing: environment.removingAt !== null },
      role: roleIn(caller, environment.organizationId) ?? 'viewer',
      openTask: open && toOpenTask(open),
    },
    asked,
  )
  if (decision.kind !== 'change') throw await refusal(ctx, c, decision, environment)
  await checkReferences(c, project, environment, asked)
  if (asked.domain !== undefined && asked.domain !== environment.domain) {
    await claimEnvironmentDomain(ctx, c, project, id, asked.domain)
    await keepFormerDomain(c, environment)
  }
  const columns = await toColumns(c, environment, asked)
  const changed = (Object.keys(columns) as Column[]).filter(
    (key) => comparable(columns[key]) !== comparable(environment[key]),
  )
  await updateEnvironment(c.db, id, { ...columns, updatedAt: c.now })
  await endLostAccess(c, environment, columns)
  const { organizationId, identifier } = environment
  const changes = changed.map((key) => [
    key,
    { from: environment[key], to: reported(columns[key], environment[key]) },
  ])
  const details = { identifier, changes: Object.fromEntries(changes) }
  const subject: Subject = ['environment', id]
  await auditCaller(c, caller, organizationId, 'environment.update', subject, details)
  if (changed.length > 0) emitEnvironment(c, environment, 'environment.updated', { changed })
}

/** Ends access on the server that the environment left; only the owner of a protected environment keeps a shell. */
async function endLostAccess(c: Change, before: Environment, columns: Columns): Promise<void> {
  const { id, serverId } = before
  if (columns.serverId !== undefined && columns.serverId !== serverId) {
    await endSshAccess(c, { environmentId: id, serverId }, 'environment_moved')
  }
  const isProtected = columns.protected ?? Number(before.protected)
  const ownerId = columns.ownerId ?? before.ownerId
  if (isProtected === 1) await endShellsOfOthers(c, { id, ownerId })
}

type Columns = Updateable<EnvironmentsTable>
type Column = keyof Columns & keyof Environment
const comparable = (value: unknown): unknown => (typeof value === 'boolean' ? Number(value) : value)

async function toColumns(
  c: Change,
  environment: Environment,
  asked: EnvironmentPatch,
): Promise<Columns> {
  const flag = (value: boolean) => (value ? 1 : 0)
  const columns: Columns = {
    ...(asked.title === undefined ? {} : { title: asked.title }),
    ...(asked.domain === undefined ? {} : { domain: asked.domain }),
    ...(asked.recipe === undefined ? {} : { recipe: asked.recipe }),
    ...(asked.branch === undefined ? {} : { branch: asked.branch }),
    // the missing branch was the former one; the next read of the repository checks the new one
    ...(asked.branch === undefined || asked.branch === environment.branch
      ? {}
      : { branchMissing: 0 }),
    ...(asked.protected === undefined ? {} : { protected: flag(asked.protected) }),
    ...(asked.sticky === undefined ? {} : { sticky: flag(asked.sticky) }),
    ...(asked.auto_deploy === undefined ? {} : { autoDeploy: flag(asked.auto_deploy) }),
    ...(asked.owner_id === undefined ? {} : { ownerId: asked.owner_id }),
  }
  if (asked.server_id === undefined) return columns
  const hasCopy = await wasSentTo(c.db, environment.id, environment.serverId)
  const { serverId, formerServerId } = moveServer(environment, asked.server_id, hasCopy)
  return { ...columns, serverId, formerServerId }
}

/** Reports a flag as a boolean, although its column holds a number. */
const reported = (after: unknown, before: unknown): unknown =>
  typeof before === 'boolean' ? after === 1 : after

/** Checks that the named server, owner and branch exist here and are allowed. */
async function checkReferences(
  c: Change,
  project: Project,
  environment: Environment,
  asked: EnvironmentPatch,
): Promise<void> {
  const problems = []
  if (asked.branch !== undefined) problems.push(branchProblem(asked.branch, 'branch'))
  if (asked.server_id !== undefined && asked.server_id !== environment.serverId) {
    if (!(await holdServerOf(c, project, asked.server_id))) {
      const servers = (await listProjectServers(c.db, [project.id])).get(project.id) ?? []
      problems.push(notInProject(project.name, servers))
    }
  }
  if (asked.owner_id !== undefined) {
    const member = await findMember(c.db, environment.organizationId, asked.owner_id)
    if (!member || member.role === 'viewer') {
      const message = 'The owner must be a member of the organization who may deploy.'
      problems.push({ field: 'owner_id', code: 'invalid_owner', message })
    }
  }
  const found = problems.filter((p) => p !== undefined)
  if (found.length > 0) throw invalidFields(found)
}

async function refusal(
  ctx: Context,
  c: Change,
  decision: Exclude<SettingsDecision, { kind: 'change' }>,
  environment: Environment,
): Promise<AppError> {
  const { identifier } = environment
  switch (decision.kind) {
    case 'protected': {
      const names = await listUserNames(c.db, [environment.ownerId])
      return environmentProtected(environment, names.get(environment.ownerId) ?? 'another user')
    }
    case 'removing':
      return new AppError('environment_removing', `${identifier} is being removed.`)
    case 'protection_active':
      return new AppError(
        'protection_active',
        `${identifier} is protected. Remove protection and save first, then change ${decision.fields.join(', ')}.`,
        { fields: decision.fields },
      )
    case 'may_not_protect':
      return new AppError(
        'permission_denied',
        'Only the owner of an environment, or an administrator, can protect it.',
        { required_permission: 'environment_owner' },
      )
    case 'may_not_give_away':
      return new AppError(
        'permission_denied',
        'Only the owner of an environment, or an administrator, can transfer it to another user.',
        { required_permission: 'environment_owner' },
      )
    case 'fixed':
      return invalidFields(
        decision.fields.map((field) => ({
          field,
          code: 'fixed_for_pull_request',
          message: `The ${field} of a pull request's environment cannot be chosen.`,
        })),
      )
    case 'in_progress':
      return inProgress(ctx, identifier, decision.task)
  }
}
