// What a server reports about its services: the latest report wins, is never journaled, and is written only on a
// difference, under the session's epoch. An agent reports only environments of its own server; others are ignored.
import type { HostInfo, Observed, ObservedEnvironment } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import {
  degradation,
  type Observation,
  takeObservation,
} from '../../domain/environments/observation.ts'
import {
  type Environment,
  listEnvironmentsById,
  lockEnvironment,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import { findAgent, updateUnderEpoch } from '../../store/servers/agents.ts'
import { findServer, type HostFacts, updateServerHost } from '../../store/servers/servers.ts'
import type { Change } from '../core/change.ts'
import { change, emit, emitEnvironment } from '../core/transaction.ts'
import type { SessionRef } from '../deployments/reports.ts'
import { toHostFacts } from '../servers/sessions.ts'

/** False if a newer session took over. */
export async function applyObserved(
  ctx: Context,
  session: SessionRef,
  observed: Observed,
): Promise<boolean> {
  const agent = await findAgent(ctx.db, session.agentId)
  if (!agent || agent.sessionEpoch !== session.epoch) return false
  const { serverId } = agent
  const seen = new Map(observed.environments.map((e) => [e.environmentId, e]))
  const known = await listEnvironmentsById(ctx.db, [...seen.keys()])
  const changed = [...known.values()].filter((e) => isNews(e, serverId, seen.get(e.id)))
  const facts = observed.host && (await changedHost(ctx, serverId, observed.host))
  if (changed.length === 0 && !facts) return true // the usual case, without a write
  return change(ctx, async (c) => {
    const { agentId, epoch } = session
    if (!(await updateUnderEpoch(c.db, agentId, epoch, { lastSeenAt: c.now }))) return false
    if (facts) await writeHost(c, serverId, facts)
    // lock in the order of ids, as everywhere
    for (const { id } of changed.toSorted((a, b) => a.id - b.id)) {
      const environment = await lockEnvironment(c.db, id)
      const reported = seen.get(id)
      if (environment && reported && isNews(environment, serverId, reported)) {
        await write(c, environment, reported)
      }
    }
    return true
  })
}

const take = (environment: Environment, reported: ObservedEnvironment): Observation | undefined =>
  takeObservation(environment, { ...reported, fence: Number(reported.fence) })

function isNews(
  environment: Environment,
  serverId: number,
  reported: ObservedEnvironment | undefined,
): boolean {
  if (!reported || environment.serverId !== serverId || environment.removingAt !== null)
    return false
  const next = take(environment, reported)
  return next !== undefined && JSON.stringify(next) !== JSON.stringify(environment.observed)
}

async function write(c: Change, environment: Environment, reported: ObservedEnvironment) {
  const observed = take(environment, reported)
  if (!observed) return
  const columns = { observed: JSON.stringify(observed), updatedAt: c.now }
  await updateEnvironment(c.db, environment.id, columns)
  const degraded = degradation({ ...environment, observed }) !== null
  emitEnvironment(c, environment, 'environment.updated', { degraded })
}

/** Undefined if nothing visible changed; the free disk space comes with heartbeats. */
async function changedHost(
  ctx: Context,
  serverId: number,
  host: HostInfo,
): Promise<HostFacts | undefined> {
  const server = await findServer(ctx.db, serverId)
  const facts = toHostFacts(host)
  const shown = (of: HostFacts | null): string => JSON.stringify({ ...of, diskFreeBytes: 0 })
  return server && shown(server.host) !== shown(facts) ? facts : undefined
}

async function writeHost(c: Change, serverId: number, facts: HostFacts): Promise<void> {
  await updateServerHost(c.db, serverId, facts)
  const server = await findServer(c.db, serverId)
  if (!server) return
  emit(c, { organizationId: server.organizationId }, 'server.updated', { id: serverId })
}
