// One reconcile round of a project: reads git, and with a token the forge; then turns what was missed into events, in
// one transaction without network work. Rows that changed since the read are newer than it and wait for the next round.
// Writes one delivery row if something changed. An unreachable forge is shown at the project; deliveries still work.
import { randomUUID } from 'node:crypto'
import { FORGE_API, never } from '@berth/shared'
import type { Context } from '../../context.ts'
import { isOver } from '../../domain/forges/admission.ts'
import type { NormalisedEvent } from '../../domain/forges/payloads/event.ts'
import {
  type Finding,
  type ForgeTruth,
  findMissed,
  type KnownEnvironment,
  type KnownPullRequest,
} from '../../domain/forges/reconcile.ts'
import { type ForgeClient, ForgeError } from '../../forges/clients/forge.ts'
import type { Look } from '../../forges/git.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import { listTasksById, type Task } from '../../store/deployments/tasks.ts'
import { type Environment, listEnvironments } from '../../store/environments/environments.ts'
import { listPullRequestsByNumber } from '../../store/forges/pull-request-heads.ts'
import {
  findPullRequest,
  listOpenPullRequests,
  listWaitingPullRequests,
  type PullRequest,
  updatePullRequest,
} from '../../store/forges/pull-requests.ts'
import { updateRepositoryFacts } from '../../store/forges/repositories.ts'
import { insertDelivery } from '../../store/forges/webhook-deliveries.ts'
import { findProject, lockProject, type Project } from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { audit } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { changeUnlessTaken, emit } from '../core/transaction.ts'
import { hasSession } from '../servers/servers.ts'
import { identifierOf } from './event-facts.ts'
import { applyEvent } from './forge-events.ts'
import { openProjectForge } from './forge-tokens.ts'
import { type EventOrigin, type EventResult, emitPullRequest } from './intents.ts'
import { fromRecord, fromSeen, pullRequestEvent, pushEvent } from './reconcile-events.ts'
import { lookAtRepository, recordLook } from './repository.ts'
import { admitWaiting } from './waiting-list.ts'

const BY: EventOrigin = {
  by: { type: 'system', name: 'reconcile' },
  trigger: 'reconcile',
  origin: 'reconcile',
}

/** The state before the repository was read. */
interface Known {
  lookedAt: number
  environments: Environment[]
  tasks: Map<number, Task>
  pullRequests: PullRequest[]
  /** Numbers of ended pull requests whose environment was kept. */
  over: Set<number>
  online: Set<number>
}

export async function reconcileProject(ctx: Context, projectId: number): Promise<void> {
  const project = await findProject(ctx.db, projectId)
  if (!project || project.status === 'deleting') return
  const known = await readKnown(ctx, projectId)
  const look = await lookAtRepository(ctx, project)
  const client = look.ok ? await openProjectForge(ctx, project) : undefined
  const host = client && (await askHost(client, known))
  const isQuiet = !look.ok || (await isUnchanged(ctx, project, known, look, host?.truth))
  await changeUnlessTaken(ctx, async (c) => {
    await recordLook(c, project, look)
    if (host) await recordHost(c, project, host)
    if (!look.ok) return
    if (isQuiet) return updateRepositoryFacts(c.db, projectId, { reconciledAt: c.now })
    const held = await lockProject(c.db, projectId)
    if (!held || held.status === 'deleting') return
    await applyLook(ctx, c, held, known, look, host?.truth)
    await updateRepositoryFacts(c.db, projectId, { reconciledAt: c.now })
  })
}

async function readKnown(ctx: Context, projectId: number): Promise<Known> {
  const { db } = ctx
  const lookedAt = ctx.clock.now()
  const environments = await listEnvironments(db, projectId)
  const newest = environments.map((e) => e.lastTaskId).filter((id) => id !== null)
  const online = new Set<number>()
  for (const serverId of new Set(environments.map((e) => e.serverId))) {
    if (hasSession(await findServerAgent(db, serverId))) online.add(serverId)
  }
  const numbers = environments.map((e) => e.pullRequestNumber).filter((number) => number !== null)
  const records = await listPullRequestsByNumber(db, projectId, numbers)
  return {
    lookedAt,
    environments,
    over: new Set(records.filter(isOver).map((record) => record.number)),
    tasks: await listTasksById(db, newest),
    pullRequests: await listOpenPullRequests(db, projectId, WEBHOOKS.waiting),
    online,
  }
}

interface HostAnswer {
  truth: ForgeTruth | undefined
  error: ForgeError | undefined
}

