// Locks the parents of a new row until the transaction ends, so they cannot be deleted concurrently: the organization
// of a project or server, the servers of a project, the server of an environment. Lock order: organization, projects,
// servers; within a kind by id.
import { invalidFields } from '@berth/shared'
import { touchOrganization } from '../../store/people/organizations.ts'
import { listProjectServers, lockProject, type Project } from '../../store/projects/projects.ts'
import { listServerProjects, lockServer, type Server } from '../../store/servers/servers.ts'
import { filterUsableServers, missing } from './access.ts'
import type { Change } from './change.ts'

export async function holdOrganization(c: Change, id: number): Promise<void> {
  if (!(await touchOrganization(c.db, id))) throw missing()
}

/**
 * Locks the servers of a project. A server that was removed, or is not shared any more, is reported like one that never
 * existed.
 */
export async function holdServers(
  c: Change,
  organizationId: number,
  ids: readonly number[],
): Promise<void> {
  const held: number[] = []
  for (const id of ids.toSorted((a, b) => a - b)) {
    if (await lockServer(c.db, id)) held.push(id)
  }
  const usable = await filterUsableServers(c.db, organizationId, held)
  if (usable.length < ids.length) {
    const message = 'A server of the list does not exist in this organization.'
    throw invalidFields([{ field: 'server_ids', code: 'not_found', message }])
  }
}

/** Locks the server of an environment; false if the project no longer has it. */
export async function holdServerOf(c: Change, project: Project, id: number): Promise<boolean> {
  if (!(await lockServer(c.db, id))) return false
  const servers = (await listProjectServers(c.db, [project.id])).get(project.id) ?? []
  return servers.some((server) => server.id === id)
}

/** Locks a server for removal, after the projects that use it, so that nothing new is placed on it. */
export async function holdServer(c: Change, id: number): Promise<Server> {
  for (const projectId of await listServerProjects(c.db, id)) await lockProject(c.db, projectId)
  const server = await lockServer(c.db, id)
  if (!server) throw missing()
  // projects that added it since the first read: their transactions have ended, or a deadlock restarts this one
  for (const projectId of await listServerProjects(c.db, id)) await lockProject(c.db, projectId)
  return server
}
