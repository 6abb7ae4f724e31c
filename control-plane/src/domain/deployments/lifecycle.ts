// Decides whether a restart, stop or start may begin now. The decision is a value; the app turns it into a task or a
// refusal.
import { TASKS } from '@berth/shared'
import { type Caller, mayChangeProtected } from '../core/access.ts'
import type { OpenTask } from './deployment.ts'

interface LifecycleFacts {
  environment: { protected: boolean; ownerId: number; removing: boolean; isDeployed: boolean }
  ownerName: string
  projectDeleting: boolean
  serverJoined: boolean
  /** A queued or running deployment or removal of this environment. */
  openTask: OpenTask | undefined
  /** The number of queued tasks of the environment that do not lock it. */
  queued: number
  /** Names of the deployed services. */
  services: readonly string[]
  /** Null: all of them. */
  service: string | null
}

export type LifecycleDecision =
  | { kind: 'start' }
  | { kind: 'protected'; owner: string }
  | { kind: 'removing' | 'project_deleting' }
  | { kind: 'not_deployed' | 'unknown' }
  | { kind: 'server_not_ready' }
  | { kind: 'in_progress'; task: OpenTask }
  | { kind: 'too_many'; limit: number }

/** Checks protection first, so that a refused caller learns nothing else about the environment. */
export function decideLifecycle(caller: Caller, facts: LifecycleFacts): LifecycleDecision {
  const { environment, service } = facts
  if (!mayChangeProtected(caller, environment)) return { kind: 'protected', owner: facts.ownerName }
  if (environment.removing) return { kind: 'removing' }
  if (facts.projectDeleting) return { kind: 'project_deleting' }
  if (!environment.isDeployed) return { kind: 'not_deployed' }
  if (service !== null && !facts.services.includes(service)) return { kind: 'unknown' }
  if (facts.openTask) return { kind: 'in_progress', task: facts.openTask }
  if (facts.queued >= TASKS.actionsQueued) return { kind: 'too_many', limit: TASKS.actionsQueued }
  if (!facts.serverJoined) return { kind: 'server_not_ready' }
  return { kind: 'start' }
}
