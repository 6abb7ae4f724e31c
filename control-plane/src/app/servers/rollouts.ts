// Rollouts of the agents' new version: started by an administrator, or by the control plane after its own upgrade. Rows
// decide, so a restart continues where it was.
import { randomUUID } from 'node:crypto'
import { AppError, VERSION } from '@berth/shared'
import type { AgentUpdated } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { decideRollout, type RolloutServer } from '../../domain/servers/rollout.ts'
import { isOlder } from '../../domain/servers/server.ts'
import { REPLICAS } from '../../limits/installation.ts'
import { LockHeld, withBootLock } from '../../store/engine/session-locks.ts'
import { type Agent, listServerAgents } from '../../store/servers/agents.ts'
import {
  type AgentUpdate,
  endUpdate,
  findRollout,
  findUpdate,
  hasRolledOut,
  insertRollout,
  listRollouts,
  listRunningRollouts,
  listUpdates,
  offerUpdate,
  type Rollout,
  supersedeUpdates,
  updateRollout,
} from '../../store/servers/rollouts.ts'
import {
  findServer,
  listAllServers,
  listServers,
  listServersById,
  type Server,
} from '../../store/servers/servers.ts'
import {
  loadServer,
  organizationForCreation,
  readableOrganizations,
  requirePlatformAdmin,
} from '../core/access.ts'
import { audit, auditAgent, auditCaller, BERTH } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { agentTopic, change, emit } from '../core/transaction.ts'
import { type AgentRelease, findAgentRelease, updateCommand } from './agent-release.ts'
import { hasSession } from './servers.ts'

const SHOWN = 10

export interface RolloutView {
  rollout: Rollout
  updates: AgentUpdate[]
}

/** What can be offered, and the last rollouts that the caller may see. */
export async function getAgentUpdates(ctx: Context, caller: Caller) {
  const organizations = readableOrganizations(caller)
  const found = await findAgentRelease(ctx)
  const isAdmin = caller.isPlatformAdmin && caller.tokenOrganizationId === null
  const rollouts = await listRollouts(ctx.db, organizations, isAdmin, SHOWN)
  return {
    reason: found.kind === 'signed' ? null : found.reason,
    command: (await updateCommand(ctx)) ?? null,
    rollouts: await viewRollouts(ctx, rollouts),
  }
}

async function viewRollouts(ctx: Context, rollouts: Rollout[]): Promise<RolloutView[]> {
  const updates = await listUpdates(
    ctx.db,
    rollouts.map(({ id }) => id),
  )
  return rollouts.map((rollout) => ({
    rollout,
    updates: updates.filter(({ rolloutId }) => rolloutId === rollout.id),
  }))
}

async function requireRelease(ctx: Context): Promise<AgentRelease> {
  const found = await findAgentRelease(ctx)
  if (found.kind === 'signed') return found.release
  throw await byHand(ctx, found.reason)
}

async function byHand(ctx: Context, why: string): Promise<AppError> {
  const command = await updateCommand(ctx)
  const how = command ? ` Run this on the server: ${command}` : ''
  return new AppError('agent_not_upgradable', `${why}${how}`, { ...(command ? { command } : {}) })
}

const CANNOT =
  'The agent cannot update itself: it is older than version 1.16, or it was not installed from a signed release.'

/** One server, by people who may change it. */
export async function upgradeServer(
  ctx: Context,
  caller: Caller,
  id: number,
): Promise<RolloutView> {
  const server = await loadServer(ctx.db, caller, id, 'server:write')
  const { organizationId } = server
  const release = await requireRelease(ctx)
  const agent = (await listServerAgents(ctx.db, [id])).get(id)
  if (!agent) throw new AppError('agent_not_upgradable', `${server.name} has no agent.`)
  if (!isOlder(agent.version, VERSION)) {
    throw new AppError(
      'agent_not_upgradable',
      `${server.name} runs version ${agent.version} already.`,
    )
  }
  if (!agent.capabilities.includes('update')) throw await byHand(ctx, CANNOT)
  const rolloutId = await change(ctx, async (c) => {
    const made = await begin(c, release, { organizationId, startedBy: caller.userId }, [
      { server, agent },
    ])
    await auditCaller(c, caller, organizationId, 'server.upgrade', ['server', id], {
      version: release.manifest.version,
    })
    return made
  })
  await advanceRollouts(ctx)
  return viewRollout(ctx, rolloutId)
}

