// What something new stands on, held until the transaction ends, so that it is not taken away meanwhile: the organization
// of a project or a server, the servers of a project, the server of an environment. Whoever holds several holds them in
// this order: organization, projects, servers; among themselves by number.
import { invalidFields } from '@berth/shared'
import { touchOrganization } from '../../store/people/organizations.ts'
import { listProjectServers, lockProject, type Project } from '../../store/projects/projects.ts'
import { listServerProjects, lockServer, type Server } from '../../store/servers/servers.ts'
import { missing } from './access.ts'
import type { Change } from './change.ts'

export async function holdOrganization(c: Change, id: number): Promise<void> {
  if (!(await touchOrganization(c.db, id))) throw missing()
}

/** Servers a project is to have; one that was removed in this moment is told as one that never was. */
export async function holdServers(c: Change, ids: readonly number[]): Promise<void> {
  for (const id of ids.toSorted((a, b) => a - b)) {
    if (await lockServer(c.db, id)) continue
    const message = 'A server of the list does not exist in this organization.'
    throw invalidFields([{ field: 'server_ids', code: 'not_found', message }])
  }
}

/** The server an environment is put on; false: the project has it no longer. */
export async function holdServerOf(c: Change, project: Project, id: number): Promise<boolean> {
  if (!(await lockServer(c.db, id))) return false
  const servers = (await listProjectServers(c.db, [project.id])).get(project.id) ?? []
  return servers.some((server) => server.id === id)
}

/** A server that is to be removed, after the projects that name it: nobody puts anything on it now. */
export async function holdServer(c: Change, id: number): Promise<Server> {
  for (const projectId of await listServerProjects(c.db, id)) await lockProject(c.db, projectId)
  const server = await lockServer(c.db, id)
  if (!server) throw missing()
  // those that took it on since the first look: their transactions are over, or this one begins anew
  for (const projectId of await listServerProjects(c.db, id)) await lockProject(c.db, projectId)
  return server
}
