// Ends SSH access. The transaction that takes a right away also revokes the certificates that depended on it and wakes
// the agents of those servers. `listRevokedSerials` reads the complete list that a server must refuse from the rows.
import { AppError } from '@berth/shared'
import { PERMISSIONS, type Role, SCOPES } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { type Caller, permissionsOf } from '../../domain/core/access.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import {
  findSshCertificate,
  type ListedSshCertificate,
  type RevocationScope,
  revokeSshCertificates,
} from '../../store/ssh/certificates.ts'
import { loadVisibleServer, requirePermission } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, trustTopic } from '../core/transaction.ts'

/** The reason shown in lists; the audit row of the cause has the details. */
type RevocationReason =
  | 'revoked'
  | 'environment_removed'
  | 'environment_moved'
  | 'environment_protected'
  | 'server_removed'
  | 'server_unshared'
  | 'member_removed'
  | 'role_lowered'
  | 'account_disabled'
  | 'password_reset'

/** Revokes the certificates and returns their number. The caller's own audit row names the actor. */
export async function endSshAccess(
  c: Change,
  scope: RevocationScope,
  reason: RevocationReason,
  userId: number | null = null,
): Promise<number> {
  const ended = await revokeSshCertificates(c.db, scope, { now: c.now, userId, reason })
  for (const serverId of new Set(ended.map((one) => one.serverId))) {
    const agent = await findServerAgent(c.db, serverId)
    if (agent) c.notify(trustTopic(agent.id))
  }
  return ended.length
}

/** For a lowered role: certificates that the new role still allows stay valid. */
export function endSshAccessBeyondRole(
  c: Change,
  member: { organizationId: number; userId: number },
  role: Role,
): Promise<number> {
  const kept = permissionsOf(role, SCOPES)
  const permissions = PERMISSIONS.filter((permission) => !kept.includes(permission))
  return endSshAccess(c, { ...member, permissions }, 'role_lowered')
}

/** For an environment that became protected: only its owner keeps a shell. */
export const endShellsOfOthers = (
  c: Change,
  environment: { id: number; ownerId: number },
): Promise<number> =>
  endSshAccess(
    c,
    { environmentId: environment.id, permissions: ['ssh'], exceptUserId: environment.ownerId },
    'environment_protected',
  )

/** Revokes one's own certificate, or any certificate with the permission to manage the server. Idempotent. */
export async function revokeSshCertificate(
  ctx: Context,
  caller: Caller,
  serverId: number,
  serial: string,
): Promise<ListedSshCertificate> {
  return change(ctx, async (c) => {
    const { server } = await loadVisibleServer(c.db, caller, serverId)
    const found = await findSshCertificate(c.db, serverId, serial)
    // checked before existence, so that other users learn nothing about serials
    if (found?.userId !== caller.userId)
      requirePermission(caller, server.organizationId, 'server:write')
    if (!found) throw new AppError('not_found', "Not found, or you don't have access.")
    if ((await endSshAccess(c, { serial, serverId }, 'revoked', caller.userId)) === 0) return found
    const { fingerprint, keyId } = found
    await auditCaller(
      c,
      caller,
      server.organizationId,
      'ssh_certificate.revoke',
      ['server', serverId],
      { serial, fingerprint, key_id: keyId },
    )
    return (await findSshCertificate(c.db, serverId, serial)) ?? found
  })
}
