// Servers and the tokens with which their agents join.
import { AppError, invalidFields, SESSION } from '@berth/shared'
import { isHostOrAddress, type ServerStatus } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { makeJoinToken } from '../../identity/tokens.ts'
import { ENROLMENT } from '../../limits/keys.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import { listOrganizationsById } from '../../store/people/organizations.ts'
import { listUserNames } from '../../store/people/people.ts'
import {
  type Agent,
  findServerAgent,
  listLostAgents,
  listServerAgents,
} from '../../store/servers/agents.ts'
import { type LatestUpdate, listLatestUpdates } from '../../store/servers/rollouts.ts'
import {
  countEnvironmentsByServer,
  countServers,
  findServer,
  insertJoinToken,
  insertServer,
  listServers,
  type Server,
} from '../../store/servers/servers.ts'
import { listSharedServers, listShares, type ShareHolder } from '../../store/servers/shares.ts'
import { listServerUsage, type ServerUsage } from '../../store/servers/usage.ts'
import {
  asReader,
  isGuest,
  loadVisibleServer,
  organizationForCreation,
  readableOrganizations,
  requirePermission,
} from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { holdOrganization } from '../core/locks.ts'
import { change, emit } from '../core/transaction.ts'
import { joinCommand } from './agent-packages.ts'

export interface ServerView {
  server: Server
  agent: Agent | undefined
  status: ServerStatus
  environmentCount: number
  /** Undefined before the first report. */
  usage: ServerUsage | undefined
  /** The newest update of its agent. */
  update: LatestUpdate | undefined
  /** Who paused it. */
  pausedBy: { id: number; name: string } | undefined
  /** Another organization's, which shares it with the caller's. */
  owner: { id: number; name: string } | undefined
  /** Organizations that may place environments on it. */
  sharedWith: ShareHolder[]
}

/** With any replica: sessions of one that died are ended when its lease is over. */
export const hasSession = (agent: Agent | undefined): boolean =>
  agent !== undefined && agent.sessionId !== null

/** For a while after a start no server counts as offline, because agents need time to return. */
export const inStartGrace = (ctx: Context): boolean =>
  ctx.clock.now() - ctx.startedAt <
  SESSION.graceTimeouts * SESSION.timeoutIntervals * SESSION.heartbeatMinMs

function serverStatus(
  ctx: Context,
  agent: Agent | undefined,
  lost: 'revoked' | 'left' | undefined,
): ServerStatus {
  if (!agent) return lost === 'left' ? 'uninstalled' : (lost ?? 'pending')
  if (agent.lockedAt !== null) return 'duplicate_identity'
  if (hasSession(agent)) return agent.drainingAt === null ? 'online' : 'draining'
  return agent.connectedAt !== null && inStartGrace(ctx) ? 'unknown' : 'offline'
}

async function view(ctx: Context, caller: Caller, servers: Server[]): Promise<ServerView[]> {
  const ids = servers.map((s) => s.id)
  const agents = await listServerAgents(ctx.db, ids)
  const lost = await listLostAgents(ctx.db, ids)
  const counts = await countEnvironmentsByServer(ctx.db, ids)
  const guests = servers.filter((server) => isGuest(caller, server))
  const readable = readableOrganizations(caller)
  const shown = guests.map((server) => server.id)
  const ownCounts = await countEnvironmentsByServer(ctx.db, shown, readable)
  const owners = new Map(
    (
      await listOrganizationsById(
        ctx.db,
        guests.map((server) => server.organizationId),
      )
    ).map(({ id, name }) => [id, { id, name }]),
  )
  const shares = await listShares(ctx.db, ids)
  const usage = await listServerUsage(ctx.db, ids)
  const updates = await listLatestUpdates(ctx.db, ids)
  const pausers = await listUserNames(
    ctx.db,
    servers.flatMap(({ pausedBy }) => pausedBy ?? []),
  )
  return servers.map((server) => {
    const pauser = server.pausedBy === null ? undefined : pausers.get(server.pausedBy)
    const agent = agents.get(server.id)
    const isShared = shown.includes(server.id)
    return {
      server,
      agent,
      status: serverStatus(ctx, agent, lost.get(server.id)),
      environmentCount: (isShared ? ownCounts : counts).get(server.id) ?? 0,
      usage: isShared ? undefined : usage.get(server.id),
      pausedBy: pauser === undefined ? undefined : { id: server.pausedBy ?? 0, name: pauser },
      owner: isShared ? owners.get(server.organizationId) : undefined,
      sharedWith: isShared ? [] : (shares.get(server.id) ?? []),
      update: isShared ? undefined : updates.get(server.id),
    }
  })
}

