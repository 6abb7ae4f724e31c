// Stores the steps of environments' metrics.
import type { MetricRange } from '@berth/shared'
import type { Insertable, Selectable } from 'kysely'
import type { MetricStep } from '../../domain/environments/metrics.ts'
import type { Db } from '../engine/db.ts'
import type { EnvironmentMetricsTable } from '../schema.ts'

/** Rows of one statement; databases bound the number of values in it. */
const ROWS = 200

const toStep = (row: Selectable<EnvironmentMetricsTable>): MetricStep => ({
  ...row,
  latencies: row.latencies.split(' ').map(Number),
})

const toRow = (step: MetricStep): Insertable<EnvironmentMetricsTable> => ({
  ...step,
  latencies: step.latencies.join(' '),
})

/** What is stored in the slots of these steps, also of an earlier round. */
export async function listStepsInSlots(db: Db, steps: MetricStep[]): Promise<MetricStep[]> {
  const found: MetricStep[] = []
  const spans = [...new Set(steps.map(({ span }) => span))]
  for (const span of spans) {
    const wanted = steps.filter((step) => step.span === span)
    const environments = [...new Set(wanted.map(({ environmentId }) => environmentId))]
    const slots = [...new Set(wanted.map(({ slot }) => slot))]
    const rows = await db
      .selectFrom('environmentMetrics')
      .selectAll()
      .where('environmentId', 'in', environments)
      .where('span', '=', span)
      .where('slot', 'in', slots)
      .execute()
    found.push(...rows.map(toStep))
  }
  return found
}

export async function putSteps(db: Db, steps: MetricStep[]): Promise<void> {
  for (let from = 0; from < steps.length; from += ROWS) {
    await db
      .insertInto('environmentMetrics')
      .values(steps.slice(from, from + ROWS).map(toRow))
      .onConflict((c) =>
        c.columns(['environmentId', 'span', 'slot']).doUpdateSet((e) => ({
          at: e.ref('excluded.at'),
          samples: e.ref('excluded.samples'),
          cpuPermille: e.ref('excluded.cpuPermille'),
          memoryBytes: e.ref('excluded.memoryBytes'),
          requests: e.ref('excluded.requests'),
          status2xx: e.ref('excluded.status2xx'),
          status3xx: e.ref('excluded.status3xx'),
          status4xx: e.ref('excluded.status4xx'),
          status5xx: e.ref('excluded.status5xx'),
          latencies: e.ref('excluded.latencies'),
        })),
      )
      .execute()
  }
}

/** At most one ring. */
export async function listSteps(
  db: Db,
  environmentId: number,
  span: MetricRange,
  since: number,
): Promise<MetricStep[]> {
  const rows = await db
    .selectFrom('environmentMetrics')
    .selectAll()
    .where('environmentId', '=', environmentId)
    .where('span', '=', span)
    .where('at', '>=', since)
    .execute()
  return rows.map(toStep)
}
