// Judges a service that was deployed: how many failures in a row make it unhealthy, when it counts as started, and when
// it may be restarted again. PURE: the caller asks and passes the time.
import type { HealthSample } from '../machine/process/health.ts'

/** starting: it was started again and has not answered yet. */
export type HealthState = 'starting' | 'healthy' | 'unhealthy'

/** What is remembered of one container or process. */
export interface HealthMemory {
  /** Changes with each start. */
  of: string
  state: HealthState
  failures: number
  /** Why it is, or was before its restart, unhealthy; empty: it never was. */
  reason: string
}

export interface HealthRule {
  retries: number
  startPeriodMs: number
}

/** One look. `isFrozen`: it cannot answer before something continues it. */
export interface HealthLook extends HealthSample {
  isFrozen: boolean
}

/** A deployment has just verified it, or this daemon has just started: it counts as healthy until it fails. */
export const firstMemory = (of: string): HealthMemory => ({
  of,
  state: 'healthy',
  failures: 0,
  reason: '',
})

/** It was started again, so it must answer before it gets requests. */
export const noteRestart = (before: HealthMemory, of: string): HealthMemory =>
  before.of === of ? before : { ...before, of, state: 'starting', failures: 0 }

/** Frozen processes never recover by waiting longer, so patience beyond this only delays the news. */
const FROZEN_RETRIES = 3

const NUMBERS = ['', 'once', 'twice', 'three times']
const times = (count: number): string => NUMBERS[count] ?? `${count} times`

export function noteLook(
  before: HealthMemory,
  look: HealthLook,
  rule: HealthRule,
  upMs: number,
): HealthMemory {
  const { of } = before
  if (look.isHealthy) return firstMemory(of)
  const isExcused = before.state === 'starting' && upMs < rule.startPeriodMs && !look.isFrozen
  if (isExcused) return { ...before, failures: 0 }
  const failures = before.failures + 1
  const retries = look.isFrozen ? Math.min(FROZEN_RETRIES, rule.retries) : rule.retries
  if (before.state !== 'unhealthy' && failures < retries) return { ...before, failures }
  const detail = look.detail ? ` (${look.detail})` : ''
  const often = look.isFrozen || failures < 2 ? '' : ` ${times(failures)} in a row`
  const isSame = before.state === 'unhealthy' && before.reason.startsWith(look.said)
  // the number of failures grows for ever, and each change would be reported
  const reason = isSame ? before.reason : `${look.said}${often}${detail}`
  return { of, state: 'unhealthy', failures, reason }
}

/** How often it was restarted for its health. */
export interface Restarts {
  count: number
  /** When the last one began. */
  at: number
}

/** The first one is immediate; each further one waits twice as long, and a long healthy time forgets them. */
export function nextRestart(
  before: Restarts | undefined,
  bounds: { firstMs: number; capMs: number },
): number {
  if (!before) return 0
  return before.at + Math.min(bounds.firstMs * 2 ** (before.count - 1), bounds.capMs)
}

/** One sentence; empty: the service is well. */
export function describeHealth(
  shown: string,
  { state, reason }: HealthMemory,
  restarts: Restarts | undefined,
): string {
  if (reason === '' || state === 'healthy') return ''
  const count = restarts?.count ?? 0
  if (state === 'starting') {
    return `${shown} was restarted because it was unhealthy: ${reason}. It is not healthy yet.`
  }
  const again = count > 0 ? ` It was restarted for that ${times(count)}.` : ''
  return `${shown} is unhealthy: ${reason}.${again}`
}
