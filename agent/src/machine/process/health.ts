// When a service counts as healthy, and when to give up. PURE: the caller asks, waits and measures time. The first
// success is enough; failures count only after the start period, and only in a row.
import { STEPS } from '@berth/shared'
import type { Health } from '@berth/shared/service-file'

/** A service that can be asked. */
export type HealthCheck = Extract<Health, { kind: 'http' | 'connect' }>

/** One look at a service. `said` is what a person reads; `detail`, in parentheses after it, may be empty. */
export interface HealthSample {
  isHealthy: boolean
  said: string
  detail: string
}

export type HealthVerdict =
  | { kind: 'healthy' }
  | { kind: 'again'; waitMs: number; failures: number }
  | { kind: 'unhealthy'; message: string }

const NUMBERS = ['', 'once', 'twice', 'three times']
const times = (count: number): string => NUMBERS[count] ?? `${count} times`

export const isExpectedStatus = (expected: number | null, status: number): boolean =>
  expected === null ? status >= 200 && status <= 399 : status === expected

/** `elapsedMs` since the process was started; `failures` in a row so far, those of the start period not counted. */
export function judgeHealth(
  check: HealthCheck,
  sample: HealthSample,
  elapsedMs: number,
  failures: number,
): HealthVerdict {
  if (sample.isHealthy) return { kind: 'healthy' }
  const counted = elapsedMs >= check.startPeriodMs ? failures + 1 : 0
  if (counted >= Math.max(1, check.retries)) {
    const often = counted > 1 ? ` ${times(counted)} in a row` : ''
    const detail = sample.detail ? ` (${sample.detail})` : ''
    return { kind: 'unhealthy', message: `${sample.said}${often}${detail}.` }
  }
  // a process that comes up quickly is noticed quickly
  const isFirst = elapsedMs < STEPS.healthFirstForMs
  const fastMs = isFirst ? STEPS.healthFirstMs : STEPS.healthFastMs
  const waitMs = elapsedMs < STEPS.healthFastForMs ? fastMs : check.intervalMs
  return { kind: 'again', waitMs, failures: counted }
}
