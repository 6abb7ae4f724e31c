// Pull requests that wait for a place, and everything that waits for the platform: for a server that never joined, for
// a removal to end. Served in the transaction that removes the reason, the longest waiting first, so that no newer pull
// request takes the place.

import type { Context } from '../../context.ts'
import { decideAdmission } from '../../domain/forges/admission.ts'
import { decideRedeployment } from '../../domain/forges/redeployment.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import {
  listEnvironmentsAwaitingServer,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import {
  findPullRequest,
  listProjectsAwaiting,
  listWaitingPullRequests,
  type PullRequest,
} from '../../store/forges/pull-requests.ts'
import {
  countEnvironments,
  findProject,
  lockProject,
  type Project,
} from '../../store/projects/projects.ts'
import { BERTH } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { commitNews, readAdmission, readRedeployment } from './event-facts.ts'
import { type EventOrigin, type EventResult, perform } from './intents.ts'

const SYSTEM: EventOrigin = { by: BERTH, trigger: 'system', origin: 'event' }

/** Decides by the stored record alone. The caller has locked the project. */
export async function admit(
  ctx: Context,
  c: Change,
  project: Project,
  pull: PullRequest,
  o: EventOrigin,
): Promise<EventResult> {
  const asked = { origin: o.origin, message: null }
  const { environment, facts } = await readAdmission(ctx, c, project, pull, asked)
  return perform(ctx, c, { project, pull, environment }, decideAdmission(facts), o)
}

/** Admits waiting pull requests whose reason to wait may have ended; returns the results. Locks the project first. */
export async function admitWaiting(
  ctx: Context,
  c: Change,
  projectId: number,
  o: EventOrigin = SYSTEM,
): Promise<EventResult[]> {
  const project = await lockProject(c.db, projectId)
  if (!project || project.status === 'deleting') return []
  const results: EventResult[] = []
  for (const pull of await listWaitingPullRequests(c.db, projectId, WEBHOOKS.waiting)) {
    // while the project is full, only those that wait for another reason are decided again
    if (pull.waitingFor === 'environment_limit' && (await isFull(c, project))) continue
    const result = await admit(ctx, c, project, pull, o)
    if (result.outcome !== 'waiting' || result.rule !== ruleOf(pull.waitingFor)) {
      results.push(result)
    }
  }
  return results
}

const ruleOf = (waitingFor: string | null): string =>
  waitingFor === 'environment_limit' ? 'environment_limit_reached' : (waitingFor ?? '')

async function isFull(c: Change, project: Project): Promise<boolean> {
  const used = (await countEnvironments(c.db, [project.id])).get(project.id) ?? 0
  return used >= project.environmentLimit
}

/** Deploys what waited for a server when its agent joins for the first time. */
export async function serveJoinedServer(ctx: Context, c: Change, serverId: number): Promise<void> {
  for (const waiting of await listEnvironmentsAwaitingServer(c.db, serverId)) {
    const project = await findProject(c.db, waiting.projectId)
    if (!project) continue
    const number = waiting.pullRequestNumber
    const pull = number === null ? undefined : await findPullRequest(c.db, project.id, number)
    const news = commitNews(waiting.headSha, null)
    const read = await readRedeployment(ctx, c, project, waiting.id, news, {
      origin: 'event',
      pull,
    })
    if (!read) continue
    const { environment, facts } = read
    await updateEnvironment(c.db, waiting.id, { deployOnJoin: 0 })
    await perform(ctx, c, { project, pull, environment }, decideRedeployment(facts), SYSTEM)
  }
  for (const projectId of await listProjectsAwaiting(c.db, serverId)) {
    await admitWaiting(ctx, c, projectId)
  }
}
