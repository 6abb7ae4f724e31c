// Metrics of environments in steps: adds what a server reports to the steps it falls into, and turns stored steps into
// points of a chart. PURE. Each range has its own steps in a ring; a step of an earlier round is overwritten, and a report
// about a round that is over is dropped.
import { LATENCY_BOUNDS_MS, METRIC_STEPS, type MetricRange } from '@berth/shared'

export interface RequestTotals {
  requests: number
  status2xx: number
  status3xx: number
  status4xx: number
  status5xx: number
  /** One count for each of LATENCY_BOUNDS_MS, and one for slower requests. */
  latencies: number[]
}

export interface MetricStep extends RequestTotals {
  environmentId: number
  span: MetricRange
  slot: number
  at: number
  /** Processor and memory are averages of so many measurements. */
  samples: number
  cpuPermille: number
  memoryBytes: number
}

export interface Measured {
  environmentId: number
  at: number
  use?: { cpuPermille: number; memoryBytes: number }
  requests?: RequestTotals
}

const RANGES = Object.keys(METRIC_STEPS) as MetricRange[]
const CLASSES = LATENCY_BOUNDS_MS.length + 1

export const noRequests = (): RequestTotals => ({
  requests: 0,
  status2xx: 0,
  status3xx: 0,
  status4xx: 0,
  status5xx: 0,
  latencies: Array.from({ length: CLASSES }, () => 0),
})

const keyOf = ({ environmentId, span, slot }: MetricStep): string =>
  `${environmentId}/${span}/${slot}`

/** The empty steps, one of each range, into which a time falls. */
export const stepsAt = (environmentId: number, time: number): MetricStep[] =>
  RANGES.map((span) => {
    const { stepMs, points } = METRIC_STEPS[span]
    const number = Math.floor(time / stepMs)
    const use = { samples: 0, cpuPermille: 0, memoryBytes: 0 }
    const place = { environmentId, span, slot: number % points, at: number * stepMs }
    return { ...place, ...use, ...noRequests() }
  })

function addRequests<T extends RequestTotals>(to: T, more: RequestTotals): T {
  return {
    ...to,
    requests: to.requests + more.requests,
    status2xx: to.status2xx + more.status2xx,
    status3xx: to.status3xx + more.status3xx,
    status4xx: to.status4xx + more.status4xx,
    status5xx: to.status5xx + more.status5xx,
    latencies: to.latencies.map((count, i) => count + (more.latencies[i] ?? 0)),
  }
}

function addMeasured(step: MetricStep, { use, requests }: Measured): MetricStep {
  const counted = requests ? addRequests(step, requests) : step
  if (!use) return counted
  const { samples } = step
  const average = (before: number, now: number): number =>
    Math.round((before * samples + now) / (samples + 1))
  return {
    ...counted,
    samples: samples + 1,
    cpuPermille: average(step.cpuPermille, use.cpuPermille),
    memoryBytes: average(step.memoryBytes, use.memoryBytes),
  }
}

/** The steps to write, each once. */
export function addToSteps(stored: MetricStep[], measured: Measured[]): MetricStep[] {
  const known = new Map(stored.map((step) => [keyOf(step), step]))
  const changed = new Map<string, MetricStep>()
  for (const one of measured) {
    for (const empty of stepsAt(one.environmentId, one.at)) {
      const key = keyOf(empty)
      const before = changed.get(key) ?? known.get(key)
      if (before && before.at > empty.at) continue // that round is over
      changed.set(key, addMeasured(before?.at === empty.at ? before : empty, one))
    }
  }
  return [...changed.values()]
}

/** In milliseconds; null without requests. Slower than the last bound counts as the last bound. */
export function percentile(latencies: number[], part: number): number | null {
  const all = latencies.reduce((sum, count) => sum + count, 0)
  if (all === 0) return null
  const wanted = all * part
  let before = 0
  for (const [i, count] of latencies.entries()) {
    const from = LATENCY_BOUNDS_MS[i - 1] ?? 0
    const to = LATENCY_BOUNDS_MS[i] ?? from
    if (count > 0 && before + count >= wanted) {
      return Math.round(from + ((to - from) * (wanted - before)) / count)
    }
    before += count
  }
  return LATENCY_BOUNDS_MS.at(-1) ?? null
}

export interface MetricPoint {
  at: number
  /** Null: nothing was measured in this step. */
  use: { cpuPermille: number; memoryBytes: number } | null
  requests: (RequestTotals & { perSecond: number }) | null
}

export interface MetricChart {
  points: MetricPoint[]
  /** Null: requests are not measured on this server. */
  totals: RequestTotals | null
}

/** A point for every step of the range, oldest first, the last one with `now` in it. */
export function toChart(
  stored: MetricStep[],
  range: MetricRange,
  now: number,
  requestsUntil: number | null,
): MetricChart {
  const { stepMs, points: length } = METRIC_STEPS[range]
  const byTime = new Map(
    stored.filter(({ span }) => span === range).map((step) => [step.at, step] as const),
  )
  const last = Math.floor(now / stepMs) * stepMs
  const points = Array.from({ length }, (_, i): MetricPoint => {
    const at = last - (length - 1 - i) * stepMs
    const step = byTime.get(at)
    const isCounted = step !== undefined && requestsUntil !== null && requestsUntil > at
    // the newest step is not over yet
    const seconds = isCounted ? Math.min(stepMs, requestsUntil - at) / 1_000 : 1
    return {
      at,
      use: step && step.samples > 0 ? step : null,
      requests: isCounted ? { ...step, perSecond: step.requests / seconds } : null,
    }
  })
  const totals = points.reduce(
    (sum, { requests }) => (requests ? addRequests(sum, requests) : sum),
    noRequests(),
  )
  return { points, totals: requestsUntil === null ? null : totals }
}
