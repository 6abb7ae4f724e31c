// The one place that checks an id from outside against the caller's organizations. A row of another organization gets
// the same answer as a missing row; for a visible row the refusal names the missing permission or scope.
import { AppError } from '@berth/shared'
import type { Permission, Scope } from '@berth/shared/api'
import {
  type Caller,
  effectiveMemberships,
  mayChangeProtected,
  permit,
  roleIn,
  SCOPE_OF,
} from '../../domain/core/access.ts'
import { findTask } from '../../store/deployments/tasks.ts'
import type { Db } from '../../store/engine/db.ts'
import { findBackup } from '../../store/environments/backups.ts'
import { type Environment, findEnvironment } from '../../store/environments/environments.ts'
import { type ForgeConnection, findConnection } from '../../store/forges/connections.ts'
import { findChannel } from '../../store/notices/channels.ts'
import { findNotice } from '../../store/notices/notices.ts'
import { listUserNames } from '../../store/people/people.ts'
import { findProject, type Project } from '../../store/projects/projects.ts'
import { findServer, listServersById, type Server } from '../../store/servers/servers.ts'
import { listShares } from '../../store/servers/shares.ts'

export const missing = (): AppError =>
  new AppError('not_found', "Not found, or you don't have access.")

/** Throws unless the caller may do this in this organization. */
export function requirePermission(
  caller: Caller,
  organizationId: number,
  permission: Permission,
): void {
  const verdict = permit(caller, organizationId, permission)
  switch (verdict.kind) {
    case 'granted':
      return
    case 'hidden':
      throw missing()
    case 'role_lacks':
      throw new AppError('permission_denied', `Your role does not include "${permission}".`, {
        required_permission: permission,
      })
    case 'scope_lacks':
      throw scopeMissing(verdict.scope)
  }
}

const scopeMissing = (scope: Scope): AppError =>
  new AppError(
    'insufficient_scope',
    `This token lacks the scope "${scope}". Make one that has it.`,
    { required_scope: scope },
  )

/** Lets a caller see the result of their own action, even with a token that lacks the scope `read`. */
export const asReader = (caller: Caller): Caller =>
  caller.scopes.includes('read') ? caller : { ...caller, scopes: [...caller.scopes, 'read'] }

/** For data that belongs to the caller and to no organization. */
export function requireScope(caller: Caller, scope: Scope): void {
  if (!caller.scopes.includes(scope)) throw scopeMissing(scope)
}

/** Requires the admin flag of the user, and a token that has the scope and is bound to no organization. */
export function requirePlatformAdmin(caller: Caller, scope: Scope = 'admin'): void {
  if (!caller.isPlatformAdmin || caller.tokenOrganizationId !== null) {
    throw new AppError('platform_admin_only', 'Only a platform administrator can do this.')
  }
  requireScope(caller, scope)
}

function allowed<T extends { organizationId: number }>(
  row: T | undefined,
  caller: Caller,
  permission: Permission,
): T {
  if (!row || permit(caller, row.organizationId, 'read').kind === 'hidden') throw missing()
  requirePermission(caller, row.organizationId, permission)
  return row
}

/** A row by its id, as far as the caller may see it and use it in this way. */
const loadWith =
  <T extends { organizationId: number }>(find: (db: Db, id: number) => Promise<T | undefined>) =>
  async (db: Db, caller: Caller, id: number, permission: Permission): Promise<T> =>
    allowed(await find(db, id), caller, permission)

export const loadServer = loadWith(findServer)

/**
 * For what every organization with a place on the server may see. `isShared`: the caller's organization is a guest
 * there; what belongs to the owner stays hidden.
 */
