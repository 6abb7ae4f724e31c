// Agents claim hostnames, only for their own attempt that is live and the newest of its environment. Claims are
// serialized in one transaction, the store's unique key backs them, and they are idempotent. A name is released by the
// first successful deployment that does not use it, and with its environment.
import { HOST_CLAIMS } from '@berth/shared'
import { forgeFault, normalizeHost } from '@berth/shared/service-file'
import { AttemptState } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import {
  decideHost,
  type HostAsker,
  type HostDecision,
  type HostFacts,
} from '../../domain/environments/hostname-claims.ts'
import { isAtOrBelow, isReserved, isUnlisted } from '../../domain/environments/hostnames.ts'
import { type Attempt, findAttempt } from '../../store/deployments/attempts.ts'
import { findTask } from '../../store/deployments/tasks.ts'
import { type Environment, lockEnvironment } from '../../store/environments/environments.ts'
import {
  deleteHosts,
  findHostHolder,
  insertHost,
  listHeldHosts,
} from '../../store/environments/hostname-claims.ts'
import {
  findServerByName,
  holdDomains,
  listOverlappingProjects,
} from '../../store/environments/hostnames.ts'
import { findProject, type Project } from '../../store/projects/projects.ts'
import { findAgent } from '../../store/servers/agents.ts'
import { auditAgent, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { ownHost } from './hostnames.ts'

interface AskedHosts {
  attemptId: string
  fence: number
  hosts: readonly string[]
}

type HostClaims =
  | { kind: 'decided'; claims: (HostDecision & { host: string })[] }
  /** Unknown, or another agent's; the caller cannot distinguish them. */
  | { kind: 'foreign' }
  | { kind: 'over'; message: string }
  | { kind: 'too_many'; message: string }

export async function claimHosts(
  ctx: Context,
  agentId: string,
  asked: AskedHosts,
): Promise<HostClaims> {
  if (asked.hosts.length > HOST_CLAIMS.hosts) {
    const message = `${asked.hosts.length} host names were asked for; at most ${HOST_CLAIMS.hosts} are possible in one call.`
    return { kind: 'too_many', message }
  }
  return change(ctx, async (c): Promise<HostClaims> => {
    const attempt = await ownAttempt(c, agentId, asked.attemptId)
    if (!attempt) return { kind: 'foreign' }
    const environment = await lockEnvironment(c.db, attempt.environmentId)
    const project = environment && (await findProject(c.db, environment.projectId))
    const current = await findAttempt(c.db, attempt.id) // re-read under the environment's lock
    const over = whyOver(asked, current, environment)
    if (over || !environment || !project) {
      return { kind: 'over', message: over ?? 'The environment was removed.' }
    }
    const task = await findTask(c.db, attempt.taskId)
    if (task?.type !== 'deploy') {
      return { kind: 'over', message: 'Only a deployment asks for host names.' }
    }
    await holdDomains(c.db)
    const claims = []
    const made: string[] = []
    const left = HOST_CLAIMS.perEnvironment - (await listHeldHosts(c.db, environment.id)).length
    for (const host of asked.hosts) {
      const decision = await decideOne(ctx, c, project, environment, host, left - made.length)
      claims.push({ host, ...decision })
      if (decision.verdict !== 'granted') continue
      const name = normalizeHost(host)
      if (name === environment.domain) continue
      const row = { host: name, environmentId: environment.id, fence: attempt.fence }
      if (await insertHost(c.db, { ...row, claimedAt: c.now })) made.push(name)
    }
    const subject: Subject = ['environment', environment.id, environment.identifier]
    if (made.length > 0) {
      await auditAgent(c, agentId, 'agent', 'hosts.claim', subject, { hosts: made })
    }
    return { kind: 'decided', claims }
  })
}

/** Also undefined for a revoked or locked agent. */
async function ownAttempt(
  c: Change,
  agentId: string,
  attemptId: string,
): Promise<Attempt | undefined> {
  const agent = await findAgent(c.db, agentId)
  if (!agent || agent.revokedAt !== null || agent.lockedAt !== null) return undefined
  const attempt = await findAttempt(c.db, attemptId)
  if (!attempt || attempt.agentId === agentId) return attempt
  await auditAgent(c, agentId, 'agent', 'attempt.foreign', ['attempt', attemptId])
  return undefined
}

function whyOver(
  asked: AskedHosts,
  attempt: Attempt | undefined,
  environment: Environment | undefined,
): string | undefined {
  if (!environment || environment.removingAt !== null) return 'The environment is being removed.'
  if (!attempt || attempt.state >= AttemptState.SUCCEEDED) return 'The attempt is over.'
  const isNewest = attempt.fence === asked.fence && attempt.fence === environment.fence
  return isNewest ? undefined : 'A newer deployment of this environment took its place.'
}

async function decideOne(
  ctx: Context,
  c: Change,
  project: Project,
  environment: Environment,
  asked: string,
  left: number,
): Promise<HostDecision> {
  const asker: HostAsker = {
    environmentId: environment.id,
    projectId: project.id,
    organizationId: project.organizationId,
    project: project.name,
  }
  const facts = await gatherFacts(ctx, c, project, normalizeHost(asked))
  const decision = decideHost(asker, facts)
  const isNew = decision.verdict === 'granted' && facts.holder === undefined
  if (!isNew || left > 0) return decision
  const message = `${environment.identifier} holds ${HOST_CLAIMS.perEnvironment} host names, which is all it may.`
  return { verdict: 'not_allowed', message }
}

async function gatherFacts(
  ctx: Context,
  c: Change,
  project: Project,
  host: string,
): Promise<HostFacts> {
  const fault = host.includes('.') ? (forgeFault(host)?.says ?? null) : 'is not a full host name'
  const customDomains = JSON.parse(project.customDomains) as string[]
  const listed = { domain: project.domain, customDomains }
  if (fault !== null) {
    const nobody = { server: undefined, holder: undefined, base: undefined }
    return { host: host.slice(0, 253), fault, isOwn: false, ...nobody, isUnlisted: false }
  }
  const bases = (await listOverlappingProjects(c.db, host))
    .filter((p) => isAtOrBelow(host, p.domain))
    .toSorted((a, b) => b.domain.length - a.domain.length)
  return {
    host,
    fault,
    isOwn: isReserved(host, ownHost(ctx)),
    server: await findServerByName(c.db, host),
    holder: await findHostHolder(c.db, host),
    base: bases[0],
    isUnlisted: ctx.config.listedDomainsOnly && isUnlisted(host, listed),
  }
}

/** The newest deployment serves only these names; the environment's other names become free. */
export async function releaseHosts(
  c: Change,
  agentId: string,
  environment: Environment,
  served: readonly string[],
): Promise<void> {
  const kept = new Set(served.map(normalizeHost))
  const gone = (await listHeldHosts(c.db, environment.id)).filter((host) => !kept.has(host))
  if (gone.length === 0) return
  await deleteHosts(c.db, environment.id, gone)
  const subject: Subject = ['environment', environment.id, environment.identifier]
  await auditAgent(c, agentId, 'agent', 'hosts.release', subject, { hosts: gone })
}
