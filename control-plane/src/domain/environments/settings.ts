// Decides whether this caller may change these settings now. Checks protection first, so that a refused caller learns
// nothing else about the environment. The decision is a value; the app turns it into a change or a refusal.
import type { EnvironmentPatch, Role } from '@berth/shared/api'
import { type Caller, mayChangeProtected } from '../core/access.ts'
import type { OpenTask } from '../deployments/deployment.ts'

interface SettingsFacts {
  environment: {
    protected: boolean
    ownerId: number
    removing: boolean
    type: 'pull_request' | 'manual'
    fromFork: boolean
  }
  /** The caller's role in the environment's organization. */
  role: Role
  openTask: OpenTask | undefined
}

type Field = keyof EnvironmentPatch

export type SettingsDecision =
  | { kind: 'change' }
  | { kind: 'protected' }
  | { kind: 'removing' }
  | { kind: 'protection_active'; fields: Field[] }
  | { kind: 'may_not_protect' }
  | { kind: 'may_not_give_away' }
  | { kind: 'fixed'; fields: Field[] }
  | { kind: 'in_progress'; task: OpenTask }

/** Protection fixes these, even in the request that removes protection. */
const FIXED_BY_PROTECTION: readonly Field[] = ['title', 'server_id', 'domain']
/** A running deployment was started with these, so they stay. */
const FIXED_BY_DEPLOYMENT: readonly Field[] = ['server_id', 'domain', 'recipe', 'branch']

export function decideSettings(
  caller: Caller,
  facts: SettingsFacts,
  asked: EnvironmentPatch,
): SettingsDecision {
  const { environment, openTask } = facts
  if (!mayChangeProtected(caller, environment)) return { kind: 'protected' }
  if (environment.removing) return { kind: 'removing' }
  const given = (fields: readonly Field[]) => fields.filter((f) => asked[f] !== undefined)
  const guarded = given(FIXED_BY_PROTECTION)
  if (environment.protected && guarded.length > 0) {
    return { kind: 'protection_active', fields: guarded }
  }
  const responsible =
    environment.ownerId === caller.userId || facts.role === 'admin' || facts.role === 'owner'
  if (asked.protected === true && !environment.protected && !responsible) {
    return { kind: 'may_not_protect' }
  }
  if (asked.owner_id !== undefined && !responsible) return { kind: 'may_not_give_away' }
  const fixed = fixedForPullRequest(environment, asked)
  if (fixed.length > 0) return { kind: 'fixed', fields: fixed }
  if (openTask && given(FIXED_BY_DEPLOYMENT).length > 0) {
    return { kind: 'in_progress', task: openTask }
  }
  return { kind: 'change' }
}

function fixedForPullRequest(
  environment: SettingsFacts['environment'],
  asked: EnvironmentPatch,
): Field[] {
  if (environment.type !== 'pull_request') return []
  const fields: Field[] = []
  if (asked.domain !== undefined) fields.push('domain')
  if (asked.branch !== undefined) fields.push('branch')
  // the manual recipe would run commands of a fork on the server itself
  if (asked.recipe === 'manual' && environment.fromFork) fields.push('recipe')
  return fields
}

interface Move {
  serverId: number
  formerServerId: number | null
}

/**
 * The copy on the present server, if there is one, is destroyed after the first success on the new one. If there is
 * none here, the copy on the former server stays the one to destroy.
 */
export function moveServer(
  environment: { serverId: number; formerServerId: number | null },
  to: number,
  hasCopyHere: boolean,
): Move {
  if (to === environment.serverId) return environment
  if (hasCopyHere) return { serverId: to, formerServerId: environment.serverId }
  const former = environment.formerServerId
  return { serverId: to, formerServerId: former === to ? null : former }
}
