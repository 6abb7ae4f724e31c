// Serializes SSH certificates and host authorities to the documented fields.
import { SSH_ACCOUNTS, type SshAccount, sshHostAlias } from '@berth/shared'
import type {
  IssuedSshCertificate as IssuedBody,
  LiveSshAccess as LiveBody,
  SshAuthority as SshAuthorityBody,
  SshCertificate,
  SshHostAuthority,
} from '@berth/shared/api'
import type { IssuedCertificate, LiveSshAccess } from '../../app/ssh/certificates.ts'
import type { SshAuthorityView } from '../../app/ssh/rotation.ts'
import { certificateStatus, sshEndpointOf } from '../../domain/ssh/grant.ts'
import type { SshAuthority } from '../../store/ssh/authorities.ts'
import type { ListedSshCertificate } from '../../store/ssh/certificates.ts'
import { time, timeOrNull } from './fields.ts'

export function serializeCertificate(issued: IssuedCertificate): SshCertificate {
  const { row, server } = issued
  return {
    certificate: issued.certificate,
    serial: row.serial,
    key_id: row.keyId,
    principals: [row.principal],
    grant: { environment_id: row.environmentId, can: row.can },
    extensions: issued.extensions,
    valid_after: time(row.validAfter),
    valid_before: time(row.validBefore),
    server: { id: server.id, name: server.name, hostname: server.hostname },
    host: server.hostname,
    ...serializeEndpoint(server, row.account),
    host_alias: sshHostAlias(server.id),
    host_ca: issued.hostKeys,
  }
}

function serializeEndpoint(server: IssuedCertificate['server'], account: SshAccount) {
  return {
    port: sshEndpointOf(server).port,
    user: server.host?.ssh?.accounts[SSH_ACCOUNTS.indexOf(account)] ?? account,
  }
}

export const serializeIssued = (row: ListedSshCertificate, now: number): IssuedBody => ({
  serial: row.serial,
  key_id: row.keyId,
  status: certificateStatus(row, now),
  purpose: row.purpose,
  grant: { environment_id: row.environmentId, can: row.can },
  holder: { id: row.userId, name: row.holderName },
  principals: [row.principal],
  user: row.account,
  key_type: row.keyType,
  fingerprint: row.fingerprint,
  address: row.address,
  issued_at: time(row.issuedAt),
  valid_after: time(row.validAfter),
  valid_before: time(row.validBefore),
  session_until: time(row.sessionUntil),
  revoked_at: row.revokedAt === null ? null : time(row.revokedAt),
  revoked_by: row.revokedBy === null ? null : { id: row.revokedBy, name: row.revokerName ?? '' },
  revoke_reason: row.revokeReason,
})

export const serializeLive = (access: LiveSshAccess, now: number): LiveBody => ({
  ...serializeIssued(access, now),
  server: {
    id: access.server.id,
    name: access.server.name,
    hostname: access.server.hostname,
  },
  environment: access.environmentName,
  sessions: access.sessions.map(({ verb, startedAt }) => ({ verb, started_at: time(startedAt) })),
})

export const serializeHostAuthority = (authority: SshAuthority): SshHostAuthority => ({
  public_key: authority.publicKey,
  fingerprint: authority.fingerprint,
  created_at: time(authority.createdAt),
})

export function serializeSshAuthority({ authority, waitsFor }: SshAuthorityView): SshAuthorityBody {
  const { phase } = authority
  if (phase === 'retired') throw new Error('a retired authority is not published')
  return {
    id: authority.id,
    kind: authority.kind,
    phase,
    fingerprint: authority.fingerprint,
    public_key: authority.publicKey,
    created_at: time(authority.createdAt),
    signing_at: timeOrNull(authority.signingAt),
    retiring_at: timeOrNull(authority.retiringAt),
    waits_for: waitsFor.map(({ id, name }) => ({ id, name })),
  }
}
