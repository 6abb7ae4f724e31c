// Enrols agents: a join token and a certificate request become an identity; later the identity gets new certificates.
// Each is one transaction, so that fifty parallel joins with one token create one agent.
import {
  createHash,
  createPublicKey,
  randomBytes,
  randomUUID,
  verify,
  X509Certificate,
} from 'node:crypto'
import { AppError, leavingText, renewalText } from '@berth/shared'
import type { EnrollRequest, EnrollResponse, LeaveResponse } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { toUtc } from '../../domain/core/utc.ts'
import { hashToken, parseJoinToken, sameHash } from '../../identity/tokens.ts'
import { type IssuedCertificate, issueAgentCertificate } from '../../keys/authority.ts'
import { readRequestedKey } from '../../keys/csr.ts'
import { ENROLMENT } from '../../limits/keys.ts'
import { insertCode, takeCode } from '../../store/core/one-use-codes.ts'
import {
  endAgent,
  findAgent,
  findAgentCertificate,
  findGenerations,
  insertAgent,
  insertAgentCertificate,
  revokeServerAgents,
} from '../../store/servers/agents.ts'
import {
  consumeJoinToken,
  findJoinToken,
  findServer,
  type JoinToken,
  listServerEnvironments,
  updateJoinResponse,
} from '../../store/servers/servers.ts'
import type { SshAuthority } from '../../store/ssh/authorities.ts'
import { auditAgent, type Subject } from '../core/audit.ts'
import { agentTopic, change, emit } from '../core/transaction.ts'
import { serveJoinedServer } from '../forges/waiting-list.ts'
import { confirmSshAuthorities, publishSshAuthorities } from '../ssh/authorities.ts'

// Unknown, used, expired and malformed tokens get the same answer, so that a caller cannot distinguish them.
const refuse = (): AppError =>
  new AppError(
    'join_token_invalid',
    'The join token is unknown, used or expired. Make a new one: berth server join-token NAME.',
  )

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export async function enrolAgent(ctx: Context, asked: EnrollRequest): Promise<EnrollResponse> {
  const parsed = parseJoinToken(asked.token)
  if (!parsed) throw refuse()
  const now = ctx.clock.now()
  const stored = await findJoinToken(ctx.db, parsed.id)
  if (!stored || !sameHash(stored.secretHash, parsed.secretHash)) throw refuse()
  const keyHash = sha256(readRequestedKey(asked.csr).export({ format: 'der', type: 'spki' }))
  const repeated = repeatedAnswer(stored, keyHash, now)
  if (repeated) return repeated
  if (stored.usedAt !== null || stored.expiresAt <= now) throw refuse()

  const agentId = randomUUID()
  const issued = await issueAgentCertificate(ctx.authority, {
    csr: asked.csr,
    installationId: ctx.installationId,
    agentId,
    now: new Date(now),
  })
  const trusted = await publishSshAuthorities(ctx, 'user')
  const response = answer(ctx, agentId, stored.serverId, issued, 1, trusted)
  const joined = await change(ctx, async (c) => {
    const use = { usedAt: c.now, usedKeyHash: keyHash, agentId }
    if (!(await consumeJoinToken(c.db, stored.id, use))) return undefined
    const server = await findServer(c.db, stored.serverId)
    if (!server) throw refuse()
    for (const former of await revokeServerAgents(c.db, server.id, c.now))
      c.notify(agentTopic(former))
    const installId = asked.install_id
    await insertAgent(c.db, { id: agentId, serverId: server.id, installId, joinedAt: c.now })
    await insertAgentCertificate(c.db, {
      fingerprint: issued.fingerprint,
      agentId,
      generation: 1,
      notAfter: issued.notAfter.getTime(),
      issuedAt: c.now,
    })
    await confirmSshAuthorities(c, agentId, trusted)
    await updateJoinResponse(c.db, stored.id, JSON.stringify(response))
    await serveJoinedServer(ctx, c, server.id)
    const details = { ...asked.host, fingerprint: issued.fingerprint }
    await auditAgent(c, agentId, 'agent', 'agent.join', ['server', server.id], details)
    return response
  })
  if (joined) return joined
  // lost the race; the winner may be this agent's own first try
  const again = await findJoinToken(ctx.db, stored.id)
  const answered = again && repeatedAnswer(again, keyHash, now)
  if (answered) return answered
  throw refuse()
}

/** An agent that lost the answer can ask again with the same key for ten minutes. */
function repeatedAnswer(
  stored: JoinToken,
  keyHash: string,
  now: number,
): EnrollResponse | undefined {
  const fresh = stored.usedAt !== null && now - stored.usedAt < ENROLMENT.repeatMs
  if (!fresh || stored.usedKeyHash !== keyHash || stored.response === null) return undefined
  return JSON.parse(stored.response) as EnrollResponse
}

function answer(
  ctx: Context,
  agentId: string,
  serverId: number,
  issued: IssuedCertificate,
  generation: number,
  trusted: SshAuthority[],
): EnrollResponse {
  return {
    agent_id: agentId,
    server_id: serverId,
    certificate: issued.certificatePem,
    ca: [ctx.authority.certificatePem],
    endpoints: ctx.agentEndpoints,
    generation,
    renew_at: toUtc(issued.renewAt.getTime()),
    ssh_user_ca_keys: trusted.map((authority) => authority.publicKey),
  }
}

