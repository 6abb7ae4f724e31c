// Stores what servers reported about their use of processor, memory and disk: the newest report, and a ring of points
// for charts.
import { USAGE } from '@berth/shared'
import { type Selectable, sql } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { ServerUsageTable, UsagePointsTable } from '../schema.ts'

interface EnvironmentUsage {
  environmentId: number
  diskBytes: number
  memoryBytes: number
  cpuPermille: number
  /** Absent: an agent or a control plane of an earlier version wrote it. */
  services?: { name: string; memoryBytes: number; cpuPermille: number }[]
}

export interface ServerUsage extends Omit<Selectable<ServerUsageTable>, 'environments'> {
  environments: EnvironmentUsage[]
}

export type UsagePoint = Pick<
  Selectable<UsagePointsTable>,
  'at' | 'cpuPermille' | 'memoryUsedBytes' | 'diskUsedBytes'
>

const SPANS = {
  minute: { ms: 60_000, slots: USAGE.minutes },
  hour: { ms: 3_600_000, slots: USAGE.hours },
} as const
type Span = keyof typeof SPANS

export async function putServerUsage(db: Db, usage: ServerUsage): Promise<void> {
  const { serverId, ...rest } = usage
  const row = { ...rest, environments: JSON.stringify(usage.environments) }
  await db
    .insertInto('serverUsage')
    .values({ serverId, ...row })
    .onConflict((c) => c.column('serverId').doUpdateSet(row))
    .execute()
}

/**
 * Writes to the slot of the report's time: averages with earlier samples of that slot, or overwrites the previous
 * round.
 */
export async function putUsagePoint(db: Db, span: Span, usage: ServerUsage): Promise<void> {
  const { ms, slots } = SPANS[span]
  const number = Math.floor(usage.at / ms)
  const { serverId, cpuPermille, memoryUsedBytes, diskUsedBytes } = usage
  const average = (column: string) => sql<number>`case when usage_points.at = excluded.at
    then (${sql.ref(`usagePoints.${column}`)} * usage_points.samples + ${sql.ref(`excluded.${column}`)})
      / (usage_points.samples + 1)
    else ${sql.ref(`excluded.${column}`)} end`
  await db
    .insertInto('usagePoints')
    .values({
      serverId,
      span,
      slot: number % slots,
      at: number * ms,
      samples: 1,
      cpuPermille,
      memoryUsedBytes,
      diskUsedBytes,
    })
    .onConflict((c) =>
      c.columns(['serverId', 'span', 'slot']).doUpdateSet({
        cpuPermille: average('cpuPermille'),
        memoryUsedBytes: average('memoryUsedBytes'),
        diskUsedBytes: average('diskUsedBytes'),
        samples: sql<number>`case when usage_points.at = excluded.at
          then usage_points.samples + 1 else 1 end`,
        at: sql<number>`excluded.at`,
      }),
    )
    .execute()
}

const toUsage = (row: Selectable<ServerUsageTable>): ServerUsage => ({
  ...row,
  environments: JSON.parse(row.environments) as EnvironmentUsage[],
})

export async function listServerUsage(
  db: Db,
  serverIds: number[],
): Promise<Map<number, ServerUsage>> {
  if (serverIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('serverUsage')
    .selectAll()
    .where('serverId', 'in', serverIds)
    .execute()
  return new Map(rows.map((row) => [row.serverId, toUsage(row)]))
}

/** Oldest first; at most one ring. */
export const listUsagePoints = (
  db: Db,
  serverId: number,
  span: Span,
  since: number,
): Promise<UsagePoint[]> =>
  db
    .selectFrom('usagePoints')
    .select(['at', 'cpuPermille', 'memoryUsedBytes', 'diskUsedBytes'])
    .where('serverId', '=', serverId)
    .where('span', '=', span)
    .where('at', '>=', since)
    .orderBy('at')
    .execute()

export async function deleteServerUsage(db: Db, serverId: number): Promise<void> {
  await db.deleteFrom('serverUsage').where('serverId', '=', serverId).execute()
  await db.deleteFrom('usagePoints').where('serverId', '=', serverId).execute()
}
