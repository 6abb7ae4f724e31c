// What a server must trust and refuse, complete and numbered: user authorities, revoked serials, and the authority that
// signs host keys. The number rises with every change and is at least the clock, so it never falls, even after a
// database restore. What a server confirmed is recorded.
import { createHash } from 'node:crypto'
import type { Context } from '../../context.ts'
import { findAgent, updateAgentTrust } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import { findSshAuthority, type SshAuthority } from '../../store/ssh/authorities.ts'
import { listRevokedSerials } from '../../store/ssh/certificates.ts'
import type { Change } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'
import { confirmSshAuthorities, publishSshAuthorities } from './authorities.ts'

export interface ServerTrust {
  generation: number
  tlsCaPem: string
  authorities: SshAuthority[]
  hostCaKey: string
  revoked: bigint[]
}

const CLOCKS_APART_S = 86_400 // no control plane ever issued a number beyond this

/**
 * The present state. It gets a new generation when its content changed, or when the server has seen a later
 * generation because the database was restored from a backup.
 */
export async function readServerTrust(
  ctx: Context,
  agentId: string,
  seenGeneration = 0,
): Promise<ServerTrust | undefined> {
  const agent = await findAgent(ctx.db, agentId)
  if (!agent) return undefined
  const authorities = await publishSshAuthorities(ctx, 'user')
  const host = await findSshAuthority(ctx.db, 'host', 'signing')
  const revoked = await listRevokedSerials(ctx.db, agent.serverId, ctx.clock.now())
  const content = {
    tlsCaPem: ctx.authority.certificatePem,
    hostCaKey: host?.publicKey ?? '',
    authorities,
    revoked,
  }
  const keys = authorities.map(({ publicKey }) => publicKey)
  const reported = [content.tlsCaPem, content.hostCaKey, keys, revoked.map(String)]
  const digest = createHash('sha256').update(JSON.stringify(reported)).digest('hex')
  const seen = Math.min(seenGeneration, Math.floor(ctx.clock.now() / 1_000) + CLOCKS_APART_S)
  if (digest === agent.trustDigest && agent.trustGeneration >= seen) {
    return { generation: agent.trustGeneration, ...content }
  }
  const generation = await change(ctx, async (c) => {
    const held = await findAgent(c.db, agentId)
    const next = Math.max((held?.trustGeneration ?? 0) + 1, seen + 1, Math.floor(c.now / 1_000))
    await updateAgentTrust(c.db, agentId, { trustGeneration: next, trustDigest: digest })
    return next
  })
  return { generation, ...content }
}

async function reportServer(c: Change, agentId: string): Promise<void> {
  const agent = await findAgent(c.db, agentId)
  const server = agent && (await findServer(c.db, agent.serverId))
  if (!server) return
  emit(c, { organizationId: server.organizationId }, 'server.updated', { id: server.id })
}

/** The server reported that a bundle is in force, or why it is not. */
export async function confirmServerTrust(
  ctx: Context,
  agentId: string,
  trust: ServerTrust,
  error: string,
): Promise<void> {
  const agent = await findAgent(ctx.db, agentId)
  const isKnown = agent?.trustApplied === trust.generation && agent.trustError === ''
  if (isKnown && error === '') return // as at most returns of an agent, without a write
  await change(ctx, async (c) => {
    if (error !== '') {
      await updateAgentTrust(c.db, agentId, { trustError: error.slice(0, 500) })
    } else {
      await updateAgentTrust(c.db, agentId, { trustApplied: trust.generation, trustError: '' })
      await confirmSshAuthorities(c, agentId, trust.authorities)
    }
    await reportServer(c, agentId)
  })
}
