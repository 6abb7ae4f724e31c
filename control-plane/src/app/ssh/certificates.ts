// Issues an SSH certificate for one purpose, one environment, one server and a few minutes. Access is decided in the
// transaction that writes the row and its audit; signing follows the commit. A failed signature leaves a row without a
// certificate; a certificate without a row cannot exist.
import { randomBytes } from 'node:crypto'
import { AppError, type FieldProblem, invalidFields, SSH } from '@berth/shared'
import type { SshCertificateRequest } from '@berth/shared/api'
import {
  acceptPublicKey,
  fingerprintOf,
  type Signer,
  SshKeyError,
  type SshPublicKey,
  signCertificate,
} from '@berth/shared/ssh'
import type { Context } from '../../context.ts'
import { type Caller, permit } from '../../domain/core/access.ts'
import {
  type AskedGrant,
  type CertificatePlan,
  decideGrant,
  needsEnvironment,
  planCertificate,
  sshEndpointOf,
  termsOf,
} from '../../domain/ssh/grant.ts'
import { type Environment, lockEnvironment } from '../../store/environments/environments.ts'
import { listMemberships, listUserNames, lockMember } from '../../store/people/people.ts'
import { findToken } from '../../store/people/tokens.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { listServersById, type Server } from '../../store/servers/servers.ts'
import { listPublishedAuthorities } from '../../store/ssh/authorities.ts'
import {
  insertSshCertificate,
  type ListedSshCertificate,
  type LiveSshCertificate,
  listLiveSshCertificates,
  listSshCertificates,
  markSshCertificateSigned,
  type SshCertificateRow,
} from '../../store/ssh/certificates.ts'
import {
  environmentProtected,
  loadEnvironment,
  loadServer,
  loadVisibleServer,
  readableOrganizations,
  requirePermission,
} from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { ensureSshAuthorities, openSshSigner } from './authorities.ts'

export interface IssuedCertificate {
  /** The line of a -cert.pub file. */
  certificate: string
  row: SshCertificateRow
  extensions: string[]
  server: Server
  /** Lines for known_hosts that identify this server. */
  hostKeys: string[]
}

/** 63 random bits, never 0, because a revocation list cannot name serial 0. */
export function makeSerial(): bigint {
  for (;;) {
    const serial = randomBytes(8).readBigUInt64BE(0) >> 1n
    if (serial > 0n) return serial
  }
}

/** Fills in every default; throws all problems of the request together. */
function readRequest(asked: SshCertificateRequest): { key: SshPublicKey; grant: AskedGrant } {
  const problems: FieldProblem[] = []
  let key: SshPublicKey | undefined
  try {
    key = acceptPublicKey(asked.public_key)
  } catch (error) {
    if (!(error instanceof SshKeyError)) throw error
    problems.push({ field: 'public_key', code: error.code, message: error.message })
  }
  const grant: AskedGrant = {
    purpose: asked.purpose ?? 'shell',
    environmentId: asked.environment_id ?? null,
    ttlSeconds: asked.ttl_seconds ?? SSH.ttlSeconds,
  }
  if (grant.environmentId === null && needsEnvironment(grant.purpose)) {
    const message = `environment_id is needed: the purpose "${grant.purpose}" is for one environment.`
    problems.push({ field: 'environment_id', code: 'required', message })
  }
  if (!key || problems.length > 0) throw invalidFields(problems)
  return { key, grant }
}

export async function issueSshCertificate(
  ctx: Context,
  caller: Caller,
  serverId: number,
  asked: SshCertificateRequest,
): Promise<IssuedCertificate> {
  const { key, grant } = readRequest(asked)
  await loadVisibleServer(ctx.db, caller, serverId)
  await ensureSshAuthorities(ctx)
  const decided = await change(ctx, (c) => recordCertificate(ctx, c, caller, serverId, key, grant))
  const { row, plan, signer, server, hostKeys } = decided
  const certificate = await signCertificate(
    key,
    {
      kind: 'user',
      serial: BigInt(row.serial),
      keyId: plan.keyId,
      principals: [plan.principal],
      validAfter: plan.validAfter,
      validBefore: plan.validBefore,
      criticalOptions: new Map(),
      extensions: new Map(plan.extensions),
    },
    signer,
  )
  const signed = await change(ctx, (c) => markSshCertificateSigned(c.db, row.id, c.now))
  if (!signed) {
    throw new AppError('permission_denied', 'This access was ended while it was being given.')
  }
  return { certificate, row, extensions: plan.extensions.map(([name]) => name), server, hostKeys }
}

interface Decided {
  row: SshCertificateRow
  plan: CertificatePlan
  signer: Signer
  server: Server
  hostKeys: string[]
}

async function recordCertificate(
  ctx: Context,
  c: Change,
  caller: Caller,
  serverId: number,
  key: SshPublicKey,
  grant: AskedGrant,
): Promise<Decided> {
  const { server, organizationId } = await requireAccess(c, caller, serverId, grant)
  const serial = String(makeSerial())
  const holder = { userId: caller.userId, organizationId, serverId }
  const plan = planCertificate(grant, holder, serial, c.now)
  const { authority, signer } = await openSshSigner(ctx, c.db, 'user')
  const fingerprint = fingerprintOf(key)
  const { address } = caller.origin
  const row = await insertSshCertificate(c.db, {
    ...holder,
    serial,
    environmentId: grant.environmentId,
    authorityId: authority.id,
    purpose: grant.purpose,
    permission: plan.permission,
    can: plan.can,
    account: plan.account,
    principal: plan.principal,
    keyId: plan.keyId,
    keyType: key.type,
    fingerprint,
    address,
    issuedAt: c.now,
    validAfter: plan.validAfter * 1_000,
    validBefore: plan.validBefore * 1_000,
    sessionUntil: plan.until * 1_000,
  })
  const { purpose, environmentId } = grant
  await auditCaller(c, caller, organizationId, 'ssh_certificate.issue', ['server', serverId], {
    serial,
    fingerprint,
    purpose,
    environment_id: environmentId,
    address,
    valid_before: new Date(row.validBefore).toISOString(),
  })
  const hosts = await listPublishedAuthorities(c.db, 'host')
  return { row, plan, signer, server, hostKeys: hosts.map((host) => host.publicKey) }
}