/** Every outdated server of an organization, by its administrators, or of the installation, by platform administrators. */
export async function upgradeServers(
  ctx: Context,
  caller: Caller,
  scope: 'organization' | 'installation',
): Promise<RolloutView> {
  const everywhere = scope === 'installation'
  if (everywhere) requirePlatformAdmin(caller)
  const organizationId = everywhere ? null : organizationForCreation(caller, 'server:write')
  const release = await requireRelease(ctx)
  const servers =
    organizationId === null
      ? await listAllServers(ctx.db)
      : await listServers(ctx.db, [organizationId])
  const outdated = await listOutdated(ctx, servers)
  if (outdated.length === 0) {
    throw new AppError('agent_not_upgradable', `Every agent runs version ${VERSION} already.`)
  }
  const rolloutId = await change(ctx, async (c) => {
    const made = await begin(c, release, { organizationId, startedBy: caller.userId }, outdated)
    const details = { version: release.manifest.version, servers: outdated.length }
    await auditCaller(c, caller, organizationId, 'server.upgrade_all', ['rollout', made], details)
    return made
  })
  await advanceRollouts(ctx)
  return viewRollout(ctx, rolloutId)
}

/**
 * After an upgrade of the control plane, if the operator wants it so; once for each release. Another one that starts
 * meanwhile does this too when it is ready, so a long migration there does not hold this one back.
 */
export async function upgradeAfterStart(ctx: Context, waitMs = REPLICAS.rolloutMs): Promise<void> {
  if (ctx.config.agentUpgrades !== 'automatic') return
  try {
    await withBootLock(ctx.db, ctx.engine, waitMs, () => upgradeOnce(ctx))
  } catch (error) {
    if (!(error instanceof LockHeld)) throw error
    ctx.log.warn('the upgrade of agents is left to another control plane, which is starting')
  }
}

async function upgradeOnce(ctx: Context): Promise<void> {
  const found = await findAgentRelease(ctx)
  if (found.kind === 'none') {
    ctx.log.warn({ reason: found.reason }, 'agents are not upgraded')
    return
  }
  const { release } = found
  if (await hasRolledOut(ctx.db, release.manifest.counter)) return
  const outdated = await listOutdated(ctx, await listAllServers(ctx.db))
  if (outdated.length === 0) return
  await change(ctx, async (c) => {
    const made = await begin(c, release, { organizationId: null, startedBy: null }, outdated)
    const details = { version: release.manifest.version, servers: outdated.length }
    await audit(c, BERTH, null, 'server.upgrade_all', ['rollout', made], details)
  })
}

async function viewRollout(ctx: Context, id: number): Promise<RolloutView> {
  const rollout = await findRollout(ctx.db, id)
  const [view] = await viewRollouts(ctx, rollout ? [rollout] : [])
  if (!view) throw new Error('unreachable: the rollout was just made')
  return view
}

interface Outdated {
  server: Server
  agent: Agent
}

async function listOutdated(ctx: Context, servers: Server[]): Promise<Outdated[]> {
  const agents = await listServerAgents(
    ctx.db,
    servers.map(({ id }) => id),
  )
  return servers.flatMap((server) => {
    const agent = agents.get(server.id)
    return agent && isOlder(agent.version, VERSION) ? [{ server, agent }] : []
  })
}

async function begin(
  c: Change,
  { manifest }: AgentRelease,
  { organizationId, startedBy }: { organizationId: number | null; startedBy: number | null },
  outdated: Outdated[],
): Promise<number> {
  const ids = outdated.map(({ server }) => server.id)
  await supersedeUpdates(c.db, ids, 'A later rollout began.', c.now)
  const rollout = {
    organizationId,
    version: manifest.version,
    counter: manifest.counter,
    state: 'running',
    startedBy,
    startedAt: c.now,
    finishedAt: null,
  }
  const updates = outdated.map(({ server, agent }) => {
    const isAble = agent.capabilities.includes('update')
    return {
      id: randomUUID(),
      serverId: server.id,
      state: isAble ? 'waiting' : 'skipped',
      reason: isAble ? '' : CANNOT,
      fromVersion: agent.version,
      offeredAt: null,
      finishedAt: isAble ? null : c.now,
    }
  })
  for (const { server } of outdated) emitUpdate(c, server)
  return insertRollout(c.db, rollout, updates)
}

