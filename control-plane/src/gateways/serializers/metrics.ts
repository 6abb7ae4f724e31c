// Serializes the metrics of an environment.
import { METRIC_STEPS } from '@berth/shared'
import type { EnvironmentMetrics } from '@berth/shared/api'
import type { EnvironmentMetrics as Metrics } from '../../app/environments/metrics.ts'
import { percentile, type RequestTotals } from '../../domain/environments/metrics.ts'
import { time } from './fields.ts'

const serializeUse = (use: { cpuPermille: number; memoryBytes: number }) => ({
  cpu_percent: use.cpuPermille / 10,
  memory_bytes: use.memoryBytes,
})

const serializeTotals = (of: RequestTotals) => ({
  requests: of.requests,
  status_2xx: of.status2xx,
  status_3xx: of.status3xx,
  status_4xx: of.status4xx,
  status_5xx: of.status5xx,
  p50_ms: percentile(of.latencies, 0.5),
  p95_ms: percentile(of.latencies, 0.95),
})

const NO_USE = { cpu_percent: null, memory_bytes: null }
const NO_REQUESTS = {
  requests: null,
  requests_per_second: null,
  status_2xx: null,
  status_3xx: null,
  status_4xx: null,
  status_5xx: null,
  p50_ms: null,
  p95_ms: null,
}

export const serializeMetrics = (metrics: Metrics): EnvironmentMetrics => ({
  range: metrics.range,
  step_seconds: METRIC_STEPS[metrics.range].stepMs / 1_000,
  latest: metrics.latest
    ? {
        at: time(metrics.latest.at),
        ...serializeUse(metrics.latest),
        services: (metrics.latest.services ?? []).map((of) => ({
          name: of.name,
          ...serializeUse(of),
        })),
      }
    : null,
  totals: metrics.totals && serializeTotals(metrics.totals),
  points: metrics.points.map(({ at, use, requests }) => ({
    at: time(at),
    ...(use ? serializeUse(use) : NO_USE),
    ...(requests
      ? {
          ...serializeTotals(requests),
          requests_per_second: Math.round(requests.perSecond * 1_000) / 1_000,
        }
      : NO_REQUESTS),
  })),
})
