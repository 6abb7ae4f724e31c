// Settings of a project: who may change which of them, and what has to follow (servers still in use, addresses of
// environments, the owner of pull requests' environments). Only platform administrators set the environment limit.
import { AppError, changeCeilings, invalidFields } from '@berth/shared'
import type { ProjectPatch } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { type Caller, isWithin, SCOPE_OF } from '../../domain/core/access.ts'
import { defaultDomain } from '../../domain/environments/environment.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import {
  listEnvironments,
  lockEnvironment,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import { askForInstall } from '../../store/forges/connections.ts'
import { deleteEndedPullRequests } from '../../store/forges/pull-requests.ts'
import { findMember } from '../../store/people/organizations.ts'
import {
  countEnvironments,
  findProject,
  listProjectServers,
  lockProject,
  type Project,
  replaceProjectServers,
  updateProject,
} from '../../store/projects/projects.ts'
import { asReader, loadOwnedProject, loadProject, missing } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { holdServers } from '../core/locks.ts'
import { change, emit } from '../core/transaction.ts'
import {
  claimEnvironmentDomain,
  claimProjectDomain,
  keepFormerDomain,
} from '../environments/hostnames.ts'
import { placeFreed } from '../environments/removal.ts'
import { endShellsOfOthers } from '../ssh/revocation.ts'
import { defaultServerProblem, projectColumns, projectProblems } from './columns.ts'
import { requireFreeName } from './projects.ts'
import { getProject, type ProjectView } from './views.ts'

export async function changeProject(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: ProjectPatch,
): Promise<ProjectView> {
  const before = await loadProject(ctx.db, caller, id, 'project:write')
  if (asked.owner_id !== undefined && asked.owner_id !== before.ownerId) {
    await loadOwnedProject(ctx.db, caller, id)
  }
  await change(ctx, (c) => applySettings(ctx, c, caller, id, asked)).catch((error: unknown) => {
    if (!isUniqueViolation(error)) throw error
    throw new AppError('domain_in_use', 'The name or the domain was just taken.')
  })
  return getProject(ctx, asReader(caller), id)
}

async function applySettings(
  ctx: Context,
  c: Change,
  caller: Caller,
  id: number,
  asked: ProjectPatch,
): Promise<void> {
  const project = await lockProject(c.db, id)
  if (!project) throw missing()
  if (project.status === 'deleting') {
    throw new AppError('project_deleting', `${project.name} is being deleted.`)
  }
  const { organizationId } = project
  const problems = await projectProblems(ctx, c.db, organizationId, asked)
  if (asked.owner_id !== undefined) {
    const member = await findMember(c.db, organizationId, asked.owner_id)
    if (!member || member.role === 'viewer') {
      const message = 'The owner must be a member of the organization who may deploy.'
      problems.push({ field: 'owner_id', code: 'invalid_owner', message })
    }
  }
  const columns = projectColumns(asked)
  const servers = await chooseServers(c, project, asked)
  if (servers.problem) problems.push(servers.problem)
  if (problems.length > 0) throw invalidFields(problems)
  if (asked.name !== undefined) await requireFreeName(c.db, organizationId, asked.name, id)
  if (asked.domain !== undefined && asked.domain !== project.domain) {
    await claimProjectDomain(c, project, asked.domain)
  }
  if (asked.server_ids !== undefined) {
    await holdServers(c, organizationId, servers.ids)
    await replaceProjectServers(c.db, id, servers.ids)
  }
  const moved = asked.repo_url !== undefined && asked.repo_url !== project.repoUrl
  await updateProject(c.db, id, {
    ...columns,
    // the next delivery says which repository that is
    ...(moved ? { provider: null, externalId: null, renamedTo: null } : {}),
    ...(asked.limits ? { ceilings: changeCeilings(project.ceilings, asked.limits) } : {}),
    defaultServerId: servers.defaultId,
    updatedAt: c.now,
  })
  // another repository numbers its pull requests from 1 again, so the ended ones must not match
  if (moved) {
    await deleteEndedPullRequests(c.db, id)
    await askForInstall(c.db, id, c.now)
  }
  await follow(ctx, c, project, asked)
  await placeFreed(ctx, c, project) // a waiting pull request may get another server now
  const fields = Object.keys(asked)
  await auditCaller(c, caller, organizationId, 'project.update', ['project', id], {
    name: project.name,
    changes: asked,
  })
  emit(c, { organizationId, projectId: id }, 'project.updated', { changed: fields })
}

