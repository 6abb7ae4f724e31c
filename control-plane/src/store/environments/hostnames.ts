// Host names in use: base domains of projects, addresses of environments, names of servers.
import { sql } from 'kysely'
import { parentDomains } from '../../domain/environments/hostnames.ts'
import type { Db } from '../engine/db.ts'

/** Overlap is no unique key: whoever claims a name does so one after the other. */
export async function holdDomains(db: Db): Promise<void> {
  await db
    .updateTable('installation')
    .set((e) => ({ createdAt: e.ref('createdAt') }))
    .execute()
}

const below = (domain: string) => `%.${domain}` // host names hold neither % nor _

/** Projects whose domain is this one, above it or below it. */
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

/** Environments at or below a name. */
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
