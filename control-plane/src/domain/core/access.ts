// Who may do what: the table of roles, how a token's scopes limit it, and the rules beyond roles. Every permission
// check uses this table; there is no other.
import { PERMISSIONS, type Permission, type Role, type Scope } from '@berth/shared/api'

export interface Membership {
  organizationId: number
  organizationName: string
  organizationSlug: string
  role: Role
}

/** The sender of a request, as far as decisions need it. */
export interface Caller {
  userId: number
  name: string
  isPlatformAdmin: boolean
  scopes: readonly Scope[]
  /** The organization that the token is bound to, and the one that the request's header names. */
  tokenOrganizationId: number | null
  askedOrganizationId: number | null
  memberships: readonly Membership[]
  /** Where the request came from; only for the audit log. */
  origin: Origin
}

export interface Origin {
  /** Null for a browser's session. */
  tokenId: number | null
  address: string
  requestId: string
}

/** Where a request came from. */
export type From = Pick<Origin, 'address' | 'requestId'>

const VIEWER: Permission[] = ['read']
const DEVELOPER: Permission[] = [...VIEWER, 'deploy', 'environment:write', 'variables:write', 'ssh']
const ADMIN: Permission[] = [
  ...DEVELOPER,
  'project:write',
  'server:write',
  'member:write',
  'audit:read',
]
const ROLE_PERMISSIONS: Record<Role, readonly Permission[]> = {
  viewer: VIEWER,
  developer: DEVELOPER,
  admin: ADMIN,
  owner: [...ADMIN, 'organization:write'],
}

/** The scope a token must have for a permission. */
export const SCOPE_OF: Record<Permission, Scope> = {
  read: 'read',
  deploy: 'deploy',
  'environment:write': 'write',
  'variables:write': 'write',
  ssh: 'ssh',
  'project:write': 'admin',
  'server:write': 'admin',
  'member:write': 'admin',
  'audit:read': 'admin',
  'organization:write': 'admin',
}

/** Role ∩ scopes, in the table's order. */
export function permissionsOf(role: Role, scopes: readonly Scope[]): Permission[] {
  const ofRole = new Set(ROLE_PERMISSIONS[role])
  return PERMISSIONS.filter((p) => ofRole.has(p) && scopes.includes(SCOPE_OF[p]))
}

/** A bound token and the organization header limit the organizations of a request. */
export const isWithin = (caller: Caller, organizationId: number): boolean =>
  (caller.tokenOrganizationId === null || organizationId === caller.tokenOrganizationId) &&
  (caller.askedOrganizationId === null || organizationId === caller.askedOrganizationId)

/** The memberships that count for this request. */
export const effectiveMemberships = (caller: Caller): Membership[] =>
  caller.memberships.filter((m) => isWithin(caller, m.organizationId))

const membershipIn = (caller: Caller, organizationId: number): Membership | undefined =>
  isWithin(caller, organizationId)
    ? caller.memberships.find((m) => m.organizationId === organizationId)
    : undefined

export const roleIn = (caller: Caller, organizationId: number): Role | undefined =>
  membershipIn(caller, organizationId)?.role

/** False if the header names an organization in which the caller cannot act; checked before anything else. */
export function mayAskOrganization(caller: Caller): boolean {
  return caller.askedOrganizationId === null || effectiveMemberships(caller).length > 0
}

type Permit =
  | { kind: 'granted' }
  | { kind: 'hidden' }
  | { kind: 'role_lacks'; permission: Permission }
  | { kind: 'scope_lacks'; scope: Scope }

/** What the caller may do in an organization. For callers who are not members, its rows do not exist. */
export function permit(caller: Caller, organizationId: number, permission: Permission): Permit {
  const membership = membershipIn(caller, organizationId)
  if (!membership) return { kind: 'hidden' }
  if (!ROLE_PERMISSIONS[membership.role].includes(permission)) {
    return { kind: 'role_lacks', permission }
  }
  const scope = SCOPE_OF[permission]
  return caller.scopes.includes(scope) ? { kind: 'granted' } : { kind: 'scope_lacks', scope }
}

/** No role overrides protection: only the owner changes a protected environment. */
export const mayChangeProtected = (
  caller: Caller,
  environment: { protected: boolean; ownerId: number },
): boolean => !environment.protected || environment.ownerId === caller.userId
