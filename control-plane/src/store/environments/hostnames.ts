// Finds hostnames in use: base domains of projects, addresses of environments, names of servers.
import { sql } from 'kysely'
import { parentDomains } from '../../domain/environments/hostnames.ts'
import type { Db } from '../engine/db.ts'

/** Serializes claims of names, because a unique key cannot detect overlap. */
export async function holdDomains(db: Db): Promise<void> {
  await db
    .updateTable('installation')
    .set((e) => ({ createdAt: e.ref('createdAt') }))
    .execute()
}

const below = (domain: string) => `%.${domain}` // hostnames contain neither % nor _

/** Lists projects whose domain equals this one, contains it or is below it. */
export const listOverlappingProjects = (
  db: Db,
  domain: string,
): Promise<{ id: number; organizationId: number; name: string; domain: string }[]> =>
  db
    .selectFrom('projects')
    .select(['id', 'organizationId', 'name', 'domain'])
    .where('removedAt', 'is', null)
    .where((e) =>
      e.or([
        e('domain', 'in', [domain, ...parentDomains(domain)]),
        e('domain', 'like', below(domain)),
      ]),
    )
    .execute()

/** Lists environments whose name equals this one or is below it. */
export const listEnvironmentsBelow = (
  db: Db,
  domain: string,
): Promise<{ id: number; organizationId: number; domain: string }[]> =>
  db
    .selectFrom('environments')
    .select(['id', 'organizationId', 'domain'])
    .where('removedAt', 'is', null)
    .where((e) => e.or([e('domain', '=', domain), e('domain', 'like', below(domain))]))
    .execute()

export const findServerByName = (
  db: Db,
  host: string,
): Promise<{ name: string; organizationId: number } | undefined> =>
  db
    .selectFrom('servers')
    .select(['name', 'organizationId'])
    .where(sql<string>`lower(hostname)`, '=', host)
    .where('removedAt', 'is', null)
    .executeTakeFirst()

/** The names of a project's environments: their own domains, and those that their services claim. */
export async function listProjectHosts(db: Db, projectId: number, limit: number) {
  const columns = [
    'environments.id as environmentId',
    'environments.identifier',
    'servers.id as serverId',
    'servers.name as serverName',
    'servers.hostname as serverHostname',
  ] as const
  const own = await db
    .selectFrom('environments')
    .innerJoin('servers', 'servers.id', 'environments.serverId')
    .select('environments.domain as host')
    .select(columns)
    .where('environments.projectId', '=', projectId)
    .where('environments.removedAt', 'is', null)
    .orderBy('environments.id')
    .limit(limit)
    .execute()
  const claimed = await db
    .selectFrom('hosts')
    .innerJoin('environments', 'environments.id', 'hosts.environmentId')
    .innerJoin('servers', 'servers.id', 'environments.serverId')
    .select('hosts.host')
    .select(columns)
    .where('environments.projectId', '=', projectId)
    .where('environments.removedAt', 'is', null)
    .orderBy('hosts.host')
    .limit(limit)
    .execute()
  const known = new Set(own.map(({ host }) => host))
  return [...own, ...claimed.filter(({ host }) => !known.has(host))].slice(0, limit)
}
