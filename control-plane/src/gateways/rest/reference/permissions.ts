// Who may call an operation: from the config of its route, with the rules beyond roles that the glossary adds. The
// reference shows it as a sentence, programs read `x-permission`.
import { type Permission, ROLES, SCOPES, type Scope } from '@berth/shared/api'
import type { FastifyContextConfig } from 'fastify'
import { permissionsOf, SCOPE_OF } from '../../../domain/core/access.ts'
import type { OperationEntry } from './glossary/entries.ts'

export interface OperationPermission {
  /** A permission of roles, `project_owner`, `platform_admin`, `token` (any), or `nothing`. */
  needs: string
  /** Of the token; null: any, or no token. */
  scope: Scope | null
  /** Roles that have the permission; empty if no role decides. */
  roles: string[]
  says: string
}

const rolesWith = (permission: Permission): string[] =>
  ROLES.filter((role) => permissionsOf(role, SCOPES).includes(permission))

const either = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`

const PROTECTED = 'While the environment is protected, only its owner may do this.'

function describe(needs: string, scope: Scope | null, roles: string[], who?: string): string {
  const token = scope === null ? 'a token' : `a token with the scope \`${scope}\``
  if (needs === 'nothing') return `Needs ${who ?? 'no bearer token'}.`
  if (who !== undefined) return `Needs ${who}, and ${token}.`
  if (needs === 'token') return scope === null ? 'Needs any valid token.' : `Needs ${token}.`
  if (needs === 'platform_admin') {
    return `Needs a platform administrator, and ${token} that is bound to no organization.`
  }
  const whose = roles.length === ROLES.length ? 'every role' : either(roles)
  return `Needs the permission \`${needs}\` (${whose}), and ${token}.`
}

export function permissionOf(
  { needs = 'token', errors = [] }: FastifyContextConfig,
  entry: OperationEntry | undefined,
): OperationPermission {
  const isRole = needs !== 'nothing' && needs !== 'token' && needs !== 'platform_admin'
  const usual = isRole ? SCOPE_OF[needs] : needs === 'platform_admin' ? 'admin' : null
  const scope = entry?.scope ?? usual
  const roles = isRole && !entry?.permission ? rolesWith(needs) : []
  // a rule of its own about protection replaces the usual one
  const isProtected =
    errors.includes('environment_protected') && !/protected/.test(entry?.also ?? '')
  const rules = [
    describe(needs, scope, roles, entry?.permission?.who),
    ...(isProtected ? [PROTECTED] : []),
    ...(entry?.also ? [entry.also] : []),
  ]
  return { needs: entry?.permission?.name ?? needs, scope, roles, says: rules.join(' ') }
}
