// Decides whether an action may start now. The decision is a value; the app turns it into a task or a refusal.
import { TASKS } from '@berth/shared'
import { type Caller, mayChangeProtected } from '../core/access.ts'
import type { OpenTask } from './deployment.ts'

/** An action from the last successful deployment (JSON in the environment's row). */
export interface SyncedAction {
  name: string
  title: string
  description: string
  service: string
  confirm: string
  timeoutMs: number
  artifactPaths: string[]
  disabledReason: string
}

interface ActionFacts {
  environment: {
    protected: boolean
    ownerId: number
    removing: boolean
    isDeployed: boolean
  }
  ownerName: string
  projectDeleting: boolean
  serverJoined: boolean
  /** A queued or running deployment or removal of this environment. */
  openTask: OpenTask | undefined
  /** The number of queued actions of the environment. */
  queued: number
  actions: readonly SyncedAction[]
  name: string
  confirmed: boolean
}

export type ActionDecision =
  | { kind: 'start'; action: SyncedAction }
  | { kind: 'protected'; owner: string }
  | { kind: 'removing' | 'project_deleting' }
  | { kind: 'not_deployed' | 'unknown' }
  | { kind: 'server_not_ready' }
  | { kind: 'disabled'; reason: string }
  | { kind: 'in_progress'; task: OpenTask }
  | { kind: 'unconfirmed'; question: string }
  | { kind: 'too_many'; limit: number }

/** Checks protection first, so that a refused caller learns nothing else about the environment. */
export function decideAction(caller: Caller, facts: ActionFacts): ActionDecision {
  const { environment, actions, name } = facts
  if (!mayChangeProtected(caller, environment)) return { kind: 'protected', owner: facts.ownerName }
  if (environment.removing) return { kind: 'removing' }
  if (facts.projectDeleting) return { kind: 'project_deleting' }
  if (!environment.isDeployed) return { kind: 'not_deployed' }
  const action = actions.find((one) => one.name === name)
  if (!action) return { kind: 'unknown' }
  if (action.disabledReason !== '') return { kind: 'disabled', reason: action.disabledReason }
  if (facts.openTask) return { kind: 'in_progress', task: facts.openTask }
  if (action.confirm !== '' && !facts.confirmed) {
    return { kind: 'unconfirmed', question: action.confirm }
  }
  if (facts.queued >= TASKS.actionsQueued) return { kind: 'too_many', limit: TASKS.actionsQueued }
  if (!facts.serverJoined) return { kind: 'server_not_ready' }
  return { kind: 'start', action }
}
