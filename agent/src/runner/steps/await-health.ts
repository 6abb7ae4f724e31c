// Asks a service of either recipe until it is healthy, or long enough to give up. A service that runs and listens
// elsewhere is explained while the deployment still waits, so that its user need not wait for the end.
import { STEPS } from '@berth/shared'
import type { CheckTiming } from '@berth/shared/service-file'
import { type HealthSample, judgeHealth } from '../../machine/process/health.ts'
import type { Attempt } from '../attempt.ts'
import type { StepFailure } from '../failure.ts'

export interface AskedService {
  check: CheckTiming
  once(): Promise<HealthSample>
  /** Throws when the service has ended, so that asking again is useless. */
  requireUp(): Promise<void> | void
  /** Where it listens, if not where it is asked. */
  explain(): string | undefined
  /** The failure, with what the service wrote last. */
  fail(message: string): Promise<StepFailure> | StepFailure
}

export async function awaitAnswer(attempt: Attempt, asked: AskedService): Promise<void> {
  const { check } = asked
  const since = performance.now()
  let failures = 0
  let advice: string | undefined
  for (;;) {
    const sample = await asked.once()
    attempt.interruption.throwIfFired()
    // a healthy answer does not count if the service has ended since; a failed one may have that cause
    await asked.requireUp()
    const elapsedMs = performance.now() - since
    const verdict = judgeHealth(check, sample, elapsedMs, failures)
    if (verdict.kind === 'healthy') return
    if (elapsedMs > STEPS.healthExplainMs || verdict.kind === 'unhealthy') {
      const found = asked.explain()
      if (found !== undefined && found !== advice) attempt.output.say(`Warning: ${found}`)
      advice = found
    }
    if (verdict.kind === 'unhealthy') {
      const cause = advice ?? sample.cause
      throw await asked.fail(cause ? `${verdict.message} ${cause}` : verdict.message)
    }
    failures = verdict.failures
    await attempt.interruption.wait(verdict.waitMs)
  }
}
