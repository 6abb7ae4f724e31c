// Decides when a service counts as healthy, and when to give up. PURE: the caller probes, waits and measures time. The
// first success is enough; failures count only after the start period, and only in a row.
import { STEPS } from '@berth/shared'
import type { CheckTiming, Health } from '@berth/shared/service-file'

/** A check by connection; the caller chooses the port or socket. */
export type HealthCheck = (
  | { kind: 'http'; path: string; status: number | null }
  | { kind: 'connect' }
) &
  CheckTiming

/** A check that asks the service itself. */
export type AskingCheck = Extract<Health, { kind: 'http' | 'connect' | 'command' }>

export type CommandCheck = Extract<AskingCheck, { kind: 'command' }>

/** Undefined: the file wants no check, or the service has nothing to ask. */
export const askingCheck = (health: Health): AskingCheck | undefined =>
  health.kind === 'none' || health.kind === 'stays-up' ? undefined : health

/** One probe of a service. A person reads `said`; `detail` follows it in parentheses and may be empty. */
export interface HealthSample {
  isHealthy: boolean
  said: string
  detail: string
  /** What it probably means, and what to do; absent: the answer says it all. */
  cause?: string | undefined
}

/** What an unexpected status of a health check usually means. */
export function explainStatus(path: string, status: number, host: string): string | undefined {
  if (status === 404 || status === 405)
    return `Nothing answers GET ${path}: name a path that exists in health.path of the service.`
  if (status === 401 || status === 403)
    return `${path} needs a login: name a path in health.path that everyone may read.`
  if (status === 400 || status === 421)
    return `The application may refuse the host name ${host}: add it to its allowed hosts.`
  if (status >= 300 && status < 400)
    return `${path} redirects: name its target in health.path, or the status in health.status.`
  if (status === 502 || status === 503 || status === 504)
    return 'It is not ready, or waits for a service that does not answer: its log says why.'
  if (status >= 500) return 'The application itself failed: its log says why.'
  return undefined
}

type HealthVerdict =
  | { kind: 'healthy' }
  | { kind: 'again'; waitMs: number; failures: number }
  | { kind: 'unhealthy'; message: string }

const NUMBERS = ['', 'once', 'twice', 'three times']
const times = (count: number): string => NUMBERS[count] ?? `${count} times`

export const isExpectedStatus = (expected: number | null, status: number): boolean =>
  expected === null ? status >= 200 && status <= 399 : status === expected

/** `elapsedMs` is the time since the start; `failures` in a row exclude those of the start period. */
export function judgeHealth(
  check: CheckTiming,
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
  // notices a process that starts quickly
  const isFirst = elapsedMs < STEPS.healthFirstForMs
  const fastMs = isFirst ? STEPS.healthFirstMs : STEPS.healthFastMs
  const waitMs = elapsedMs < STEPS.healthFastForMs ? fastMs : check.intervalMs
  return { kind: 'again', waitMs, failures: counted }
}
