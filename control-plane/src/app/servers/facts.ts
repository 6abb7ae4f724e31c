// Resource usage of servers: stored about once a minute from a heartbeat, shown to callers who may read the server. The
// number of rows is fixed, and values above their maximum are clamped.
import { USAGE } from '@berth/shared'
import type { HostUsage } from '@berth/shared/wire'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { listServerEnvironments } from '../../store/servers/servers.ts'
import {
  listServerUsage,
  listUsagePoints,
  putServerUsage,
  putUsagePoints,
  type ServerUsage,
  type UsagePoint,
} from '../../store/servers/usage.ts'
import { loadVisibleServer, readableOrganizations } from '../core/access.ts'
import type { Change } from '../core/change.ts'
import { addMetrics } from '../environments/metrics.ts'

const SKEW_MS = 5 * 60_000

/** If the server's clock is off, the point gets our time. */
function momentOf(usage: HostUsage, now: number): number {
  const at = usage.at ? timestampMs(usage.at) : now
  return Math.abs(at - now) > SKEW_MS ? now : at
}

const bytes = (n: bigint): number => Number(n > 2n ** 53n - 1n ? 0n : n)

/** What one server reported of itself in a heartbeat. */
export interface Report {
  serverId: number
  usage: HostUsage
  dockerOk: boolean
  proxyOk: boolean
}

function toRow({ serverId, usage, ...health }: Report, now: number): ServerUsage {
  return {
    serverId,
    at: momentOf(usage, now),
    cpuPermille: Math.min(usage.cpuPermille, 1_000),
    memoryUsedBytes: bytes(usage.memoryUsedBytes),
    memoryBytes: bytes(usage.memoryBytes),
    diskUsedBytes: bytes(usage.diskUsedBytes),
    diskBytes: bytes(usage.diskBytes),
    loadHundredths: Math.min(usage.loadHundredths, 10_000_000),
    dockerOk: health.dockerOk ? 1 : 0,
    proxyOk: health.proxyOk ? 1 : 0,
    environments: usage.environments.slice(0, USAGE.environments).map((of) => ({
      environmentId: of.environmentId,
      diskBytes: bytes(of.diskBytes),
      memoryBytes: bytes(of.memoryBytes),
      cpuPermille: Math.min(of.cpuPermille, 1_000_000),
      services: of.services.slice(0, USAGE.services).map((service) => ({
        name: service.name.slice(0, 63),
        memoryBytes: bytes(service.memoryBytes),
        cpuPermille: Math.min(service.cpuPermille, 1_000_000),
      })),
    })),
    requestsUntil: null,
  }
}

/** Records the reports of different servers together. */
export async function recordUsage(
  { db, now }: Pick<Change, 'db' | 'now'>,
  reports: readonly Report[],
): Promise<void> {
  const ids = reports.map(({ serverId }) => serverId)
  const known = await listServerUsage(db, ids)
  const rows: ServerUsage[] = []
  for (const report of reports) {
    const row = toRow(report, now)
    const before = known.get(row.serverId)
    const requestsUntil = await addMetrics(db, { usage: report.usage, row, before, now })
    rows.push({ ...row, requestsUntil })
  }
  await putServerUsage(db, rows)
  await putUsagePoints(db, 'minute', rows)
  await putUsagePoints(db, 'hour', rows)
}

const USAGE_SPANS = ['hour', 'day', 'month'] as const
export type UsageSpan = (typeof USAGE_SPANS)[number]

const WINDOWS = {
  hour: { span: 'minute', ms: 3_600_000 },
  day: { span: 'minute', ms: USAGE.minutes * 60_000 },
  month: { span: 'hour', ms: USAGE.hours * 3_600_000 },
} as const

export interface ServerFacts {
  /** Undefined before the first report. */
  latest: ServerUsage | undefined
  /** Existing environments only, with the names that people know. */
  environments: (ServerUsage['environments'][number] & { identifier: string })[]
  points: UsagePoint[]
}

export async function getServerFacts(
  ctx: Context,
  caller: Caller,
  serverId: number,
  span: UsageSpan = 'day',
): Promise<ServerFacts> {
  const { server, isShared } = await loadVisibleServer(ctx.db, caller, serverId)
  const latest = (await listServerUsage(ctx.db, [server.id])).get(server.id)
  const readable = readableOrganizations(caller)
  const here = (await listServerEnvironments(ctx.db, server.id)).filter((environment) =>
    readable.includes(environment.organizationId),
  )
  const names = new Map(here.map(({ id, identifier }) => [id, identifier]))
  const environments = (latest?.environments ?? []).flatMap((of) => {
    const identifier = names.get(of.environmentId)
    return identifier === undefined ? [] : { ...of, identifier }
  })
  // the load of the whole machine is its owner's to know
  if (isShared) return { latest: undefined, environments, points: [] }
  const window = WINDOWS[span]
  const since = ctx.clock.now() - window.ms
  const points = await listUsagePoints(ctx.db, server.id, window.span, since)
  return { latest, environments, points }
}
