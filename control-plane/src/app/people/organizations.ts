// Organizations: created, renamed, ended. An organization with projects or servers cannot be ended.
import { AppError } from '@berth/shared'
import type { OrganizationCreate, OrganizationUpdate, Permission, Role } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { type Caller, effectiveMemberships, permissionsOf } from '../../domain/core/access.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import type { Db } from '../../store/engine/db.ts'
import { deleteStorage } from '../../store/environments/backups.ts'
import { deleteConnectionsOf } from '../../store/forges/connections.ts'
import { deleteChannelsOf } from '../../store/notices/channels.ts'
import { deleteOpenInvitations } from '../../store/people/invitations.ts'
import {
  countMembers,
  deleteMembers,
  findOrganization,
  listOrganizationsById,
  type Organization,
  touchOrganization,
  updateOrganization,
} from '../../store/people/organizations.ts'
import {
  countProjectsByOrganization,
  insertMember,
  insertOrganization,
} from '../../store/people/people.ts'
import { deleteBoundTokens } from '../../store/people/tokens.ts'
import { findUser } from '../../store/people/users.ts'
import { deleteRegistriesOf } from '../../store/projects/registries.ts'
import { listServers } from '../../store/servers/servers.ts'
import { requirePermission, requirePlatformAdmin, requireScope } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'

export interface OrganizationCounts {
  organization: Organization
  projectCount: number
  memberCount: number
  serverCount: number
}

export interface OrganizationView extends OrganizationCounts {
  role: Role
  permissions: Permission[]
}

/** "Acme Ltd." → "acme-ltd". */
export const toSlug = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '') || 'organization'

export async function countParts(db: Db, rows: Organization[]): Promise<OrganizationCounts[]> {
  const ids = rows.map((row) => row.id)
  const projects = await countProjectsByOrganization(db, ids)
  const members = await countMembers(db, ids)
  const servers = await listServers(db, ids)
  return rows.map((organization) => ({
    organization,
    projectCount: projects.get(organization.id) ?? 0,
    memberCount: members.get(organization.id) ?? 0,
    serverCount: servers.filter((s) => s.organizationId === organization.id).length,
  }))
}

export async function listOwnOrganizations(
  ctx: Context,
  caller: Caller,
): Promise<OrganizationView[]> {
  const memberships = new Map(effectiveMemberships(caller).map((m) => [m.organizationId, m.role]))
  const rows = await listOrganizationsById(ctx.db, [...memberships.keys()])
  return (await countParts(ctx.db, rows)).flatMap((counts) => {
    const role = memberships.get(counts.organization.id)
    return role === undefined
      ? []
      : [{ ...counts, role, permissions: permissionsOf(role, caller.scopes) }]
  })
}

async function viewOne(ctx: Context, caller: Caller, id: number): Promise<OrganizationView> {
  const found = (await listOwnOrganizations(ctx, caller)).find((v) => v.organization.id === id)
  if (!found) throw new AppError('not_found', "Not found, or you don't have access.")
  return found
}

const slugTaken = (slug: string) => (error: unknown) => {
  if (!isUniqueViolation(error)) throw error
  throw new AppError('slug_taken', `There is already an organization with the slug ${slug}.`)
}

/** For platform administrators, or for every user if the installation allows it; the creator becomes its owner. */
export async function createOrganization(
  ctx: Context,
  caller: Caller,
  asked: OrganizationCreate,
): Promise<OrganizationView> {
  if (ctx.config.openOrganizations) requireScope(caller, 'admin')
  else requirePlatformAdmin(caller)
  if (caller.tokenOrganizationId !== null) {
    throw new AppError('organization_forbidden', 'This token acts in one organization alone.')
  }
  const { name } = asked
  const slug = asked.slug ?? toSlug(name)
  const id = await change(ctx, async (c) => {
    const made = await insertOrganization(c.db, { name, slug, createdAt: c.now })
    const owner = { organizationId: made, userId: caller.userId, role: 'owner' as const }
    await insertMember(c.db, { ...owner, createdAt: c.now })
    const details = { name, slug }
    await auditCaller(c, caller, made, 'organization.create', ['organization', made], details)
    return made
  }).catch(slugTaken(slug))
  const membership = { organizationId: id, organizationName: name, organizationSlug: slug }
  return viewOne(
    ctx,
    {
      ...caller,
      askedOrganizationId: null,
      memberships: [...caller.memberships, { ...membership, role: 'owner' }],
    },
    id,
  )
}

