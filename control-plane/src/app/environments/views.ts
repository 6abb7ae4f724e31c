// The view of environments for a caller: status, lock, protection and what the caller may do right now. Dashboard and
// client show this and derive nothing.
import type { Recipe } from '@berth/shared'
import type { Context } from '../../context.ts'
import { type Caller, mayChangeProtected, permit } from '../../domain/core/access.ts'
import { type EffectiveAuth, effectiveAuth } from '../../domain/environments/basic-auth.ts'
import {
  type EnvironmentStatus,
  effectiveRecipe,
  environmentStatus,
} from '../../domain/environments/environment.ts'
import { degradation, isStopped } from '../../domain/environments/observation.ts'
import { listOpenTasks, type Task } from '../../store/deployments/tasks.ts'
import { type Environment, listEnvironments } from '../../store/environments/environments.ts'
import {
  type EnvironmentPullRequest,
  listEnvironmentPullRequests,
} from '../../store/environments/pull-request.ts'
import { listSurroundings, type Surroundings } from '../../store/environments/surroundings.ts'
import { listWatched } from '../../store/environments/watchers.ts'
import { countEnvironments, type Project } from '../../store/projects/projects.ts'
import { loadEnvironment, loadProject } from '../core/access.ts'

export interface EnvironmentView extends Surroundings {
  environment: Environment
  recipe: Recipe
  status: EnvironmentStatus
  basicAuth: EffectiveAuth
  pullRequest: EnvironmentPullRequest | undefined
  openTask: Task | undefined
  variablesChanged: boolean
  /** The caller asked to be told when it is degraded. */
  watching: boolean
  may: string[]
}

async function view(
  ctx: Context,
  caller: Caller,
  project: Project,
  environments: Environment[],
): Promise<EnvironmentView[]> {
  const { db } = ctx
  const ids = environments.map((e) => e.id)
  const around = await listSurroundings(db, ids)
  const open = await listOpenTasks(db, ids)
  const watched = await listWatched(db, caller.userId, ids)
  const pulls = environments.filter((e) => e.type === 'pull_request').map((e) => e.id)
  const pullRequests = await listEnvironmentPullRequests(db, pulls)
  return environments.map((environment) => {
    const surroundings = around.get(environment.id)
    if (!surroundings) throw new Error(`environment ${environment.id} has no server`)
    const { server, ownerName, lastTask, lastSuccess } = surroundings
    const openTask = open.get(environment.id)
    return {
      environment,
      recipe: effectiveRecipe(environment, project.defaultRecipe),
      status: environmentStatus({
        removing: environment.removingAt !== null,
        locked: openTask !== undefined,
        deployed: environment.deployedFence > 0,
        degradedReason: degradation(environment),
        stopped: isStopped(environment),
        lastTask,
      }),
      server,
      ownerName,
      basicAuth: effectiveAuth(environment, project),
      pullRequest: pullRequests.get(environment.id),
      openTask,
      lastTask,
      lastSuccess,
      variablesChanged: variablesChanged(environment),
      watching: watched.has(environment.id),
      may: mayNow(caller, project, environment, openTask !== undefined),
    }
  })
}

/** Values given at creation are revision 0 and do not count as a change. */
export const variablesChanged = (
  e: Pick<Environment, 'variablesRevision' | 'deployedVariablesRevision'>,
): boolean => e.variablesRevision !== (e.deployedVariablesRevision ?? 0)

function mayNow(
  caller: Caller,
  project: Project,
  environment: Environment,
  locked: boolean,
): string[] {
  if (!mayChangeProtected(caller, environment) || environment.removingAt !== null) return []
  const has = (p: Parameters<typeof permit>[2]) =>
    permit(caller, environment.organizationId, p).kind === 'granted'
  const free = !locked && project.status === 'active'
  const may: string[] = []
  if (has('deploy') && free) may.push('deploy')
  if (has('environment:write')) may.push('edit')
  if (has('environment:write') && !locked) may.push('delete')
  if (has('environment:write') && has('deploy') && free && !environment.protected) may.push('reset')
  if (has('variables:write')) may.push('change_variables')
  if (has('ssh')) may.push('shell')
  if (has('deploy') && free && environment.deployedFence > 0) may.push('act')
  return may
}

interface EnvironmentList {
  environments: EnvironmentView[]
  used: number
  limit: number
}

export async function listProjectEnvironments(
  ctx: Context,
  caller: Caller,
  projectId: number,
  filter: {
    type?: string | undefined
    branch?: string | undefined
    identifier?: string | undefined
  },
): Promise<EnvironmentList> {
  const project = await loadProject(ctx.db, caller, projectId, 'read')
  const rows = await listEnvironments(ctx.db, projectId, filter)
  const isWhole = !filter.type && !filter.branch && !filter.identifier
  const count = async () => (await countEnvironments(ctx.db, [projectId])).get(projectId) ?? 0
  return {
    environments: await view(ctx, caller, project, rows),
    used: isWhole ? rows.length : await count(),
    limit: project.environmentLimit,
  }
}

export async function getEnvironment(
  ctx: Context,
  caller: Caller,
  id: number,
): Promise<EnvironmentView> {
  const environment = await loadEnvironment(ctx.db, caller, id, 'read')
  const project = await loadProject(ctx.db, caller, environment.projectId, 'read')
  const [one] = await view(ctx, caller, project, [environment])
  if (!one) throw new Error('unreachable: one environment was asked for')
  return one
}
