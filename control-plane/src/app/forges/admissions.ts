// A pull request gets an environment, waits for something, or gets none: this gathers facts, domain/forges/admission.ts
// decides, and the intents are performed in the same transaction. The caller has locked the project, so that two pull
// requests never take the last place. Fork environments start without any variable.
import { AppError, type Provider, WEBHOOKS } from '@berth/shared'
import type { Context } from '../../context.ts'
import { matchAny } from '../../domain/core/globs.ts'
import { defaultDomain } from '../../domain/environments/environment.ts'
import { decideAdmission } from '../../domain/forges/admission.ts'
import { type Decision, decide } from '../../domain/forges/intent.ts'
import {
  type Environment,
  findEnvironment,
  insertEnvironment,
  listEnvironments,
} from '../../store/environments/environments.ts'
import {
  isApproved,
  listLine,
  type PullRequest,
  updatePullRequest,
} from '../../store/forges/pull-requests.ts'
import {
  countEnvironments,
  listProjectServers,
  type Project,
} from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import { audit } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { emit } from '../core/transaction.ts'
import { claimEnvironmentDomain } from '../environments/hostnames.ts'
import {
  commitNews,
  decideFor,
  type EventOrigin,
  type EventResult,
  performFor,
} from './redeployments.ts'

export const identifierOf = (number: number): string => `pr-${number}`

/** Also finds an environment that is being removed. */
export async function findPullRequestEnvironment(
  c: Change,
  project: Project,
  number: number,
): Promise<Environment | undefined> {
  const [environment] = await listEnvironments(c.db, project.id, {
    identifier: identifierOf(number),
  })
  return environment
}

interface Home {
  serverId: number | undefined
  serverName: string
  joined: boolean
}

/** The caller has locked the project, so a removal of the server waits and the result stays valid. */
async function findHome(c: Change, project: Project): Promise<Home> {
  const servers = (await listProjectServers(c.db, [project.id])).get(project.id) ?? []
  const serverId = project.defaultServerId ?? servers[0]?.id
  const server = serverId === undefined ? undefined : await findServer(c.db, serverId)
  const agent = serverId === undefined ? undefined : await findServerAgent(c.db, serverId)
  return {
    serverId,
    serverName: server?.name ?? 'a server',
    joined: agent !== undefined,
  }
}

/** Decides by the stored record alone; needs nothing else of an event. */
export async function admit(
  ctx: Context,
  c: Change,
  project: Project,
  pull: PullRequest,
  o: EventOrigin,
  message: string | null = null,
): Promise<EventResult> {
  const found = await findPullRequestEnvironment(c, project, pull.number)
  const home = await findHome(c, project)
  const news = commitNews(pull.headSha || null, message)
  const line = await listLine(c.db, project.id, WEBHOOKS.line)
  const place = line.indexOf(pull.id)
  const used = (await countEnvironments(c.db, [project.id])).get(project.id) ?? 0
  const again = found
    ? await decideFor(ctx, c, project, found.id, news, { ...o, pullRequest: pull })
    : undefined
  const environment = again?.environment
  const decision = decideAdmission({
    number: pull.number,
    state: pull.state,
    identifier: identifierOf(pull.number),
    previewsOn: project.pullRequestEnvironments === 1,
    baseBranch: pull.baseBranch,
    baseAllowed:
      matchAny(JSON.parse(project.pullRequestBases) as string[], [pull.baseBranch]) === 'yes',
    draft: pull.draft,
    deployDrafts: project.deployDrafts === 1,
    fromFork: pull.fromFork,
    forkPolicy: project.forkPullRequests,
    provider: (project.provider ?? 'github') as Provider,
    defaultRecipe: project.defaultRecipe,
    headSha: news.sha,
    headApproved: await isApproved(c.db, project.id, pull.number, news.sha),
    environment: environment && {
      removing: environment.removingAt !== null,
      protected: environment.protected,
    },
    serverName: home.serverName,
    serverJoined: home.joined,
    limit: project.environmentLimit,
    used,
    position: place < 0 ? line.length + 1 : place + 1,
    redeploy: () => again?.decision ?? gone(pull.number),
  })
  if (again && decision === again.decision) {
    await performWaiting(c, pull, decision)
    return performFor(c, project, again.environment, decision, news, o)
  }
  return perform(ctx, c, project, pull, home, decision, o)
}

const gone = (number: number): Decision =>
  decide('ignored', 'no_environment', `The environment of pull request ${number} is gone.`)

/** Sets what the record waits for to exactly what the decision says. */
export async function performWaiting(
  c: Change,
  pull: PullRequest,
  decision: Decision,
): Promise<PullRequest> {
  const reason = waitingReason(decision)
  if (reason === pull.waitingFor) return pull
  const waitingSince = reason === null ? null : c.now
  const changed = await updatePullRequest(c.db, pull.id, {
    waitingFor: reason,
    waitingSince,
    updatedAt: c.now,
  })
  emitPullRequest(c, changed)
  return changed
}

function waitingReason(decision: Decision): PullRequest['waitingFor'] {
  for (const intent of decision.intents) {
    if (intent.kind === 'ask_approval') return 'approval'
    if (intent.kind === 'join_line') return 'environment_limit'
    // the row of an environment records that it waits for its server
    if (intent.kind === 'wait') return intent.for
  }
  return null
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

async function perform(
  ctx: Context,
  c: Change,
  project: Project,
  pull: PullRequest,
  home: Home,
  decision: Decision,
  o: EventOrigin,
): Promise<EventResult> {
  const record = await performWaiting(c, pull, decision)
  const { outcome, rule, reason } = decision
  const result: EventResult = {
    environmentId: null,
    identifier: identifierOf(pull.number),
    outcome,
    rule,
    reason,
    taskId: null,
  }
  if (!decision.intents.some((intent) => intent.kind === 'create_environment')) return result
  const made = await createEnvironment(ctx, c, project, record, home, o).catch((error: unknown) => {
    if (error instanceof AppError) return error
    throw error
  })
  if (made instanceof AppError) {
    // another environment has the address: reported, and retried with the next event
    return { ...result, outcome: 'error', rule: 'domain_in_use', reason: made.message }
  }
  const news = commitNews(record.headSha || null)
  return { ...(await performFor(c, project, made, decision, news, o)), reason }
}

async function createEnvironment(
  ctx: Context,
  c: Change,
  project: Project,
  pull: PullRequest,
  home: Home,
  o: EventOrigin,
): Promise<Environment> {
  const { organizationId } = project
  const identifier = identifierOf(pull.number)
  const domain = defaultDomain(identifier, project.domain)
  await claimEnvironmentDomain(ctx, c, project, null, domain)
  if (home.serverId === undefined) throw new Error('unreachable: a joined server has an id')
  const id = await insertEnvironment(c.db, {
    organizationId,
    projectId: project.id,
    identifier,
    title: pull.title.slice(0, 100),
    type: 'pull_request',
    recipe: null,
    branch: pull.headBranch,
    domain,
    serverId: home.serverId,
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
