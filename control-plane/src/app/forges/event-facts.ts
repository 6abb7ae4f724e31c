// Reads the facts for the decisions of domain/forges about an environment or a pull request, in the transaction in which
// the intents are performed. The caller has locked the project, so that two pull requests never take the last place.
import type { Provider } from '@berth/shared'
import type { Context } from '../../context.ts'
import { matchAny } from '../../domain/core/globs.ts'
import { isLeftBehind } from '../../domain/deployments/pinning.ts'
import type { AdmissionFacts, Home } from '../../domain/forges/admission.ts'
import type { NewestDeployment, RedeploymentFacts } from '../../domain/forges/redeployment.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import { findTask, listUnfinishedTasks, type Task } from '../../store/deployments/tasks.ts'
import {
  type Environment,
  listEnvironments,
  lockEnvironment,
} from '../../store/environments/environments.ts'
import {
  findPullRequest,
  isApproved,
  listWaiting,
  type PullRequest,
} from '../../store/forges/pull-requests.ts'
import {
  countEnvironments,
  listProjectServers,
  type Project,
} from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import type { Change } from '../core/change.ts'
import { hasSession, inStartGrace } from '../servers/servers.ts'

/** A commit that an event reports. */
interface CommitNews {
  /** Null means the present head of the branch. */
  sha: string | null
  before: string | null
  message: string | null
  paths: string[] | null
}

export const commitNews = (sha: string | null, message: string | null): CommitNews => ({
  sha,
  before: null,
  message,
  paths: null,
})

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

interface Existing {
  environment: Environment
  facts: RedeploymentFacts
}

/** Undefined if it was just removed. `pull` is the pull request it belongs to, in its present state. */
export async function readRedeployment(
  ctx: Context,
  c: Change,
  project: Project,
  environmentId: number,
  news: CommitNews,
  o: { origin: RedeploymentFacts['origin']; pull: PullState | undefined },
): Promise<Existing | undefined> {
  // read under its lock, so that a concurrent protection counts
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
    o.pull ?? (number === null ? undefined : await findPullRequest(c.db, project.id, number))
  const patterns = JSON.parse(project.watchPaths) as string[]
  const facts = {
    environmentId,
    identifier: environment.identifier,
    sha: news.sha,
    removing: environment.removingAt !== null,
    ended: pull?.state === 'merged' || pull?.state === 'closed' ? pull.state : null,
    protected: environment.protected,
    autoDeploy: environment.autoDeploy,
    fromFork: environment.fromFork || pull?.fromFork === true,
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
    serverOnline: hasSession(agent) || inStartGrace(ctx),
    leftBehind: isLeftBehind(environment.pinnedFrom, news.sha),
    queuedTaskId: queued?.id ?? null,
    runningTaskId: running?.id ?? null,
    origin: o.origin,
  }
  return { environment, facts }
}

type PullState = Pick<PullRequest, 'state' | 'fromFork'>

/** A pull request as its record has it, or as an event leaves it; without an id it is new. */
type Pull = PullState &
  Pick<PullRequest, 'number' | 'baseBranch' | 'draft' | 'headSha'> & { id?: number | undefined }

/** The place for an environment is read only if the pull request has none. */
export async function readAdmission(
  ctx: Context,
  c: Change,
  project: Project,
  pull: Pull,
  o: { origin: RedeploymentFacts['origin']; message: string | null },
): Promise<{ environment: Environment | undefined; facts: AdmissionFacts }> {
  const { number, state, baseBranch, draft, fromFork } = pull
  const headSha = pull.headSha || null
  const found = await findPullRequestEnvironment(c, project, number)
  const news = commitNews(headSha, o.message)
  const existing =
    found && (await readRedeployment(ctx, c, project, found.id, news, { origin: o.origin, pull }))
  const facts: AdmissionFacts = {
    number,
    state,
    identifier: identifierOf(number),
    previewsOn: project.pullRequestEnvironments === 1,
    baseBranch,
    baseAllowed: matchAny(JSON.parse(project.pullRequestBases) as string[], [baseBranch]) === 'yes',
    draft,
    deployDrafts: project.deployDrafts === 1,
    fromFork,
    forkPolicy: project.forkPullRequests,
    provider: (project.provider ?? 'github') as Provider,
    defaultRecipe: project.defaultRecipe,
    headSha,
    headApproved: fromFork && (await isApproved(c.db, project.id, number, headSha)),
    home: existing
      ? { kind: 'environment', environment: existing.facts }
      : await readPlace(c, project, pull.id),
  }
  return { environment: existing?.environment, facts }
}

/** The project's lock makes a removal of the server wait, so the result stays valid. */
async function readPlace(c: Change, project: Project, pullId: number | undefined): Promise<Home> {
  const servers = (await listProjectServers(c.db, [project.id])).get(project.id) ?? []
  const serverId = project.defaultServerId ?? servers[0]?.id
  const server = serverId === undefined ? undefined : await findServer(c.db, serverId)
  const agent = serverId === undefined ? undefined : await findServerAgent(c.db, serverId)
  const waiting = await listWaiting(c.db, project.id, WEBHOOKS.waiting, pullId)
  const place = waiting.indexOf(pullId ?? 0)
  return {
    kind: 'place',
    serverName: server?.name ?? 'a server',
    serverId: agent && serverId !== undefined ? serverId : null,
    limit: project.environmentLimit,
    used: (await countEnvironments(c.db, [project.id])).get(project.id) ?? 0,
    inLine: waiting.length,
    position: place < 0 ? null : place + 1,
  }
}
