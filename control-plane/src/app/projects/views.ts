// The views of projects: their servers, their number of environments, their owners.
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type ForgeSetup, findSetup } from '../../store/forges/connections.ts'
import { listUserNames } from '../../store/people/people.ts'
import {
  countEnvironments,
  listProjectServers,
  listProjects,
  type Project,
  type ProjectPage,
  type ProjectSummary,
} from '../../store/projects/projects.ts'
import { loadProject, readableOrganizations } from '../core/access.ts'

export interface Listed<P extends ProjectSummary = ProjectSummary> {
  project: P
  servers: { id: number; name: string; hostname: string }[]
  environmentCount: number
}

export interface ProjectView extends Listed<Project> {
  ownerName: string
  /** Null if it is not connected to a forge. */
  forgeSetup: ForgeSetup | null
}

async function withServers<P extends ProjectSummary>(
  ctx: Context,
  projects: P[],
): Promise<Listed<P>[]> {
  const ids = projects.map((p) => p.id)
  const servers = await listProjectServers(ctx.db, ids)
  const counts = await countEnvironments(ctx.db, ids)
  return projects.map((project) => ({
    project,
    servers: servers.get(project.id) ?? [],
    environmentCount: counts.get(project.id) ?? 0,
  }))
}

export async function viewProject(ctx: Context, project: Project): Promise<ProjectView> {
  const [one] = await withServers(ctx, [project])
  if (!one) throw new Error('unreachable: one project was asked for')
  const owners = await listUserNames(ctx.db, [project.ownerId])
  const forgeSetup = (await findSetup(ctx.db, project.id)) ?? null
  return { ...one, ownerName: owners.get(project.ownerId) ?? '', forgeSetup }
}

export async function listVisibleProjects(
  ctx: Context,
  caller: Caller,
  page: ProjectPage,
): Promise<Listed[]> {
  return withServers(ctx, await listProjects(ctx.db, readableOrganizations(caller), page))
}

export const getProject = async (ctx: Context, caller: Caller, id: number): Promise<ProjectView> =>
  viewProject(ctx, await loadProject(ctx.db, caller, id, 'read'))
