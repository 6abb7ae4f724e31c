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

/** Of one statement; databases bound the number of values in it. */
const ROWS = 200

const SPANS = {
  minute: { ms: 60_000, slots: USAGE.minutes },
  hour: { ms: 3_600_000, slots: USAGE.hours },
} as const
type Span = keyof typeof SPANS

/** The reports are of different servers. */
export async function putServerUsage(db: Db, usages: readonly ServerUsage[]): Promise<void> {
  const rows = usages.map((usage) => ({
    ...usage,
    environments: JSON.stringify(usage.environments),
  }))
  for (let from = 0; from < rows.length; from += ROWS) {
    await db
      .insertInto('serverUsage')
      .values(rows.slice(from, from + ROWS))
      .onConflict((c) =>
        c.column('serverId').doUpdateSet((e) => ({
          at: e.ref('excluded.at'),
          cpuPermille: e.ref('excluded.cpuPermille'),
          memoryUsedBytes: e.ref('excluded.memoryUsedBytes'),
          memoryBytes: e.ref('excluded.memoryBytes'),
          diskUsedBytes: e.ref('excluded.diskUsedBytes'),
          diskBytes: e.ref('excluded.diskBytes'),
          loadHundredths: e.ref('excluded.loadHundredths'),
          dockerOk: e.ref('excluded.dockerOk'),
          proxyOk: e.ref('excluded.proxyOk'),
          environments: e.ref('excluded.environments'),
          requestsUntil: e.ref('excluded.requestsUntil'),
        })),
      )
      .execute()
  }
}

/**
 * Writes to the slot of each report's time: averages with earlier samples of that slot, or overwrites the previous
 * round. The reports are of different servers.
 */
export async function putUsagePoints(
  db: Db,
  span: Span,
  usages: readonly ServerUsage[],
): Promise<void> {
  const { ms, slots } = SPANS[span]
  const average = (column: string) => sql<number>`case when usage_points.at = excluded.at
    then (${sql.ref(`usagePoints.${column}`)} * usage_points.samples + ${sql.ref(`excluded.${column}`)})
      / (usage_points.samples + 1)
    else ${sql.ref(`excluded.${column}`)} end`
  const rows = usages.map(({ at, serverId, cpuPermille, memoryUsedBytes, diskUsedBytes }) => {
    const number = Math.floor(at / ms)
    const slot = { serverId, span, slot: number % slots, at: number * ms, samples: 1 }
    return { ...slot, cpuPermille, memoryUsedBytes, diskUsedBytes }
  })
  for (let from = 0; from < rows.length; from += ROWS) {
    await db
      .insertInto('usagePoints')
      .values(rows.slice(from, from + ROWS))
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