export async function loadVisibleServer(
  db: Db,
  caller: Caller,
  id: number,
): Promise<{ server: Server; isShared: boolean }> {
  const server = await findServer(db, id)
  if (!server) throw missing()
  if (!isGuest(caller, server)) {
    requirePermission(caller, server.organizationId, 'read')
    return { server, isShared: false }
  }
  const shares = (await listShares(db, [id])).get(id) ?? []
  const guest = shares.find((one) => permit(caller, one.id, 'read').kind !== 'hidden')
  if (!guest) throw missing()
  requirePermission(caller, guest.id, 'read')
  return { server, isShared: true }
}

/** Whether a server that the caller sees is another organization's. */
export const isGuest = (caller: Caller, server: Pick<Server, 'organizationId'>): boolean =>
  permit(caller, server.organizationId, 'read').kind === 'hidden'

/** Those of these servers on which an organization may place environments. */
export async function filterUsableServers(
  db: Db,
  organizationId: number,
  ids: readonly number[],
): Promise<number[]> {
  const servers = (await listServersById(db, [...ids])).filter((one) => one.removedAt === null)
  const shares = await listShares(db, [...ids])
  return servers
    .filter(
      (server) =>
        server.organizationId === organizationId ||
        shares.get(server.id)?.some((one) => one.id === organizationId),
    )
    .map(({ id }) => id)
}

export const loadProject = loadWith(findProject)

/** For actions of the project's owner and the owners of its organization; a token also needs the scope for projects. */
export async function loadOwnedProject(db: Db, caller: Caller, id: number): Promise<Project> {
  const project = allowed(await findProject(db, id), caller, 'read')
  const isOwner = project.ownerId === caller.userId
  if (!isOwner && roleIn(caller, project.organizationId) !== 'owner') {
    throw new AppError(
      'permission_denied',
      "Only the project's owner and owners of the organization can do this.",
      { required_permission: 'project_owner' },
    )
  }
  const required_scope = SCOPE_OF['project:write']
  if (caller.scopes.includes(required_scope)) return project
  throw new AppError(
    'insufficient_scope',
    `This token lacks the scope "${required_scope}". Make one that has it.`,
    { required_scope },
  )
}

export const loadEnvironment = loadWith(findEnvironment)
export const loadTask = loadWith(findTask)
export const loadBackup = loadWith(findBackup)
export const loadForgeConnection = loadWith(findConnection)

/** A connection to a forge that projects of this organization may use. */
export async function findUsableConnection(
  db: Db,
  organizationId: number,
  id: number,
): Promise<ForgeConnection | undefined> {
  const found = await findConnection(db, id)
  return found?.organizationId === organizationId ? found : undefined
}

export const loadChannel = loadWith(findChannel)
export const loadNotice = loadWith(findNotice)

/** Organizations whose rows a list may show. */
export function readableOrganizations(caller: Caller): number[] {
  return effectiveMemberships(caller)
    .filter((m) => permit(caller, m.organizationId, 'read').kind === 'granted')
    .map((m) => m.organizationId)
}

/** Where a new row goes: the organization of the header, or the only one the caller has. */
export function organizationForCreation(caller: Caller, permission: Permission): number {
  const memberships = effectiveMemberships(caller)
  const [only] = memberships
  if (!only || memberships.length > 1) {
    throw new AppError(
      'organization_required',
      'You belong to several organizations: name one with X-Service-Organization.',
      { organizations: memberships.map((m) => m.organizationId) },
    )
  }
  requirePermission(caller, only.organizationId, permission)
  return only.organizationId
}

/** Protection overrides every role. */
export async function requireUnprotected(
  db: Db,
  caller: Caller,
  environment: Environment,
): Promise<void> {
  if (mayChangeProtected(caller, environment)) return
  const names = await listUserNames(db, [environment.ownerId])
  throw environmentProtected(environment, names.get(environment.ownerId) ?? 'another user')
}

export const environmentProtected = (
  environment: { identifier: string; ownerId: number },
  ownerName: string,
): AppError =>
  new AppError(
    'environment_protected',
    `${environment.identifier} is protected; only its owner (${ownerName}) can change it.`,
    { owner: { id: environment.ownerId, name: ownerName } },
  )
