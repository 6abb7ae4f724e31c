// What the last look at each name found. A name may be looked at for several servers.
import type { Db } from '../engine/db.ts'
import type { DomainChecksTable } from '../schema.ts'

export type DomainCheck = DomainChecksTable

export async function listDomainChecks(db: Db, hosts: readonly string[]): Promise<DomainCheck[]> {
  if (hosts.length === 0) return []
  return db.selectFrom('domainChecks').selectAll().where('host', 'in', hosts).execute()
}

/** Keeps the newest results. */
export async function saveDomainChecks(
  db: Db,
  checks: readonly DomainCheck[],
  kept: number,
): Promise<void> {
  if (checks.length === 0) return
  await db
    .insertInto('domainChecks')
    .values([...checks])
    .onConflict((c) =>
      c.columns(['host', 'serverId']).doUpdateSet((e) => ({
        result: e.ref('excluded.result'),
        checkedAt: e.ref('excluded.checkedAt'),
      })),
    )
    .execute()
  const bound = await db
    .selectFrom('domainChecks')
    .select('checkedAt')
    .orderBy('checkedAt', 'desc')
    .limit(1)
    .offset(kept)
    .executeTakeFirst()
  if (bound) await db.deleteFrom('domainChecks').where('checkedAt', '<=', bound.checkedAt).execute()
}
