// The tables of SSH authorities and certificates.
import type { SshAccount } from '@berth/shared'
import type { Permission, SshPurpose } from '@berth/shared/api'
import type { Generated } from 'kysely'

export const AUTHORITY_PHASES = ['announced', 'signing', 'retiring', 'retired'] as const
export type AuthorityPhase = (typeof AUTHORITY_PHASES)[number]

export interface SshAuthoritiesTable {
  id: Generated<number>
  kind: 'user' | 'host'
  phase: AuthorityPhase
  publicKey: string
  fingerprint: string
  /** Null once it is retired: nobody can sign with it again. */
  keySealed: string | null
  createdAt: number
  signingAt: number | null
  retiringAt: number | null
  retiredAt: number | null
}

/** The agent said that it trusts this authority. */
export interface SshAuthorityConfirmationsTable {
  authorityId: number
  agentId: string
  confirmedAt: number
}

export interface SshCertificatesTable {
  id: Generated<number>
  serial: string
  organizationId: number
  serverId: number
  environmentId: number | null
  userId: number
  authorityId: number
  purpose: SshPurpose
  /** What its holder had to be allowed to: whoever loses it loses the certificate. */
  permission: Permission
  /** JSON array. */
  can: string
  account: SshAccount
  principal: string
  keyId: string
  keyType: string
  fingerprint: string
  /** Where the request came from. */
  address: string
  issuedAt: number
  validAfter: number
  validBefore: number
  /** The latest end of a session that it opened. */
  sessionUntil: number
  /** Null: the signature failed or was never made; nobody has this certificate. */
  signedAt: number | null
  revokedAt: number | null
  /** Null: the platform, because the access ended. */
  revokedBy: number | null
  revokeReason: string | null
}

/** The newest host certificate of each server. */
export interface SshHostCertificatesTable {
  serverId: number
  authorityId: number
  serial: string
  fingerprint: string
  issuedAt: number
  validBefore: number
}