export async function listVisibleServers(ctx: Context, caller: Caller): Promise<ServerView[]> {
  const readable = readableOrganizations(caller)
  const own = await listServers(ctx.db, readable)
  return view(ctx, caller, [...own, ...(await listSharedServers(ctx.db, readable))])
}

export async function getServer(ctx: Context, caller: Caller, id: number): Promise<ServerView> {
  const { server } = await loadVisibleServer(ctx.db, caller, id)
  const [one] = await view(ctx, caller, [server])
  if (!one) throw new Error('unreachable: one server was asked for')
  return one
}

export async function createServer(
  ctx: Context,
  caller: Caller,
  asked: { name: string; hostname: string },
): Promise<ServerView> {
  const organizationId = organizationForCreation(caller, 'server:write')
  requireHostname(asked.hostname)
  const id = await change(ctx, async (c) => {
    await holdOrganization(c, organizationId)
    await requireBelowLimit(ctx, c, organizationId)
    const made = await insertServer(c.db, { organizationId, ...asked, createdAt: c.now })
    await auditCaller(c, caller, organizationId, 'server.create', ['server', made], asked)
    emit(c, { organizationId }, 'server.created', { server_id: made })
    return made
  }).catch((error: unknown) => {
    if (!isUniqueViolation(error)) throw error
    throw new AppError('name_taken', `There is a server named ${asked.name} already.`)
  })
  return getServer(ctx, asReader(caller), id)
}

async function requireBelowLimit(ctx: Context, c: Change, organizationId: number): Promise<void> {
  const most = ctx.config.serversPerOrganization
  if ((await countServers(c.db, organizationId)) < most) return
  const message = `An organization has at most ${most} servers. The operator of Berth can raise BERTH_SERVERS_PER_ORGANIZATION.`
  throw invalidFields([{ field: 'name', code: 'too_many_servers', message }])
}

export function requireHostname(hostname: string): void {
  if (isHostOrAddress(hostname)) return
  const message = 'The host name must be a name such as fra-1.example.com, or an IP address.'
  throw invalidFields([{ field: 'hostname', code: 'invalid_hostname', message }])
}

interface MadeJoinToken {
  token: string
  expiresAt: number
  command: string
}

/** Valid for one use and 15 minutes, for this server only; invalidates the server's former unused tokens. */
export async function makeServerJoinToken(
  ctx: Context,
  caller: Caller,
  serverId: number,
  rejoin: boolean,
): Promise<MadeJoinToken> {
  const made = await change(ctx, async (c) => {
    const { db, now } = c
    const server = await findServer(db, serverId)
    if (!server) throw new AppError('not_found', "Not found, or you don't have access.")
    requirePermission(caller, server.organizationId, 'server:write')
    if (!rejoin && (await findServerAgent(db, serverId))) {
      throw new AppError(
        'server_already_joined',
        `${server.name} has an agent. Ask with {"rejoin": true} to replace it; the present one is revoked when the new one joins.`,
      )
    }
    const { id, token, secretHash } = makeJoinToken(ctx.authority.caHash)
    const expiresAt = now + ENROLMENT.joinTokenMs
    await insertJoinToken(db, { id, secretHash, serverId, createdAt: now, expiresAt })
    const facts = { token_id: id, rejoin }
    const subject: Subject = ['server', serverId]
    await auditCaller(c, caller, server.organizationId, 'server.join_token', subject, facts)
    return { token, expiresAt }
  })
  return { ...made, command: await joinCommand(ctx, made.token) }
}
