// Who may change whose role, and what an organization must keep. A caller cannot give, take or change a role above
// their own; an organization keeps one owner, an installation one platform administrator.
import { ROLES, type Role, SCOPES, type Scope } from '@berth/shared/api'

const rank = (role: Role): number => ROLES.indexOf(role)

export const isAbove = (role: Role, own: Role): boolean => rank(role) > rank(own)

type MemberVerdict = 'allowed' | 'role_too_high' | 'last_owner'

interface MemberFacts {
  /** The caller's role in this organization. */
  callerRole: Role
  targetRole: Role
  owners: number
  isSelf: boolean
}

/** With `newRole` null, the member leaves or is removed. */
export function decideMemberChange(facts: MemberFacts, newRole: Role | null): MemberVerdict {
  const { callerRole, targetRole, owners, isSelf } = facts
  if (!isSelf && isAbove(targetRole, callerRole)) return 'role_too_high'
  if (newRole !== null && isAbove(newRole, callerRole)) return 'role_too_high'
  if (targetRole === 'owner' && newRole !== 'owner' && owners <= 1) return 'last_owner'
  return 'allowed'
}

/** The requested scopes that the token in use lacks: a token creates only tokens with its own scopes or fewer. */
export const tooWide = (asked: readonly Scope[], own: readonly Scope[]): Scope[] =>
  asked.filter((scope) => !own.includes(scope))

/** "read deploy" → scopes in the table's order, each once; undefined if one is unknown. */
export function parseScopes(text: string): Scope[] | undefined {
  const words = text.split(' ').filter((word) => word !== '')
  if (words.some((word) => !(SCOPES as readonly string[]).includes(word))) return undefined
  return SCOPES.filter((scope) => words.includes(scope))
}

/** The normal form of an address, by which users are found. */
export const normalizeEmail = (email: string): string => email.trim().toLowerCase()