interface Renewed extends IssuedCertificate {
  generation: number
}

/** Compare-and-set on the generation that the caller presents, so only one of two copies of a disk can renew. */
export async function renewAgentCertificate(
  ctx: Context,
  agentId: string,
  asked: { csr: Uint8Array | string; generation: number },
): Promise<Renewed> {
  const now = ctx.clock.now()
  const issued = await issueAgentCertificate(ctx.authority, {
    csr: asked.csr,
    installationId: ctx.installationId,
    agentId,
    now: new Date(now),
  })
  return change(ctx, async (c) => {
    const agent = await findAgent(c.db, agentId)
    const { issued: highest, seen } = await findGenerations(c.db, agentId)
    if (!agent || agent.revokedAt !== null || agent.lockedAt !== null || asked.generation < seen) {
      throw new AppError('permission_denied', 'This certificate is not the newest of its agent.')
    }
    const generation = highest + 1
    await insertAgentCertificate(c.db, {
      fingerprint: issued.fingerprint,
      agentId,
      generation,
      notAfter: issued.notAfter.getTime(),
      issuedAt: c.now,
    })
    return { ...issued, generation }
  })
}

// ---- renewal after expiry, for a server that was switched off: the agent signs with the old key

const expired = (message: string): AppError => new AppError('permission_denied', message)

async function loadExpired(ctx: Context, pem: string) {
  const fingerprint = (() => {
    try {
      return sha256(new X509Certificate(pem).raw)
    } catch {
      throw expired('This is not a certificate.')
    }
  })()
  const certificate = await findAgentCertificate(ctx.db, fingerprint)
  const agent = certificate && (await findAgent(ctx.db, certificate.agentId))
  const now = ctx.clock.now()
  if (!certificate || !agent || agent.revokedAt !== null || agent.lockedAt !== null) {
    throw expired('This certificate is unknown or revoked. The server needs a new join token.')
  }
  if (certificate.notAfter + ENROLMENT.renewAfterExpiryMs < now) {
    throw expired('This certificate expired too long ago. The server needs a new join token.')
  }
  return { certificate, agent }
}

export async function challengeRenewal(
  ctx: Context,
  certificatePem: string,
): Promise<{ nonce: string; expiresAt: number }> {
  const { certificate } = await loadExpired(ctx, certificatePem)
  const nonce = randomBytes(32).toString('base64url')
  return change(ctx, async ({ db, now }) => {
    const expiresAt = now + ENROLMENT.challengeMs
    const holder = certificate.fingerprint
    const code = { hash: hashToken(nonce), kind: 'renewal' as const, holder, body: '', expiresAt }
    await insertCode(db, code, { perHolder: ENROLMENT.challenges, now })
    return { nonce, expiresAt }
  })
}

/** The certificate and the agent of a request that is signed over an open nonce, which is used up. */
async function loadProven(
  ctx: Context,
  asked: { certificate: string; nonce: string; signature: string },
  text: Uint8Array,
) {
  const loaded = await loadExpired(ctx, asked.certificate)
  const asking = { kind: 'renewal', holder: loaded.certificate.fingerprint } as const
  const hash = hashToken(asked.nonce)
  const open = await change(ctx, ({ db, now }) => takeCode(db, { ...asking, hash, now }))
  const key = createPublicKey(asked.certificate)
  const signature = Buffer.from(asked.signature, 'base64url')
  const proven = open !== undefined && verify('sha256', text, key, signature)
  if (!proven) throw expired('The signature or the nonce does not fit.')
  return loaded
}

export async function renewExpired(
  ctx: Context,
  asked: { certificate: string; csr: string; nonce: string; signature: string },
): Promise<EnrollResponse> {
  const { certificate, agent } = await loadProven(ctx, asked, renewalText(asked.nonce, asked.csr))
  const { generation, ...issued } = await renewAgentCertificate(ctx, agent.id, {
    csr: asked.csr,
    generation: certificate.generation,
  })
  const trusted = await publishSshAuthorities(ctx, 'user')
  return answer(ctx, agent.id, agent.serverId, issued, generation, trusted)
}

/** Berth was uninstalled from the server: its agent never returns. The server stays, for its environments. */
export async function endLeavingAgent(
  ctx: Context,
  asked: { certificate: string; nonce: string; signature: string },
): Promise<LeaveResponse> {
  const { agent } = await loadProven(ctx, asked, leavingText(asked.nonce))
  return change(ctx, async (c) => {
    const server = await findServer(c.db, agent.serverId)
    if (!server || !(await endAgent(c.db, agent.id, c.now))) {
      throw expired('This certificate is unknown or revoked.')
    }
    c.notify(agentTopic(agent.id))
    const environments = (await listServerEnvironments(c.db, server.id)).length
    const subject: Subject = ['server', server.id]
    await auditAgent(c, agent.id, 'agent', 'agent.leave', subject, { environments })
    const { organizationId, id: server_id } = server
    emit(c, { organizationId }, 'server.updated', { server_id, status: 'uninstalled' })
    return { server: server.name, environments }
  })
}
