// Plan, then act. A plan is what a call would do now; its hash contains a digest of each part it depends on, so that a
// later call can say what changed without a stored plan. Neither a plan nor its hash contains values, because the
// digest of a short secret can be guessed.
import { createHash } from 'node:crypto'
import type { Answer } from './answer.ts'
import { refuse } from './refusal.ts'
import type { DeployPlan, VariablesPlan } from './schemas.ts'

export interface Planned<Plan> {
  plan: Plan
  /** What the plan depends on, by the name used when it has changed. */
  parts: Readonly<Record<string, unknown>>
}

const digest = (value: unknown): string =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 12)

export const hashPlan = (parts: Planned<unknown>['parts']): string =>
  Object.values(parts).map(digest).join('.')

/** The parts that differ from those in the hash. */
export function changedParts(hash: string, parts: Planned<unknown>['parts']): string[] {
  const before = hash.split('.')
  const names = Object.keys(parts)
  if (before.length !== names.length) return ['plan_hash']
  return names.filter((name, index) => before[index] !== digest(parts[name]))
}

/** Refuses if a part has changed since the plan was shown. */
export function refuseOutdated(
  hash: string,
  { plan, parts }: Planned<DeployPlan | VariablesPlan>,
): Answer | undefined {
  const changed = changedParts(hash, parts)
  if (changed.length === 0) return undefined
  const what = changed.includes('plan_hash')
    ? 'the plan_hash is of another call'
    : `changed since the plan: ${changed.join(', ')}`
  return refuse({
    code: 'plan_outdated',
    message: `Nothing was done, ${what}`,
    hint: 'The plan as it would be now is in this answer; look at it and call again with its plan_hash.',
    changed,
    plan,
    plan_hash: hashPlan(parts),
  })
}