export async function changeOrganization(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: OrganizationUpdate,
): Promise<OrganizationView> {
  requirePermission(caller, id, 'organization:write')
  await change(ctx, async (c) => {
    const before = await findOrganization(c.db, id)
    if (!before) throw new AppError('not_found', "Not found, or you don't have access.")
    const after = {
      ...(asked.name === undefined ? {} : { name: asked.name }),
      ...(asked.slug === undefined ? {} : { slug: asked.slug }),
      ...(asked.second_factor_required === undefined
        ? {}
        : { second_factor_required: asked.second_factor_required }),
    }
    if (Object.keys(after).length === 0) return
    const { second_factor_required: required, ...names } = after
    const since = before.secondFactorSince
    if (required === true && since === null) await requireFactorOf(c, caller)
    await updateOrganization(c.db, id, {
      ...names,
      ...(required === undefined ? {} : { secondFactorSince: required ? (since ?? c.now) : null }),
    })
    const { name, slug } = before
    const details = { before: { name, slug, second_factor_required: since !== null }, after }
    await auditCaller(c, caller, id, 'organization.change', ['organization', id], details)
    emit(c, { organizationId: id }, 'organization.updated', after)
  }).catch(slugTaken(asked.slug ?? ''))
  return viewOne(ctx, caller, id)
}

/** An owner without a factor would lock themselves out. */
async function requireFactorOf(c: Change, caller: Caller): Promise<void> {
  const user = await findUser(c.db, caller.userId)
  if (user && user.secondFactorAt !== null) return
  throw new AppError(
    'second_factor_required',
    'Set up two-factor sign-in for your own account first; otherwise you lock yourself out.',
  )
}

/** Needs its slug as confirmation, and an empty organization. */
export async function endOrganization(
  ctx: Context,
  caller: Caller,
  id: number,
  confirm: string | undefined,
): Promise<void> {
  requirePermission(caller, id, 'organization:write')
  await change(ctx, async (c) => {
    await touchOrganization(c.db, id)
    const organization = await findOrganization(c.db, id)
    if (!organization) throw new AppError('not_found', "Not found, or you don't have access.")
    const [counts] = await countParts(c.db, [organization])
    const { projectCount = 0, serverCount = 0 } = counts ?? {}
    if (projectCount > 0 || serverCount > 0) {
      throw new AppError(
        'organization_not_empty',
        `${organization.name} has ${projectCount} projects and ${serverCount} servers. Delete them first.`,
        { project_count: projectCount, server_count: serverCount },
      )
    }
    if (confirm !== organization.slug) {
      const message = `To delete ${organization.name}, repeat its slug: ?confirm=${organization.slug}`
      throw new AppError('confirmation_required', message, { confirm: organization.slug })
    }
    await deleteBoundTokens(c.db, id, undefined, c.now)
    await deleteOpenInvitations(c.db, id)
    await deleteMembers(c.db, id)
    await deleteRegistriesOf(c.db, id)
    await deleteConnectionsOf(c.db, id)
    await deleteStorage(c.db, id)
    await deleteChannelsOf(c.db, id)
    await updateOrganization(c.db, id, { slug: `~${id}`, removedAt: c.now })
    const details = { name: organization.name, slug: organization.slug }
    await auditCaller(c, caller, id, 'organization.delete', ['organization', id], details)
  })
}
