// An organization shares its server with another one, which may then place environments on it. The other organization
// sees the server's name and state, and nothing of its settings, its load or other organizations' environments.
import { AppError, invalidFields } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { findOrganization, findOrganizationBySlug } from '../../store/people/organizations.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { listServerEnvironments, type Server } from '../../store/servers/servers.ts'
import { deleteShare, insertShare, listShares } from '../../store/servers/shares.ts'
import { asReader, loadServer, missing } from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { holdServer } from '../core/locks.ts'
import { agentTopic, change, emit } from '../core/transaction.ts'
import { endSshAccess } from '../ssh/revocation.ts'
import { getServer, type ServerView } from './servers.ts'

const SHARES = 50 // a longer list is a platform of its own

/** By its slug, or its id. */
async function findHolder(c: Change, named: string) {
  const found =
    (await findOrganizationBySlug(c.db, named)) ??
    (/^[1-9]\d{0,8}$/.test(named) ? await findOrganization(c.db, Number(named)) : undefined)
  if (found) return found
  const message = `No organization has the slug or id ${named}.`
  throw invalidFields([{ field: 'organization', code: 'not_found', message }])
}

/** Its agent names no environment in messages from now on, or does so again. */
async function tell(c: Change, server: Server): Promise<void> {
  const agent = await findServerAgent(c.db, server.id)
  if (agent) c.notify(agentTopic(agent.id))
}

export async function shareServer(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: { organization: string },
): Promise<ServerView> {
  await loadServer(ctx.db, caller, id, 'server:write')
  await change(ctx, async (c) => {
    const server = await holdServer(c, id)
    const { organizationId } = server
    const holder = await findHolder(c, asked.organization)
    if (holder.id === organizationId) {
      const message = `${server.name} belongs to ${holder.name} already.`
      throw invalidFields([{ field: 'organization', code: 'own_organization', message }])
    }
    const shares = (await listShares(c.db, [id])).get(id) ?? []
    if (shares.length >= SHARES) {
      const message = `A server is shared with at most ${SHARES} organizations.`
      throw invalidFields([{ field: 'organization', code: 'too_many', message }])
    }
    const row = { serverId: id, organizationId: holder.id, createdAt: c.now }
    if (!(await insertShare(c.db, row))) return
    await tell(c, server)
    const subject: Subject = ['server', id]
    const { name, slug } = holder
    await auditCaller(c, caller, organizationId, 'server.share', subject, { name, slug })
    emit(c, { organizationId }, 'server.updated', { server_id: id, changed: ['shared_with'] })
    emit(c, { organizationId: holder.id }, 'server.created', { server_id: id })
  })
  return getServer(ctx, asReader(caller), id)
}

/** Refused while environments of that organization are on it; its projects forget the server. */
export async function unshareServer(
  ctx: Context,
  caller: Caller,
  id: number,
  holderId: number,
): Promise<ServerView> {
  await loadServer(ctx.db, caller, id, 'server:write')
  await change(ctx, async (c) => {
    const server = await holdServer(c, id)
    const { organizationId } = server
    const holder = (await listShares(c.db, [id])).get(id)?.find((one) => one.id === holderId)
    if (!holder) throw missing()
    const held = (await listServerEnvironments(c.db, id)).filter(
      (environment) => environment.organizationId === holderId,
    )
    if (held.length > 0) {
      throw new AppError(
        'server_in_use',
        `${held.length} environments of ${holder.name} are on ${server.name}. They must be moved or deleted there first.`,
      )
    }
    await endSshAccess(c, { serverId: id, organizationId: holderId }, 'server_unshared')
    await deleteShare(c.db, { serverId: id, organizationId: holderId })
    await tell(c, server)
    const { name, slug } = holder
    await auditCaller(c, caller, organizationId, 'server.unshare', ['server', id], { name, slug })
    emit(c, { organizationId }, 'server.updated', { server_id: id, changed: ['shared_with'] })
    emit(c, { organizationId: holderId }, 'server.removed', { server_id: id })
  })
  return getServer(ctx, asReader(caller), id)
}