/** Reads the list, and one by one the pull requests that left it. Uses the network. */
async function askHost(client: ForgeClient, known: Known): Promise<HostAnswer> {
  try {
    const { pullRequests, complete } = await client.listOpenPullRequests()
    const listed = new Set(pullRequests.map((p) => p.number))
    const open = pullRequests.filter((p) => p.usable)
    const left = known.pullRequests.filter((p) => !listed.has(p.number))
    const asked: [number, Awaited<ReturnType<ForgeClient['findPullRequest']>>][] = []
    if (complete) {
      for (const { number } of left.slice(0, FORGE_API.closedPerRound)) {
        asked.push([number, await client.findPullRequest(number)])
      }
    }
    return { truth: { open, complete, asked: new Map(asked) }, error: undefined }
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error
    return { truth: undefined, error }
  }
}

async function recordHost(c: Change, project: Project, { error }: HostAnswer): Promise<void> {
  const message = error?.message ?? null
  const facts = { hostTokenCheckedAt: c.now, hostTokenError: message }
  await updateRepositoryFacts(c.db, project.id, facts)
  if (project.hostTokenError === message) return
  const about = { organizationId: project.organizationId, projectId: project.id }
  emit(c, about, 'project.updated', { host_token_error: message !== null })
}

/**
 * Most rounds find nothing; then no lock is taken and no row is read again. Later changes are newer than the read and
 * belong to the next round.
 */
async function isUnchanged(
  { db, clock }: Context,
  project: Project,
  known: Known,
  look: Extract<Look, { ok: true }>,
  host: ForgeTruth | undefined,
): Promise<boolean> {
  const shown = host?.open.map((p) => p.number) ?? []
  const reported = await listPullRequestsByNumber(db, project.id, shown)
  const records = [...known.pullRequests, ...reported]
  const missed = findMissed({
    now: clock.now(),
    refs: look.refs,
    host,
    environments: known.environments.map((e) => toKnownEnvironment(e, known)),
    pullRequests: records.map((r) => toKnownPullRequest(r, known.environments, known)),
  })
  return missed.length === 0 && (await listWaitingPullRequests(db, project.id, 1)).length === 0
}

/** Skips rows that changed since the repository was read: they are newer. */
async function applyLook(
  ctx: Context,
  c: Change,
  project: Project,
  known: Known,
  look: Extract<Look, { ok: true }>,
  host: ForgeTruth | undefined,
): Promise<void> {
  const before = new Map(known.environments.map((e) => [e.id, e]))
  const environments = (await listEnvironments(c.db, project.id)).filter((e) => {
    const then = before.get(e.id)
    return then && then.lastTaskId === e.lastTaskId && then.targetSha === e.targetSha
  })
  const shown = host?.open.map((p) => p.number) ?? []
  const records = [
    ...(await listOpenPullRequests(c.db, project.id, WEBHOOKS.waiting)),
    ...(await listPullRequestsByNumber(c.db, project.id, shown)),
  ]
  const isFresh = (record: PullRequest): boolean => record.updatedAt > known.lookedAt
  const fresh = new Set(records.filter(isFresh).map((r) => r.number))
  const settled = records.filter((r) => !isFresh(r))
  const sight = {
    now: c.now,
    refs: look.refs,
    host: host && { ...host, open: host.open.filter((p) => !fresh.has(p.number)) },
    environments: environments.map((e) => toKnownEnvironment(e, known)),
    pullRequests: settled.map((r) => toKnownPullRequest(r, environments, known)),
  }
  const results: EventResult[] = []
  for (const finding of findMissed(sight)) {
    results.push(...(await applyFinding(ctx, c, project, finding)))
  }
  results.push(...(await admitWaiting(ctx, c, project.id, BY)))
  const reported = results.filter((r) => r.outcome !== 'ignored')
  if (reported.length > 0) await writeDelivery(c, project, reported)
}

/** Unsigned, because Berth itself found it. */
async function writeDelivery(c: Change, project: Project, results: EventResult[]): Promise<void> {
  const strongest = results.find((r) => r.taskId !== null) ?? results[0]
  if (!strongest) return
  const more = results.length - 1
  const reason = more > 0 ? `${strongest.reason} ${more} more were found.` : strongest.reason
  const { organizationId, id: projectId } = project
  const id = await insertDelivery(c.db, {
    organizationId,
    projectId,
    provider: project.provider ?? 'git',
    deliveryId: `reconcile-${randomUUID()}`,
    event: 'reconcile',
    receivedAt: c.now,
    decidedAt: c.now,
    actor: 'reconcile',
    signedWith: 'none',
    outcome: strongest.outcome,
    rule: strongest.rule,
    reason,
    results: JSON.stringify(results),
    responseStatus: 200,
    headers: '{}',
    normalised: null,
    bodySha256: '',
    bodyBytes: 0,
  })
  const about = { outcome: strongest.outcome, rule: strongest.rule, event: 'reconcile' }
  await audit(c, BY.by, organizationId, 'project.reconciled', ['project', projectId], {
    delivery_id: id,
    ...about,
  })
  emit(c, { organizationId, projectId }, 'delivery.created', { id, ...about })
}

