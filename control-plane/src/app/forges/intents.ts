// Performs the intents of a decision in order, in the transaction in which its facts were read. At most one deployment
// runs and one is queued; a newer commit replaces the queued one. Fork environments start without any variable.
import {
  AppError,
  type DeliveryOutcome,
  type DeliveryRule,
  never,
  type Trigger,
} from '@berth/shared'
import type { Context } from '../../context.ts'
import { defaultDomain } from '../../domain/environments/environment.ts'
import type { EventDecision, Intent, ReportedPullRequest } from '../../domain/forges/intent.ts'
import type { Task } from '../../store/deployments/tasks.ts'
import {
  type Environment,
  findEnvironment,
  insertEnvironment,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import {
  insertPullRequest,
  type PullRequest,
  updatePullRequest,
} from '../../store/forges/pull-requests.ts'
import type { Project } from '../../store/projects/projects.ts'
import { type Actor, audit } from '../core/audit.ts'
import type { Change, Happened } from '../core/change.ts'
import { emit, emitEnvironment } from '../core/transaction.ts'
import { queueTask } from '../deployments/queue.ts'
import { stopTask } from '../deployments/stopping.ts'
import { claimEnvironmentDomain } from '../environments/hostnames.ts'
import { recordFork } from '../environments/variables.ts'
import { identifierOf } from './event-facts.ts'

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

/** What a decision is about. */
interface Subject {
  project: Project
  pull: PullRequest | undefined
  environment: Environment | undefined
}

/** Leaves a removal to the caller: it frees a place, and giving that away performs intents again. */
export async function perform(
  ctx: Context,
  c: Change,
  subject: Subject,
  decision: EventDecision,
  o: EventOrigin,
): Promise<EventResult> {
  const { project } = subject
  let { pull, environment } = subject
  let superseded: Task | undefined
  const { environmentId, identifier, outcome, rule, reason } = decision
  const result: EventResult = { environmentId, identifier, outcome, rule, reason, taskId: null }
  for (const intent of decision.intents) {
    switch (intent.kind) {
      case 'record':
        pull = await writeRecord(c, subject, intent.pull)
        break
      case 'wait':
        pull = pull && (await writeWaiting(c, pull, intent.for))
        break
      case 'create_environment': {
        if (!pull) throw new Error('unreachable: an admitted pull request has a record')
        const made = await createEnvironment(ctx, c, project, pull, intent.serverId, o).catch(
          (error: unknown) => {
            if (error instanceof AppError) return error
            throw error
          },
        )
        // another environment has the address: reported, and retried with the next event
        if (made instanceof AppError) {
          return { ...result, outcome: 'error', rule: 'domain_in_use', reason: made.message }
        }
        environment = made
        result.environmentId = made.id
        break
      }
      case 'supersede':
        superseded = (await stopTask(c, intent.taskId, { reason: 'superseded', by: null })).task
        break
      case 'remove':
        break
      default:
        if (!environment) throw new Error(`unreachable: ${intent.kind} without an environment`)
        if (intent.kind !== 'deploy') await updateFor(c, environment, intent)
        else result.taskId = await deploy(c, project, environment, intent.sha, superseded, o)
    }
  }
  return result
}

type EnvironmentIntent = Extract<
  Intent,
  { kind: 'record_head' | 'mark_skipped' | 'mark_branch' | 'deploy_on_join' }
>

async function updateFor(
  c: Change,
  environment: Environment,
  intent: EnvironmentIntent,
): Promise<void> {
  const { id } = environment
  switch (intent.kind) {
    case 'record_head':
      if (intent.sha === null || intent.sha === environment.headSha) return
      await updateEnvironment(c.db, id, { headSha: intent.sha })
      return emitEnvironment(c, environment, 'environment.updated', { head_sha: intent.sha })
    case 'mark_skipped': {
      const { sha: skippedSha, from: skippedFrom, rule: skippedRule } = intent
      return updateEnvironment(c.db, id, { skippedSha, skippedFrom, skippedRule })
    }
    case 'deploy_on_join':
      return updateEnvironment(c.db, id, { deployOnJoin: 1 })
    case 'mark_branch':
      if (!intent.missing) return updateEnvironment(c.db, id, { branchMissing: 0 })
      await updateEnvironment(c.db, id, { branchMissing: 1, updatedAt: c.now })
      return emitEnvironment(c, environment, 'environment.updated', { branch_missing: true })
    default:
      return never(intent)
  }
}

async function deploy(
  c: Change,
  project: Project,
  environment: Environment,
  sha: string | null,
  superseded: Task | undefined,
  o: EventOrigin,
): Promise<number> {
  await updateEnvironment(c.db, environment.id, { deployOnJoin: 0 })
  return queueTask(c, environment, project, {
    type: 'deploy',
    by: o.by,
    trigger: o.trigger,
    sha,
    // keep the options that a user chose for the replaced task
    reset: superseded?.reset ?? false,
    noCache: superseded?.noCache ?? false,
  })
}

async function writeRecord(
  c: Change,
  { project, pull, environment }: Subject,
  reported: ReportedPullRequest,
): Promise<PullRequest> {
  // a pull request that may come from a fork is treated as one from now on
  if (reported.fromFork && environment && !environment.fromFork) {
    await recordFork(c, environment.id)
  }
  const facts = {
    ...reported,
    draft: reported.draft ? (1 as const) : (0 as const),
    fromFork: reported.fromFork ? (1 as const) : (0 as const),
    branchMissingSince: null,
    presumedClosedAt: null,
    updatedAt: c.now,
    ...(reported.state === 'open' ? {} : { waitingFor: null, waitingSince: null }),
  }
  const written = pull
    ? await updatePullRequest(c.db, pull.id, facts)
    : await insertPullRequest(c.db, {
        ...facts,
        organizationId: project.organizationId,
        projectId: project.id,
        environmentId: environment?.id ?? null,
        createdAt: c.now,
      })
  emitPullRequest(c, written)
  return written
}

async function writeWaiting(
  c: Change,
  pull: PullRequest,
  waitingFor: PullRequest['waitingFor'],
): Promise<PullRequest> {
  if (waitingFor === pull.waitingFor) return pull
  const waitingSince = waitingFor === null ? null : c.now
  const change = { waitingFor, waitingSince, updatedAt: c.now }
  const changed = await updatePullRequest(c.db, pull.id, change)
  emitPullRequest(c, changed)
  const wait = waitingFor === null ? undefined : WAITS[waitingFor]
  if (wait) {
    const { organizationId, projectId, number, title } = changed
    const pullRequest = { number, title }
    c.happened.push({ ...wait, organizationId, projectId, pullRequest })
  }
  return changed
}

/** What users are told when a pull request begins to wait. */
const WAITS: Partial<
  Record<NonNullable<PullRequest['waitingFor']>, Pick<Happened, 'happening' | 'reason'>>
> = {
  approval: {
    happening: 'approval.needed',
    reason: 'It comes from a fork. Look at its changes, then approve its commit.',
  },
  environment_limit: {
    happening: 'deployment.waiting',
    reason:
      'The project is at its environment limit. It is deployed when an environment is removed.',
  },
  server_not_ready: {
    happening: 'deployment.waiting',
    reason: 'Its server has no agent yet. It is deployed when the server joins.',
  },
}

export const emitPullRequest = (c: Change, pull: PullRequest): void =>
  emit(
    c,
    {
      organizationId: pull.organizationId,
      projectId: pull.projectId,
      environmentId: pull.environmentId,
    },
    'pull_request.updated',
    { number: pull.number, state: pull.state, waiting_for: pull.waitingFor },
  )

async function createEnvironment(
  ctx: Context,
  c: Change,
  project: Project,
  pull: PullRequest,
  serverId: number,
  o: EventOrigin,
): Promise<Environment> {
  const { organizationId } = project
  const identifier = identifierOf(pull.number)
  const domain = defaultDomain(identifier, project.domain)
  await claimEnvironmentDomain(ctx, c, project, null, domain)
  const id = await insertEnvironment(c.db, {
    organizationId,
    projectId: project.id,
    identifier,
    title: pull.title.slice(0, 100),
    type: 'pull_request',
    recipe: null,
    branch: pull.headBranch,
    domain,
    serverId,
    ownerId: project.ownerId,
    autoDeploy: project.autoDeploy,
    pullRequestNumber: pull.number,
    fromFork: pull.fromFork ? 1 : 0,
    headSha: pull.headSha || null,
    createdAt: c.now,
    updatedAt: c.now,
  })
  const linked = await updatePullRequest(c.db, pull.id, { environmentId: id, updatedAt: c.now })
  const details = { identifier, branch: pull.headBranch, pull_request: pull.number, keys: [] }
  await audit(c, o.by, organizationId, 'environment.create', ['environment', id], details)
  const about = { organizationId, projectId: project.id, environmentId: id }
  emit(c, about, 'environment.created', { identifier })
  emitPullRequest(c, linked)
  const environment = await findEnvironment(c.db, id)
  if (!environment) throw new Error('unreachable: it was just made')
  return environment
}
