// Applies one normalised event: which repository, which environments, which decisions. Deliveries, replays and
// reconcile share it. The caller has locked the project in the given transaction.
import type { DeliveryOutcome } from '@berth/shared'
import type { Context } from '../../context.ts'
import { decideDelivery, type EarlierDelivery } from '../../domain/forges/delivery.ts'
import type {
  BranchChange,
  NormalisedEvent,
  PullRequestEvent,
  PushEvent,
} from '../../domain/forges/payloads/event.ts'
import { decidePush } from '../../domain/forges/redeployment.ts'
import { matchRepository, type RepositoryMatch } from '../../domain/forges/repository-match.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import { type Environment, listEnvironments } from '../../store/environments/environments.ts'
import { listOpenPullRequests, type PullRequest } from '../../store/forges/pull-requests.ts'
import { type Project, updateProject } from '../../store/projects/projects.ts'
import type { Change } from '../core/change.ts'
import { emit } from '../core/transaction.ts'
import { readRedeployment } from './event-facts.ts'
import { type EventOrigin, type EventResult, perform } from './intents.ts'
import { applyPullRequest, followPush } from './pull-requests.ts'

export type AppliedEvent = Pick<EventResult, 'outcome' | 'rule' | 'reason'> & {
  results: EventResult[]
  taskIds: number[]
}

const STRENGTH: Record<DeliveryOutcome, number> = {
  queued: 7,
  error: 6,
  waiting: 5,
  applied: 4,
  ignored: 3,
  duplicate: 2,
  received: 1,
  refused: 0,
}

export const alone = (
  decision: Pick<EventResult, 'outcome' | 'rule' | 'reason'>,
): AppliedEvent => ({
  outcome: decision.outcome,
  rule: decision.rule,
  reason: decision.reason,
  results: [],
  taskIds: [],
})

/** The strongest result represents all of them. */
function together(results: EventResult[]): AppliedEvent {
  const [first, ...others] = results.toSorted((a, b) => STRENGTH[b.outcome] - STRENGTH[a.outcome])
  if (!first) return NOT_CONCERNED
  const { outcome, rule } = first
  const reason =
    others.length === 0 ? first.reason : `${first.reason} ${others.length} more were looked at.`
  const taskIds = results.map((r) => r.taskId).filter((id) => id !== null)
  return { outcome, rule, reason, results, taskIds }
}

const NOT_CONCERNED: AppliedEvent = alone({
  outcome: 'ignored',
  rule: 'no_environment',
  reason: 'No environment tracks the branch.',
})

/** A delivery before its kind is considered. `event` is null if the payload was not understood. */
export interface Understood {
  event: NormalisedEvent | null
  /** Where the payload is wrong, if it was not understood. */
  where: string
  earlier: EarlierDelivery | undefined
}

/** An event about the project's repository and about something used here. */
export interface Accepted {
  event: PushEvent | PullRequestEvent
  match: RepositoryMatch | undefined
}

/** Decides what needs no environment or pull request. */
export function judgeDelivery(
  project: Project,
  { event, where, earlier }: Understood,
  origin: EventOrigin['origin'],
): AppliedEvent | Accepted {
  // reconcile read the project's own address, so the repository matches
  const match = event && origin === 'event' ? matchOf(project, event) : undefined
  const decision = decideDelivery({
    earlier,
    kind: event?.kind ?? 'malformed',
    what: event?.kind === 'other' ? event.name : where,
    match,
    projectDeleting: project.status === 'deleting',
  })
  if (decision) return alone(decision)
  if (!event || event.kind === 'ping' || event.kind === 'other') return NOT_CONCERNED
  return { event, match }
}

/** For reconcile: an event that is understood and not a duplicate. */
export async function applyEvent(
  ctx: Context,
  c: Change,
  project: Project,
  event: NormalisedEvent,
  o: EventOrigin,
): Promise<AppliedEvent> {
  const judged = judgeDelivery(project, { event, where: '', earlier: undefined }, o.origin)
  return 'match' in judged ? applyAccepted(ctx, c, project, judged, o) : judged
}

export async function applyAccepted(
  ctx: Context,
  c: Change,
  project: Project,
  { event, match }: Accepted,
  o: EventOrigin,
): Promise<AppliedEvent> {
  const known = await learn(c, project, event, match)
  if (event.kind === 'push') return applyPush(ctx, c, known, event, o)
  return together([await applyPullRequest(ctx, c, known, event, o)])
}

function matchOf(project: Project, event: NormalisedEvent): RepositoryMatch | undefined {
  if (!event.repository || event.kind === 'ping' || event.kind === 'other') return undefined
  return matchRepository(project, {
    provider: event.provider,
    externalId: event.repository.external_id,
    fullName: event.repository.full_name,
    webUrl: event.repository.web_url,
  })
}

/** Stores the first match; from then on the forge's id decides. */
async function learn(
  c: Change,
  project: Project,
  event: NormalisedEvent,
  match: RepositoryMatch | undefined,
): Promise<Project> {
  if (match?.kind !== 'match' || !event.repository) return project
  const { provider } = event
  const learned = match.learn ? { provider, externalId: event.repository.external_id } : {}
  const soon = c.now + WEBHOOKS.reconcileMs
  const at = project.reconcileAt
  const change = {
    ...learned,
    ...(match.renamedTo === project.renamedTo ? {} : { renamedTo: match.renamedTo }),
    ...(at !== null && at <= soon ? {} : { reconcileAt: soon }),
  }
  if (Object.keys(change).length === 0) return project
  await updateProject(c.db, project.id, change)
  if (match.learn || match.renamedTo !== project.renamedTo) {
    const { organizationId, id: projectId } = project
    emit(c, { organizationId, projectId }, 'project.updated', { renamed_to: match.renamedTo })
  }
  return { ...project, ...change }
}

async function applyPush(
  ctx: Context,
  c: Change,
  project: Project,
  event: PushEvent,
  o: EventOrigin,
): Promise<AppliedEvent> {
  const environments = await listEnvironments(c.db, project.id)
  const pulls = await listOpenPullRequests(c.db, project.id, WEBHOOKS.waiting)
  const results: EventResult[] = []
  for (const change of event.changes) {
    const own = pulls.filter((pull) => pull.headBranch === change.branch && !pull.fromFork)
    for (const pull of own) await followPush(c, pull, change, o.looked === true)
    for (const environment of environments.filter((e) => tracks(e, change.branch))) {
      const pull = own.find((p) => p.number === environment.pullRequestNumber)
      const result = await pushTo(ctx, c, project, environment.id, pull, change, o)
      if (result) results.push(result)
    }
  }
  return together(results)
}

/** A fork's branch may have the same name as one of ours. */
export const tracks = (e: Environment, branch: string): boolean =>
  e.branch === branch && !e.fromFork

async function pushTo(
  ctx: Context,
  c: Change,
  project: Project,
  environmentId: number,
  pull: PullRequest | undefined,
  change: BranchChange,
  o: EventOrigin,
): Promise<EventResult | undefined> {
  const asked = { origin: o.origin, pull }
  const read = await readRedeployment(ctx, c, project, environmentId, change, asked)
  if (!read) return undefined
  const { environment, facts } = read
  const decision = decidePush(change, environment, facts)
  return perform(ctx, c, { project, pull, environment }, decision, o)
}
