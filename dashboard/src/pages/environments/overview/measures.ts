// The query of an environment's metrics, and figures as people read them.
import { trpc } from '../../../api.ts'

export type Range = 'hour' | 'day' | 'week'

/** No event reports a new measurement; servers report once a minute. */
const AGAIN_MS = 30_000

export const metricsOptions = (environmentId: number, range: Range) => ({
  ...trpc.environment.metrics.queryOptions({ environment_id: environmentId, range }),
  refetchInterval: AGAIN_MS,
})

const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })

export const percent = (value: number): string =>
  `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)}%`

export const number = (value: number): string => compact.format(value)

export const rate = (value: number): string =>
  `${value < 10 ? Number(value.toFixed(2)) : compact.format(Math.round(value))}/s`

export const milliseconds = (value: number): string =>
  value < 1_000 ? `${Math.round(value)} ms` : `${Number((value / 1_000).toFixed(1))} s`
