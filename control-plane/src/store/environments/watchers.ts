// Stores who asked to be told when an environment is degraded.
import type { Db } from '../engine/db.ts'

export async function insertWatcher(
  db: Db,
  row: { environmentId: number; userId: number; createdAt: number },
): Promise<void> {
  await db
    .insertInto('environmentWatchers')
    .values(row)
    .onConflict((o) => o.doNothing())
    .execute()
}

export async function deleteWatcher(
  db: Db,
  { environmentId, userId }: { environmentId: number; userId: number },
): Promise<void> {
  await db
    .deleteFrom('environmentWatchers')
    .where('environmentId', '=', environmentId)
    .where('userId', '=', userId)
    .execute()
}

/** Finds which of these environments the user watches. */
export async function listWatched(db: Db, userId: number, ids: number[]): Promise<Set<number>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('environmentWatchers')
    .select('environmentId')
    .where('userId', '=', userId)
    .where('environmentId', 'in', ids)
    .execute()
  return new Set(rows.map((row) => row.environmentId))
}
