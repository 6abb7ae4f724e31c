// Tasks, the attempts to carry them out, and the steps of those.
import type { Recipe, TaskStatus, TaskType, Trigger } from '@berth/shared'
import type { Generated } from 'kysely'
import type { Flag } from './schema.ts'

export interface TasksTable {
  id: Generated<number>
  organizationId: number
  projectId: number
  environmentId: number
  serverId: number
  type: TaskType
  reset: Generated<Flag>
  noCache: Generated<Flag>
  status: TaskStatus
  triggerBy: Trigger
  userId: number | null
  triggeredBy: string
  message: string | null
  branch: string
  recipe: Recipe
  /** The commit that was asked for; null: the branch's head. */
  askedSha: string | null
  /** The commit that was checked out. */
  commitSha: string | null
  commitMessage: string | null
  cancelRequestedAt: number | null
  cancelReason: 'user' | 'superseded' | 'environment_removed' | null
  supersededBy: number | null
  failure: string | null
  warnings: Generated<string>
  lateOutcome: string | null
  createdAt: number
  startedAt: number | null
  liveAt: number | null
  finishedAt: number | null
  deliveryId: number | null
  skipSteps: Generated<Flag>
  /** Of the .service.yml it read. */
  serviceFileSha: string | null
  /** Removes the copy on a former server; the environment itself stays and is not locked. */
  formerCopy: Generated<Flag>
  action: string | null
}

export interface AttemptsTable {
  id: string
  taskId: number
  number: number
  agentId: string
  environmentId: number
  fence: number
  state: number
  desired: number
  variablesRevision: number
  waitingFor: string | null
  createdAt: number
  acceptedAt: number | null
  startedAt: number | null
  finishedAt: number | null
  code: Generated<number>
  message: Generated<string>
  failedStepId: Generated<string>
  exitCode: number | null
  platformCheck: Generated<Flag>
  /** Set with the terminal state: the log is complete when this record is stored. */
  finalLogSeq: number | null
  logSha256: string | null
  logDropped: Generated<number>
  ackedLogSeq: Generated<number>
  logBytes: Generated<number>
  logLines: Generated<number>
  /** The stored log has a gap that the agent's digest does not know. */
  logGap: Generated<Flag>
  logCompleteAt: number | null
  logTruncated: Generated<Flag>
  logExpiredAt: number | null
  unreachableSince: number | null
  lateOutcome: string | null
  /** The agent has deleted everything of it but its tombstone. */
  releasedAt: number | null
}

export interface AttemptStepsTable {
  attemptId: string
  stepIndex: number
  phase: string
  phaseTitle: string
  stepId: string
  title: string
  state: Generated<number>
  exitCode: number | null
  message: Generated<string>
  firstLogSeq: number | null
  lastLogSeq: number | null
  startedAt: number | null
  durationMs: number | null
}
