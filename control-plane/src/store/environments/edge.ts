// Stores the revision of each environment's edge settings: desired state that a server applies when it is online.
import type { Db } from '../engine/db.ts'

/** Returns the affected servers; a copy that still serves on a former server is updated too. */
export async function raiseEdgeRevisions(
  db: Db,
  of: { environmentId: number } | { inheritingFrom: number },
): Promise<number[]> {
  let query = db
    .updateTable('environments')
    .set((e) => ({ edgeRevision: e('edgeRevision', '+', 1) }))
    .where('removedAt', 'is', null)
  query =
    'environmentId' in of
      ? query.where('id', '=', of.environmentId)
      : query.where('projectId', '=', of.inheritingFrom).where('basicAuthMode', '=', 'inherit')
  const rows = await query.returning(['serverId', 'formerServerId']).execute()
  const ids = rows.flatMap((row) => [row.serverId, row.formerServerId])
  return [...new Set(ids.filter((id) => id !== null))]
}

export const listEdgeRevisions = (
  db: Db,
  serverId: number,
): Promise<{ id: number; edgeRevision: number }[]> =>
  db
    .selectFrom('environments')
    .select(['id', 'edgeRevision'])
    .where('removedAt', 'is', null)
    .where((e) => e.or([e('serverId', '=', serverId), e('formerServerId', '=', serverId)]))
    .orderBy('id')
    .execute()
