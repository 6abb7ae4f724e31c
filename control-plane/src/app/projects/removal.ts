// Deletes a project: each environment is stopped and removed from its server, and the project is deleted after the last
// one. The removal waits for offline servers; a failed removal is retried by asking again.
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  type Environment,
  listEnvironments,
  lockEnvironment,
} from '../../store/environments/environments.ts'
import { lockProject, type Project, updateProject } from '../../store/projects/projects.ts'
import { loadProject, missing } from '../core/access.ts'
import { auditCaller, byCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'
import { beginRemoval, finishProject } from '../environments/removal.ts'
import { type ProjectView, viewProject } from './views.ts'

interface AskedDeletion {
  confirm?: string | undefined
  /** The protected environments to delete too, each by its identifier or id. */
  confirmProtected: readonly string[]
}

export async function deleteProject(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: AskedDeletion,
): Promise<ProjectView> {
  const before = await viewProject(ctx, await loadProject(ctx.db, caller, id, 'project:write'))
  const { project, left } = await change(ctx, (c) => remove(ctx, c, caller, id, asked))
  return { ...before, project, environmentCount: left }
}

async function remove(
  ctx: Context,
  c: Change,
  caller: Caller,
  id: number,
  asked: AskedDeletion,
): Promise<{ project: Project; left: number }> {
  const project = await lockProject(c.db, id)
  if (!project) throw missing()
  const environments = await holdEnvironments(c, id)
  const waiting = environments.filter((e) => e.removingAt === null)
  if (project.status === 'deleting' && waiting.length === 0) {
    throw new AppError('project_deleting', `${project.name} is being deleted already.`)
  }
  requireConfirmation(project, waiting, asked)
  const { organizationId, name } = project
  await updateProject(c.db, id, { status: 'deleting', updatedAt: c.now })
  await auditCaller(c, caller, organizationId, 'project.delete', ['project', id], {
    name,
    environments: waiting.map((e) => e.identifier),
  })
  emit(c, { organizationId, projectId: id }, 'project.updated', { status: 'deleting' })
  const deleting: Project = { ...project, status: 'deleting', updatedAt: c.now }
  for (const environment of waiting) {
    await beginRemoval(ctx, c, environment, byCaller(caller), { trigger: 'system' })
  }
  const left = await listEnvironments(c.db, id)
  if (environments.length === 0) await finishProject(c, deleting)
  return { project: deleting, left: left.length }
}

/** Locks them, so that an environment that was just protected also needs a confirmation. */
async function holdEnvironments(c: Change, projectId: number): Promise<Environment[]> {
  const held: Environment[] = []
  for (const { id } of await listEnvironments(c.db, projectId)) {
    const environment = await lockEnvironment(c.db, id)
    if (environment) held.push(environment)
  }
  return held
}

function requireConfirmation(
  project: Project,
  environments: Environment[],
  asked: AskedDeletion,
): void {
  const guarded = environments.filter((e) => e.protected)
  const isConfirmed = ({ id, identifier }: Environment): boolean =>
    asked.confirmProtected.some((word) => word === identifier || word === String(id))
  if (asked.confirm === project.name && guarded.every(isConfirmed)) return
  const names = guarded.map((e) => e.identifier).join(',')
  const also =
    names === '' ? '' : `, and name its protected environments: confirm_protected=${names}`
  throw new AppError(
    'confirmation_required',
    `Deleting ${project.name} removes ${environments.length} environments from their servers. ` +
      `Confirm with the project's name: confirm=${project.name}${also}.`,
    {
      confirm: project.name,
      protected_environments: guarded.map(({ id, identifier }) => ({ id, identifier })),
    },
  )
}