/** Returns the new list of servers. A server that still holds environments of the project stays. */
async function chooseServers(c: Change, project: Project, asked: ProjectPatch) {
  const now = (await listProjectServers(c.db, [project.id])).get(project.id) ?? []
  const ids = asked.server_ids === undefined ? now.map((s) => s.id) : [...new Set(asked.server_ids)]
  const leaving = now.filter((s) => !ids.includes(s.id))
  if (leaving.length > 0) {
    const environments = await listEnvironments(c.db, project.id)
    const held = environments.filter((e) =>
      leaving.some((s) => s.id === e.serverId || s.id === e.formerServerId),
    )
    if (held.length > 0) {
      throw new AppError(
        'server_in_use',
        `${leaving.map((s) => s.name).join(', ')} still holds environments: ${held.map((e) => e.identifier).join(', ')}. Move or delete them first.`,
        { environments: held.map(({ id, identifier }) => ({ id, identifier })) },
      )
    }
  }
  const wanted = asked.default_server_id
  if (wanted !== undefined) {
    return { ids, defaultId: wanted, problem: defaultServerProblem(ids, wanted) }
  }
  const kept = project.defaultServerId !== null && ids.includes(project.defaultServerId)
  const defaultId = kept ? project.defaultServerId : (ids[0] ?? null)
  return { ids, defaultId, problem: undefined }
}

/** Moves unprotected environments at their default address, and sets the new owner of pull requests' environments. */
async function follow(
  ctx: Context,
  c: Change,
  project: Project,
  asked: ProjectPatch,
): Promise<void> {
  const moves = asked.domain !== undefined && asked.domain !== project.domain
  const gives = asked.owner_id !== undefined && asked.owner_id !== project.ownerId
  if (!moves && !gives) return
  for (const { id, identifier } of await listEnvironments(c.db, project.id)) {
    const environment = await lockEnvironment(c.db, id) // protection counts from its commit on
    if (!environment) continue
    const atDefault = environment.domain === defaultDomain(identifier, project.domain)
    if (moves && asked.domain && atDefault && !environment.protected) {
      const domain = defaultDomain(identifier, asked.domain)
      await claimEnvironmentDomain(ctx, c, { ...project, domain: asked.domain }, id, domain)
      await keepFormerDomain(c, environment)
      await updateEnvironment(c.db, id, { domain, updatedAt: c.now })
    }
    const owned = environment.type === 'pull_request' && environment.ownerId === project.ownerId
    if (gives && asked.owner_id && owned) {
      await updateEnvironment(c.db, id, { ownerId: asked.owner_id, updatedAt: c.now })
      if (environment.protected) await endShellsOfOthers(c, { id, ownerId: asked.owner_id })
    }
  }
}

/** For platform administrators, members or not: they see the number and nothing else of the project. */
export async function setEnvironmentLimit(
  ctx: Context,
  caller: Caller,
  id: number,
  limit: number,
): Promise<{ limit: number; used: number }> {
  if (!caller.isPlatformAdmin) {
    await loadProject(ctx.db, caller, id, 'read')
    throw new AppError(
      'platform_admin_only',
      'Only a platform administrator can change how many environments a project may have.',
    )
  }
  const required_scope = SCOPE_OF['project:write']
  if (!caller.scopes.includes(required_scope)) {
    const message = `This token lacks the scope "${required_scope}". Make one that has it.`
    throw new AppError('insufficient_scope', message, { required_scope })
  }
  const found = await findProject(ctx.db, id)
  // a token's organization and the header limit an administrator like every caller
  if (!found || !isWithin(caller, found.organizationId)) throw missing()
  return change(ctx, async (c) => {
    const project = await lockProject(c.db, id)
    if (!project) throw missing()
    const { organizationId, environmentLimit: from } = project
    await updateProject(c.db, id, { environmentLimit: limit, updatedAt: c.now })
    const details = { from, to: limit }
    const subject: [string, number] = ['project', id]
    await auditCaller(c, caller, organizationId, 'project.environment_limit', subject, details)
    emit(c, { organizationId, projectId: id }, 'project.updated', { environment_limit: limit })
    await placeFreed(ctx, c, project)
    return { limit, used: (await countEnvironments(c.db, [id])).get(id) ?? 0 }
  })
}