function emitUpdate(c: Change, { id, organizationId }: Server): void {
  emit(c, { organizationId }, 'server.updated', { server_id: id, changed: ['update'] })
}

/**
 * Once a second, and whenever an agent reports: offers what the rules allow, and ends what is over. It waits while
 * control planes of two versions run, because only those of the later one have the packages.
 */
export async function advanceRollouts(ctx: Context): Promise<void> {
  const running = await listRunningRollouts(ctx.db)
  if (running.length === 0) return
  const versions = new Set((await ctx.replicas.listLive()).map(({ version }) => version))
  if (versions.size > 1) return
  for (const rollout of running) {
    await change(ctx, (c) => advance(c, rollout))
  }
}

async function advance(c: Change, rollout: Rollout): Promise<void> {
  const updates = await listUpdates(c.db, [rollout.id])
  const ids = updates.map(({ serverId }) => serverId)
  const agents = await listServerAgents(c.db, ids)
  const servers = new Map((await listServersById(c.db, ids)).map((server) => [server.id, server]))
  const facts = updates.map((update): RolloutServer => {
    const agent = agents.get(update.serverId)
    return {
      id: update.id,
      name: servers.get(update.serverId)?.name ?? String(update.serverId),
      state: update.state as RolloutServer['state'],
      reason: update.reason,
      offeredAt: update.offeredAt,
      isOnline: hasSession(agent),
      isCurrent: agent?.version === rollout.version,
    }
  })
  const decision = decideRollout(facts, c.now)
  const serverOf = (id: string): Server | undefined =>
    servers.get(updates.find((update) => update.id === id)?.serverId ?? 0)
  const changed = (id: string): void => {
    const server = serverOf(id)
    if (!server) return
    emitUpdate(c, server)
    const agent = agents.get(server.id)
    if (agent) c.notify(agentTopic(agent.id))
  }
  for (const id of decision.offer) {
    await offerUpdate(c.db, id, c.now)
    changed(id)
  }
  for (const id of decision.keep) {
    await endUpdate(c.db, id, { state: 'kept', reason: '', finishedAt: c.now })
    changed(id)
  }
  for (const { id, reason } of decision.fail) {
    await endUpdate(c.db, id, { state: 'failed', reason, finishedAt: c.now })
    changed(id)
  }
  if (!decision.end) return
  await updateRollout(c.db, rollout.id, { ...decision.end, finishedAt: c.now })
  if (decision.end.state !== 'failed') return
  // the first failure stops it: what has not begun does not begin
  for (const { id, state } of updates) {
    if (state !== 'waiting') continue
    const reason = 'The rollout stopped before it came to this server.'
    await endUpdate(c.db, id, { state: 'skipped', reason, finishedAt: c.now })
    changed(id)
  }
}

/** The agent's own report. One of another server's update changes nothing. */
export async function applyAgentUpdated(
  c: Change,
  agent: Agent,
  { updateId, kept, message, fromVersion, toVersion }: AgentUpdated,
): Promise<void> {
  const update = await findUpdate(c.db, updateId)
  if (update?.serverId !== agent.serverId) return
  const reason = kept ? '' : message.slice(0, 1_000) || 'The agent gave no reason.'
  const state = kept ? 'kept' : 'failed'
  if (!(await endUpdate(c.db, updateId, { state, reason, finishedAt: c.now }))) return
  const verb = kept ? 'agent.updated' : 'agent.update_failed'
  const details = { from: fromVersion, to: toVersion, ...(kept ? {} : { reason }) }
  await auditAgent(c, agent.id, 'agent', verb, ['server', agent.serverId], details)
  const server = await findServer(c.db, agent.serverId)
  if (server) emitUpdate(c, server)
}