/** Reads and locks every input of the decision, so a concurrent revocation waits and then covers this certificate. */
async function requireAccess(
  c: Change,
  caller: Caller,
  serverId: number,
  grant: AskedGrant,
): Promise<{ server: Server; organizationId: number }> {
  const organizationId = await decidingOrganization(c, caller, serverId, grant)
  const held = await lockMember(c.db, organizationId, caller.userId)
  if (held.disabled) throw new AppError('account_disabled', 'Your account is disabled.')
  await requireLiveToken(c, caller)
  const now = { ...caller, memberships: await listMemberships(c.db, caller.userId) }
  const { server } = await loadVisibleServer(c.db, now, serverId)
  const environment = await loadOnServer(c, server, grant)
  requirePermission(now, organizationId, termsOf(grant).permission)
  const agent = await findServerAgent(c.db, serverId)
  const decision = decideGrant(now, grant, {
    server: {
      joined: agent !== undefined,
      shellEnabled: Boolean(server.shellEnabled),
      sshOff: sshEndpointOf(server).state === 'off',
    },
    environment: environment && { ...environment, removing: environment.removingAt !== null },
  })
  const name = environment?.identifier ?? ''
  switch (decision.kind) {
    case 'granted':
      return { server, organizationId }
    case 'protected': {
      const ownerId = environment?.ownerId ?? 0
      const owner = (await listUserNames(c.db, [ownerId])).get(ownerId) ?? 'another user'
      throw environmentProtected({ identifier: name, ownerId }, owner)
    }
    case 'removing':
      throw new AppError('environment_removing', `${name} is being removed.`)
    case 'shell_disabled':
      throw new AppError(
        'server_shell_disabled',
        `Shells on the whole of ${server.name} are switched off. Name an environment, or have an administrator set shell_enabled.`,
      )
    case 'ssh_unavailable': {
      const reason = sshEndpointOf(server).reason ?? 'Its agent says that SSH is off.'
      throw new AppError('ssh_unavailable', `SSH to ${server.name} is unavailable: ${reason}`, {
        server: { id: server.id, name: server.name },
        reason,
      })
    }
    case 'server_not_ready':
      throw new AppError(
        'server_not_ready',
        `No agent ever joined from ${server.name}. Make a join token and run the command on it: berth server join-token ${server.name}.`,
        { server: { id: server.id, name: server.name } },
      )
  }
}

/**
 * The environment's organization decides who enters it; the server's owner decides who enters the whole server. On a
 * shared server these differ, and neither sees what is the other's.
 */
async function decidingOrganization(
  c: Change,
  caller: Caller,
  serverId: number,
  { environmentId }: AskedGrant,
): Promise<number> {
  const { server } = await loadVisibleServer(c.db, caller, serverId)
  if (environmentId === null) return server.organizationId
  return (await loadEnvironment(c.db, caller, environmentId, 'read')).organizationId
}

/** Revoking a token locks the user too, so a token that was just revoked cannot get another certificate. */
async function requireLiveToken(c: Change, { origin }: Caller): Promise<void> {
  const token = origin.tokenId === null ? undefined : await findToken(c.db, origin.tokenId)
  if (token && token.revokedAt !== null) {
    throw new AppError('token_revoked', 'This token was revoked. Log in again.')
  }
}

/** An environment of another server is reported as not found. */
async function loadOnServer(
  c: Change,
  server: Server,
  grant: AskedGrant,
): Promise<Environment | undefined> {
  if (grant.environmentId === null) return undefined
  const environment = await lockEnvironment(c.db, grant.environmentId)
  if (environment?.serverId === server.id) return environment
  throw new AppError('not_found', "Not found, or you don't have access.")
}

export async function listIssuedSshCertificates(
  ctx: Context,
  caller: Caller,
  serverId: number,
  page: { beforeId: number | undefined; limit: number },
): Promise<ListedSshCertificate[]> {
  const { organizationId } = await loadServer(ctx.db, caller, serverId, 'audit:read')
  return listSshCertificates(ctx.db, { serverId, organizationId }, page)
}

export interface LiveSshAccess extends LiveSshCertificate {
  server: Server
}

/** The caller's own; `everyone`: of every user in the organizations whose audit log the caller reads. */
export async function listLiveSshAccess(
  ctx: Context,
  caller: Caller,
  everyone: boolean,
): Promise<LiveSshAccess[]> {
  const organizations = readableOrganizations(caller)
  const audited = organizations.filter((id) => permit(caller, id, 'audit:read').kind === 'granted')
  if (everyone && audited.length === 0) {
    for (const id of organizations) requirePermission(caller, id, 'audit:read')
  }
  const rows = await listLiveSshCertificates(
    ctx.db,
    everyone ? audited : organizations,
    everyone ? undefined : caller.userId,
    { now: ctx.clock.now(), limit: SSH.liveRows },
  )
  const ids = [...new Set(rows.map(({ serverId }) => serverId))]
  const servers = new Map((await listServersById(ctx.db, ids)).map((server) => [server.id, server]))
  return rows.flatMap((row) => {
    const server = servers.get(row.serverId)
    return server ? [{ ...row, server }] : []
  })
}
