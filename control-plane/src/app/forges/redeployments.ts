// Applies an event to an existing environment: this gathers facts, domain/forges/redeployment.ts decides, and the
// intents are performed in the same transaction. At most one deployment runs and one is queued; a newer commit replaces
// the queued one. The caller has locked the project.
import type { DeliveryOutcome, DeliveryRule, Trigger } from '@berth/shared'
import type { Context } from '../../context.ts'
import { matchAny } from '../../domain/core/globs.ts'
import { isLeftBehind } from '../../domain/deployments/pinning.ts'
import type { Decision } from '../../domain/forges/intent.ts'
import { decideRedeployment, type NewestDeployment } from '../../domain/forges/redeployment.ts'
import { findTask, listUnfinishedTasks, type Task } from '../../store/deployments/tasks.ts'
import {
  type Environment,
  lockEnvironment,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import { findPullRequest, isApproved, type PullRequest } from '../../store/forges/pull-requests.ts'
import type { Project } from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import type { Actor } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { emitEnvironment } from '../core/transaction.ts'
import { queueTask } from '../deployments/queue.ts'
import { stopTask } from '../deployments/stopping.ts'
import { hasSession, inStartGrace } from '../servers/servers.ts'

/** Who caused an event, and how. */
export interface EventOrigin {
  by: Actor
  trigger: Trigger
  /** Reconcile may repeat a deployment that never started. */
  origin: 'event' | 'reconcile'
  /** The branch was checked, so the event matches it. */
  looked?: boolean
}

/** The result for one environment or pull request. */
export interface EventResult {
  environmentId: number | null
  identifier: string | null
  outcome: DeliveryOutcome
  rule: DeliveryRule
  reason: string
  taskId: number | null
}

/** A commit that an event reports. */
export interface CommitNews {
  /** Null means the present head of the branch. */
  sha: string | null
  before: string | null
  message: string | null
  paths: string[] | null
}

export const commitNews = (sha: string | null, message: string | null = null): CommitNews => ({
  sha,
  before: null,
  message,
  paths: null,
})

function describeNewest(task: Task | undefined): NewestDeployment | undefined {
  if (task?.type !== 'deploy') return undefined
  return {
    status: task.status,
    canceledByPerson: task.status === 'canceled' && task.cancelReason === 'user',
    failureCode: task.failure?.code ?? null,
  }
}

/** False only if all paths changed since the deployed commit are known and none is watched. */
function isWatchedChanged(
  patterns: readonly string[],
  environment: Environment,
  news: CommitNews,
): boolean {
  const { commitSha, skippedSha, skippedFrom, skippedRule } = environment
  if (news.paths === null || news.before === null) return true
  const quiet = skippedRule === 'paths_unchanged' && skippedFrom === commitSha ? skippedSha : null
  if (news.before !== commitSha && news.before !== quiet) return true
  return matchAny(patterns, news.paths, { folders: true }) !== 'no'
}

function skippedBefore(environment: Environment, sha: string | null): Environment['skippedRule'] {
  if (sha === null || environment.skippedSha !== sha) return null
  if (environment.skippedRule === 'skip_marker') return 'skip_marker'
  return environment.skippedFrom === environment.commitSha ? environment.skippedRule : null
}

/** Undefined if it was just removed. `pullRequest` is the one it belongs to, in its present state. */
export async function decideFor(
  ctx: Context,
  c: Change,
  project: Project,
  environmentId: number,
  news: CommitNews,
  o: { origin: EventOrigin['origin']; pullRequest: PullRequest | undefined; fromFork?: boolean },
): Promise<{ environment: Environment; decision: Decision } | undefined> {
  const environment = await lockEnvironment(c.db, environmentId)
  if (!environment) return undefined
  const server = await findServer(c.db, environment.serverId)
  const agent = await findServerAgent(c.db, environment.serverId)
  const tasks = (await listUnfinishedTasks(c.db, environment.id)).filter(
    (task) => task.type === 'deploy',
  )
  // a task that was asked to stop counts as running: the next one waits for its end
  const queued = tasks.find((t) => t.status === 'queued' && t.cancelRequestedAt === null)
  const running = tasks.find((t) => t !== queued)
  const newest = await findTask(c.db, environment.lastTaskId ?? 0)
  const number = environment.pullRequestNumber
  const pull =
    o.pullRequest ?? (number === null ? undefined : await findPullRequest(c.db, project.id, number))
  const patterns = JSON.parse(project.watchPaths) as string[]
  const decision = decideRedeployment({
    identifier: environment.identifier,
    sha: news.sha,
    removing: environment.removingAt !== null,
    ended: pull?.state === 'merged' || pull?.state === 'closed' ? pull.state : null,
    protected: environment.protected,
    autoDeploy: environment.autoDeploy,
    fromFork: environment.fromFork || pull?.fromFork === true || o.fromFork === true,
    shaApproved: number !== null && (await isApproved(c.db, project.id, number, news.sha)),
    targetSha: environment.targetSha,
    commitSha: environment.commitSha,
    newest: describeNewest(newest),
    skipMarkerOn: project.skipMarker === 1,
    message: news.message,
    skippedBefore: skippedBefore(environment, news.sha),
    watchesPaths: patterns.length > 0,
    watchedChanged: patterns.length === 0 || isWatchedChanged(patterns, environment, news),
    serverName: server?.name ?? 'its server',
    serverJoined: agent !== undefined,
    serverOnline: hasSession(ctx, agent) || inStartGrace(ctx),
    leftBehind: isLeftBehind(environment.pinnedFrom, news.sha),
    queuedTaskId: queued?.id ?? null,
    runningTaskId: running?.id ?? null,
    origin: o.origin,
  })
  return { environment, decision }
}

/** Performs the intents about the environment; the caller performs those about the pull request's record. */
export async function performFor(
  c: Change,
  project: Project,
  environment: Environment,
  decision: Decision,
  news: CommitNews,
  o: EventOrigin,
): Promise<EventResult> {
  let taskId: number | null = null
  let superseded: Task | null = null
  for (const intent of decision.intents) {
    switch (intent.kind) {
      case 'record':
        if (news.sha !== null && news.sha !== environment.headSha) {
          await updateEnvironment(c.db, environment.id, { headSha: news.sha })
          emitEnvironment(c, environment, 'environment.updated', { head_sha: news.sha })
        }
        break
      case 'mark_skipped': {
        const { rule } = intent
        const skipped = { skippedSha: news.sha, skippedFrom: environment.commitSha }
        await updateEnvironment(c.db, environment.id, { ...skipped, skippedRule: rule })
        break
      }
      case 'wait':
        await updateEnvironment(c.db, environment.id, { deployOnJoin: 1 })
        break
      case 'supersede':
        superseded = (await stopTask(c, intent.taskId, { reason: 'superseded' })).task
        break
      case 'deploy':
        await updateEnvironment(c.db, environment.id, { deployOnJoin: 0 })
        taskId = await queueTask(c, environment, project, {
          type: 'deploy',
          by: o.by,
          trigger: o.trigger,
          sha: intent.sha,
          // keep the options that a user chose for the replaced task
          reset: superseded?.reset ?? false,
          noCache: superseded?.noCache ?? false,
        })
        break
      case 'mark_branch_missing':
        await updateEnvironment(c.db, environment.id, { branchMissing: 1, updatedAt: c.now })
        emitEnvironment(c, environment, 'environment.updated', { branch_missing: true })
        break
      default:
        break // the caller handles the pull request's record
    }
  }
  const { outcome, rule, reason } = decision
  const { id, identifier } = environment
  return { environmentId: id, identifier, outcome, rule, reason, taskId }
}
