// The tables of users, organizations, tokens, passwords, browser sessions, invitations and logins of clients. Secrets are hashes here.
import type { Role } from '@berth/shared/api'
import type { Generated } from 'kysely'
import type { Flag } from './schema.ts'

export interface OrganizationsTable {
  id: Generated<number>
  name: string
  slug: string
  createdAt: number
  /** The row stays for tasks and audit; the short name is free again. */
  removedAt: number | null
}

export interface UsersTable {
  id: Generated<number>
  name: string
  email: string
  isPlatformAdmin: Generated<Flag>
  disabledAt: number | null
  createdAt: number
  lastActiveAt: number | null
}

export interface TokensTable {
  id: Generated<number>
  userId: number
  kind: 'login' | 'personal'
  name: string
  hash: string
  hint: string
  scopes: string
  organizationId: number | null
  expiresAt: number | null
  revokedAt: number | null
  lastUsedAt: number | null
  createdAt: number
  lastUsedAddress: string | null
  /** The login this access token belongs to; null: a personal token. */
  loginId: number | null
}

/** How a user proves who they are; today always by password. */
export interface AccountsTable {
  id: Generated<number>
  userId: number
  provider: string
  subject: string
  passwordHash: string | null
  createdAt: number
  updatedAt: number
}

export interface BrowserSessionsTable {
  id: Generated<number>
  userId: number
  tokenHash: string
  address: string | null
  userAgent: string | null
  expiresAt: number
  createdAt: number
  updatedAt: number
}

/** One-use links of password resets: the identifier is a hash, the value says for whom. */
export interface VerificationsTable {
  id: Generated<number>
  identifier: string
  value: string
  expiresAt: number
  createdAt: number
  updatedAt: number
}

export interface WrongTriesTable {
  key: string
  count: number
  /** Of the last try that was counted; later ones do not prolong the lock. */
  since: number
}

export interface InvitationsTable {
  id: Generated<number>
  organizationId: number
  email: string
  role: Role
  tokenHash: string
  invitedBy: number
  createdAt: number
  expiresAt: number
  acceptedAt: number | null
  acceptedBy: number | null
}

/** A client that logged in as a user: the family of its tokens. */
export interface LoginsTable {
  id: Generated<number>
  userId: number
  clientId: string
  name: string
  scopes: string
  createdAt: number
  revokedAt: number | null
}

export interface RefreshTokensTable {
  id: Generated<number>
  loginId: number
  hash: string
  createdAt: number
  expiresAt: number
  spentAt: number | null
  /** The one repetition a lost reply may have. */
  repeatedAt: number | null
}

export interface DeviceLoginsTable {
  id: Generated<number>
  deviceCodeHash: string
  userCode: string
  clientId: string
  deviceName: string
  scopes: string
  address: string
  status: 'pending' | 'approved' | 'denied' | 'spent'
  userId: number | null
  intervalMs: number
  polledAt: number | null
  createdAt: number
  expiresAt: number
}