function neverStarted(environment: Environment | undefined, known: Known): boolean {
  if (!environment || !known.online.has(environment.serverId)) return false
  const task = known.tasks.get(environment.lastTaskId ?? 0)
  return task?.type === 'deploy' && task.failure?.code === 'server_offline'
}

const toKnownEnvironment = (e: Environment, known: Known): KnownEnvironment => ({
  id: e.id,
  type: e.type,
  branch: e.branch,
  targetSha: e.targetSha,
  pinnedFrom: e.pinnedFrom,
  branchMissing: Boolean(e.branchMissing),
  fromFork: Boolean(e.fromFork),
  ended: e.removingAt !== null || known.over.has(e.pullRequestNumber ?? 0),
  neverStarted: neverStarted(e, known),
})

const toKnownPullRequest = (
  record: PullRequest,
  environments: Environment[],
  known: Known,
): KnownPullRequest => {
  const own = environments.find((e) => e.pullRequestNumber === record.number)
  return { ...record, neverStarted: neverStarted(own, known) }
}

async function applyFinding(
  ctx: Context,
  c: Change,
  project: Project,
  finding: Finding,
): Promise<EventResult[]> {
  const apply = async (event: NormalisedEvent): Promise<EventResult[]> =>
    (await applyEvent(ctx, c, project, event, BY)).results
  switch (finding.kind) {
    case 'push':
      return apply(pushEvent(project, finding.branch, finding.sha))
    case 'branch_deleted':
      return apply(pushEvent(project, finding.branch, null))
    case 'host': {
      const { pullRequest: seen, action } = finding
      const record = await findPullRequest(c.db, project.id, seen.number)
      const at = Math.max(seen.updatedAt, record?.happenedAt ?? 0)
      const isOver = action === 'merged' || action === 'closed'
      const reported = isOver && record ? fromRecord(record) : fromSeen(seen)
      return apply(pullRequestEvent(project, action, reported, at))
    }
    default: {
      const record = await findPullRequest(c.db, project.id, finding.number)
      return record ? applyToRecord(c, project, record, finding, apply) : []
    }
  }
}

type RecordFinding = Exclude<Finding, { kind: 'push' | 'branch_deleted' | 'host' }>

async function applyToRecord(
  c: Change,
  project: Project,
  record: PullRequest,
  finding: RecordFinding,
  apply: (event: NormalisedEvent) => Promise<EventResult[]>,
): Promise<EventResult[]> {
  const reported = fromRecord(record)
  switch (finding.kind) {
    case 'head':
      return apply(
        pullRequestEvent(project, 'updated', { ...reported, head_sha: finding.sha }, null),
      )
    case 'again':
      return apply(pullRequestEvent(project, 'reopened', reported, null))
    case 'closed':
      return apply(pullRequestEvent(project, 'closed', reported, null))
    case 'branch_gone':
      await updatePullRequest(c.db, record.id, { branchMissingSince: c.now })
      return []
    case 'presumed_closed': {
      const change = {
        state: 'presumed_closed',
        presumedClosedAt: c.now,
        updatedAt: c.now,
      } as const
      emitPullRequest(c, await updatePullRequest(c.db, record.id, change))
      const reason = `The branch of pull request ${record.number} is gone: it is removed in 24 h unless the branch returns.`
      return [{ ...about(record), outcome: 'applied', rule: 'presumed_closed', reason }]
    }
    case 'branch_back': {
      const change = { branchMissingSince: null, presumedClosedAt: null }
      if (!finding.reopens) {
        await updatePullRequest(c.db, record.id, change)
        return []
      }
      const opened = { ...change, state: 'open', updatedAt: c.now } as const
      emitPullRequest(c, await updatePullRequest(c.db, record.id, opened))
      const reason = `The branch of pull request ${record.number} is back.`
      return [{ ...about(record), outcome: 'applied', rule: 'recorded', reason }]
    }
    default:
      return never(finding)
  }
}

const about = (record: PullRequest) => ({
  environmentId: record.environmentId,
  identifier: identifierOf(record.number),
  taskId: null,
})
