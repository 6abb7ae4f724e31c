// Metrics of environments: stored from the reports of their servers, shown to callers who may read the environment. A
// server adds to its own environments only, and each minute of requests is counted once, also if it is reported again.
import { LATENCY_BOUNDS_MS, METRIC_STEPS, type MetricRange, USAGE } from '@berth/shared'
import type { EnvironmentRequests, HostUsage } from '@berth/shared/wire'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  addToSteps,
  type Measured,
  type MetricChart,
  type RequestTotals,
  stepsAt,
  toChart,
} from '../../domain/environments/metrics.ts'
import type { Db } from '../../store/engine/db.ts'
import { listSteps, listStepsInSlots, putSteps } from '../../store/environments/metrics.ts'
import { listServerEnvironments } from '../../store/servers/servers.ts'
import { listServerUsage, type ServerUsage } from '../../store/servers/usage.ts'
import { loadEnvironment } from '../core/access.ts'

const MINUTE = 60_000
/** Further in the future, the server's clock is wrong, and its minutes mean nothing. */
const AHEAD_MS = 5 * MINUTE
/** An older report does not say what runs now. */
const FRESH_MS = 5 * MINUTE

const toTotals = (of: EnvironmentRequests): RequestTotals => ({
  requests: of.requests,
  status2xx: of.status2xx,
  status3xx: of.status3xx,
  status4xx: of.status4xx,
  status5xx: of.status5xx,
  latencies: Array.from({ length: LATENCY_BOUNDS_MS.length + 1 }, (_, i) => of.latencies[i] ?? 0),
})

/** Minutes that were not counted before. */
function newMinutes(usage: HostUsage, counted: number, until: number, now: number): Measured[] {
  return usage.requestMinutes.slice(0, USAGE.requestMinutes).flatMap((minute) => {
    const at = minute.minute ? timestampMs(minute.minute) : 0
    const isNew = at >= counted && at < until && at >= now - USAGE.backlogMinutes * MINUTE
    if (!isNew) return []
    return minute.environments.slice(0, USAGE.environments).map((of) => ({
      environmentId: of.environmentId,
      at,
      requests: toTotals(of),
    }))
  })
}

export interface UsageReport {
  usage: HostUsage
  row: ServerUsage
  /** Of the same server; undefined: its first one. */
  before: ServerUsage | undefined
  now: number
}

/** Returns the time before which all requests are counted now. */
export async function addMetrics(db: Db, report: UsageReport): Promise<number | null> {
  const { usage, row, before, now } = report
  const counted = before?.requestsUntil ?? null
  const reported = usage.requestsUntil ? timestampMs(usage.requestsUntil) : null
  const isUsable = reported !== null && reported <= now + AHEAD_MS
  const until = isUsable ? Math.max(reported, counted ?? 0) : counted
  const requests = isUsable ? newMinutes(usage, counted ?? 0, reported, now) : []
  const isRepeated = before !== undefined && row.at <= before.at
  const uses: Measured[] = isRepeated
    ? []
    : row.environments.map(({ environmentId, cpuPermille, memoryBytes }) => ({
        environmentId,
        at: row.at,
        use: { cpuPermille, memoryBytes },
      }))
  if (uses.length + requests.length === 0) return until
  const own = new Set((await listServerEnvironments(db, row.serverId)).map(({ id }) => id))
  const measured = [...uses, ...requests].filter(({ environmentId }) => own.has(environmentId))
  if (measured.length > 0) {
    const slots = measured.flatMap(({ environmentId, at }) => stepsAt(environmentId, at))
    await putSteps(db, addToSteps(await listStepsInSlots(db, slots), measured))
  }
  return until
}

export interface EnvironmentMetrics extends MetricChart {
  range: MetricRange
  /** Undefined: nothing was reported lately. */
  latest: (ServerUsage['environments'][number] & { at: number }) | undefined
}

export async function getEnvironmentMetrics(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  range: MetricRange = 'hour',
): Promise<EnvironmentMetrics> {
  const environment = await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const now = ctx.clock.now()
  const usage = (await listServerUsage(ctx.db, [environment.serverId])).get(environment.serverId)
  const { stepMs, points } = METRIC_STEPS[range]
  const steps = await listSteps(ctx.db, environment.id, range, now - stepMs * points)
  const isFresh = usage !== undefined && usage.at > now - FRESH_MS
  const own = usage?.environments.find((of) => of.environmentId === environment.id)
  return {
    range,
    latest: isFresh && own ? { ...own, at: usage.at } : undefined,
    ...toChart(steps, range, now, usage?.requestsUntil ?? null),
  }
}
