// Stores the hostnames that environments claim besides their own domain. A key gives each name one owner.
import type { Db } from '../engine/db.ts'

interface HostHolder {
  environmentId: number
  organizationId: number
  identifier: string
  project: string
}

const HOLDER = [
  'environments.id as environmentId',
  'environments.organizationId',
  'environments.identifier',
  'projects.name as project',
] as const

/** Finds the environment that has the name as its domain or claims it. */
export async function findHostHolder(db: Db, host: string): Promise<HostHolder | undefined> {
  const own = await db
    .selectFrom('environments')
    .innerJoin('projects', 'projects.id', 'environments.projectId')
    .select(HOLDER)
    .where('environments.domain', '=', host)
    .where('environments.removedAt', 'is', null)
    .executeTakeFirst()
  return own ?? findClaimHolder(db, host)
}

export const findClaimHolder = (db: Db, host: string): Promise<HostHolder | undefined> =>
  db
    .selectFrom('hosts')
    .innerJoin('environments', 'environments.id', 'hosts.environmentId')
    .innerJoin('projects', 'projects.id', 'environments.projectId')
    .select(HOLDER)
    .where('hosts.host', '=', host)
    .executeTakeFirst()

/** Lists claimed names that equal this one or are below it. */
export const listClaimsBelow = (db: Db, domain: string): Promise<{ organizationId: number }[]> =>
  db
    .selectFrom('hosts')
    .innerJoin('environments', 'environments.id', 'hosts.environmentId')
    .select('environments.organizationId')
    .where((e) => e.or([e('hosts.host', '=', domain), e('hosts.host', 'like', `%.${domain}`)]))
    .execute()

/** Returns false if the name is already claimed, possibly by the environment itself. */
export async function insertHost(
  db: Db,
  row: { host: string; environmentId: number; fence: number; claimedAt: number },
): Promise<boolean> {
  const result = await db
    .insertInto('hosts')
    .values(row)
    .onConflict((conflict) => conflict.column('host').doNothing())
    .executeTakeFirst()
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n
}

export async function listHeldHosts(db: Db, environmentId: number): Promise<string[]> {
  const rows = await db
    .selectFrom('hosts')
    .select('host')
    .where('environmentId', '=', environmentId)
    .orderBy('host')
    .execute()
  return rows.map(({ host }) => host)
}

export async function deleteHosts(db: Db, environmentId: number, hosts: string[]): Promise<void> {
  if (hosts.length === 0) return
  await db
    .deleteFrom('hosts')
    .where('environmentId', '=', environmentId)
    .where('host', 'in', hosts)
    .execute()
}
