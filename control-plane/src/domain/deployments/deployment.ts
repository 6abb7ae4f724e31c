// Decides whether an environment may be deployed now. The decision is a value; the app turns it into a task or a
// refusal, and unique indexes guard against concurrent requests.
import type { TaskStatus, Trigger } from '@berth/shared'
import { type Caller, mayChangeProtected } from '../core/access.ts'

export interface OpenTask {
  id: number
  status: TaskStatus
  trigger: Trigger
  startedAt: number | null
  createdAt: number
}

interface DeploymentFacts {
  environment: { identifier: string; protected: boolean; ownerId: number; removing: boolean }
  ownerName: string
  projectDeleting: boolean
  server: { id: number; name: string; joined: boolean }
  /** A queued or running deployment or removal of this environment. */
  openTask: OpenTask | undefined
  /** The deployed services are removed first. */
  reset: boolean
}

export type DeploymentDecision =
  | { kind: 'start' }
  | { kind: 'protected'; owner: string }
  | { kind: 'removing' | 'project_deleting' }
  | { kind: 'server_not_ready' }
  | { kind: 'protection_active' }
  | { kind: 'in_progress'; task: OpenTask }

/** Checks protection first, so that a refused caller learns nothing else about the environment. */
export function decideDeployment(caller: Caller, facts: DeploymentFacts): DeploymentDecision {
  if (!mayChangeProtected(caller, facts.environment)) {
    return { kind: 'protected', owner: facts.ownerName }
  }
  if (facts.environment.removing) return { kind: 'removing' }
  if (facts.projectDeleting) return { kind: 'project_deleting' }
  if (facts.reset && facts.environment.protected) return { kind: 'protection_active' }
  if (facts.openTask) return { kind: 'in_progress', task: facts.openTask }
  if (!facts.server.joined) return { kind: 'server_not_ready' }
  return { kind: 'start' }
}

/** Who started it, as part of a sentence. */
export function triggerWords(trigger: Trigger): string {
  switch (trigger) {
    case 'webhook':
      return 'a push'
    case 'cli':
      return 'the client'
    case 'mcp':
      return 'an assistant'
    case 'dashboard':
      return 'the dashboard'
    case 'schedule':
      return 'its schedule'
    case 'reconcile':
    case 'system':
      return 'Berth'
    case 'api':
      return 'the API'
  }
}
