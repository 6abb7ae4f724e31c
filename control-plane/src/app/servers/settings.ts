// Changes and removes servers. A server that still holds environments cannot be removed; a revoked agent loses its
// session and its certificate immediately.
import {
  AppError,
  changeCeilings,
  changeServerSettings,
  findServerSettingsProblems,
  invalidFields,
  knownSize,
} from '@berth/shared'
import type { ServerPatch } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { listServerTasks } from '../../store/deployments/tasks.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import { findServerAgent, revokeServerAgents } from '../../store/servers/agents.ts'
import {
  closeServer,
  deleteUnusedJoinTokens,
  listServerEnvironments,
  lockServer,
  type Server,
  updateServer,
} from '../../store/servers/servers.ts'
import { asReader, loadServer, missing } from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { holdServer } from '../core/locks.ts'
import { agentTopic, change, emit } from '../core/transaction.ts'
import { endSshAccess } from '../ssh/revocation.ts'
import { getServer, requireHostname, type ServerView } from './servers.ts'

/** Locks the server after the caller's access was checked. */
async function hold(c: Change, id: number): Promise<Server> {
  const server = await lockServer(c.db, id)
  if (!server) throw missing()
  return server
}

/** A second pause changes nothing, so the first one keeps its name and time. */
function pausing(server: Server, paused: boolean, caller: Caller, now: number) {
  if (paused && server.paused) return { paused: 1 } as const
  return paused
    ? ({ paused: 1, pausedBy: caller.userId, pausedAt: now } as const)
    : ({ paused: 0, pausedBy: null, pausedAt: null } as const)
}

export async function changeServer(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: ServerPatch,
): Promise<ServerView> {
  await loadServer(ctx.db, caller, id, 'server:write')
  if (asked.hostname !== undefined) requireHostname(asked.hostname)
  await change(ctx, async (c) => {
    const server = await hold(c, id)
    const { organizationId } = server
    const problems = findServerSettingsProblems(
      asked.settings ?? {},
      knownSize(server.host),
      asked.name ?? server.name,
    )
    if (problems.length > 0) {
      throw invalidFields(problems.map((one) => ({ ...one, field: `settings.${one.field}` })))
    }
    await updateServer(c.db, id, {
      ...(asked.name === undefined ? {} : { name: asked.name }),
      ...(asked.hostname === undefined ? {} : { hostname: asked.hostname }),
      ...(asked.ssh_port === undefined ? {} : { sshPort: asked.ssh_port }),
      ...(asked.shell_enabled === undefined ? {} : { shellEnabled: asked.shell_enabled ? 1 : 0 }),
      ...(asked.limits ? { ceilings: changeCeilings(server.ceilings, asked.limits) } : {}),
      ...(asked.settings
        ? { settings: changeServerSettings(server.settings, asked.settings) }
        : {}),
      ...(asked.paused === undefined ? {} : pausing(server, asked.paused, caller, c.now)),
    })
    await auditCaller(c, caller, organizationId, 'server.update', ['server', id], {
      name: server.name,
      changes: asked,
    })
    emit(c, { organizationId }, 'server.updated', { server_id: id, changed: Object.keys(asked) })
    // if it takes tasks again, it reads the queue immediately
    const agent = await findServerAgent(c.db, id)
    if (agent) c.notify(agentTopic(agent.id))
  }).catch((error: unknown) => {
    if (!isUniqueViolation(error)) throw error
    throw new AppError('name_taken', `There is a server named ${asked.name} already.`)
  })
  return getServer(ctx, asReader(caller), id)
}

export async function deleteServer(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: { confirm?: string | undefined },
): Promise<void> {
  await loadServer(ctx.db, caller, id, 'server:write')
  await change(ctx, async (c) => {
    const server = await holdServer(c, id)
    const { organizationId, name } = server
    const environments = await listServerEnvironments(c.db, id)
    if (environments.length > 0 || (await listServerTasks(c.db, id)).length > 0) {
      const own = environments.filter((e) => e.organizationId === organizationId)
      const others = environments.length - own.length
      const which = [
        ...own.map((e) => e.identifier),
        ...(others > 0 ? [`${others} of other organizations`] : []),
      ]
      throw new AppError(
        'server_in_use',
        `${name} still holds environments: ${which.join(', ') || 'a removal is under way'}. Move or delete them first.`,
        {
          environments: own.map(({ id: environment, identifier }) => ({
            id: environment,
            identifier,
          })),
        },
      )
    }
    if (asked.confirm !== name) {
      throw new AppError('confirmation_required', `Confirm the removal of ${name} with its name.`, {
        confirm: name,
      })
    }
    await endSshAccess(c, { serverId: id }, 'server_removed')
    await revoke(c, server)
    await closeServer(c.db, server, c.now)
    await auditCaller(c, caller, organizationId, 'server.delete', ['server', id], { name })
    emit(c, { organizationId }, 'server.removed', { server_id: id })
  })
}

export async function deleteJoinToken(ctx: Context, caller: Caller, id: number): Promise<void> {
  await loadServer(ctx.db, caller, id, 'server:write')
  await change(ctx, async (c) => {
    const { organizationId } = await hold(c, id)
    await deleteUnusedJoinTokens(c.db, id)
    const subject: Subject = ['server', id]
    await auditCaller(c, caller, organizationId, 'server.join_token_delete', subject)
  })
}

/** The wake-up ends its session and its certificate is no longer accepted; the server needs a new join token. */
export async function revokeAgent(ctx: Context, caller: Caller, id: number): Promise<ServerView> {
  await loadServer(ctx.db, caller, id, 'server:write')
  await change(ctx, async (c) => {
    const server = await hold(c, id)
    const { organizationId } = server
    const agents = await revoke(c, server)
    await auditCaller(c, caller, organizationId, 'server.revoke_agent', ['server', id], { agents })
    emit(c, { organizationId }, 'server.updated', { server_id: id, status: 'revoked' })
  })
  return getServer(ctx, asReader(caller), id)
}

async function revoke(c: Change, server: Server): Promise<string[]> {
  const agents = await revokeServerAgents(c.db, server.id, c.now)
  for (const agentId of agents) c.notify(agentTopic(agentId))
  await deleteUnusedJoinTokens(c.db, server.id)
  return agents
}
