// What platform administrators do and see: accounts, and the names, counts and limits of all organizations and
// projects. No variable, log, certificate or member list is reachable from here.
import { AppError } from '@berth/shared'
import type { AdminUserUpdate } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { deleteUserSessions, deleteUserVerifications } from '../../store/people/accounts.ts'
import { deleteLogins } from '../../store/people/logins.ts'
import { listAllOrganizations, type Page } from '../../store/people/organizations.ts'
import type { User } from '../../store/people/people.ts'
import { deleteUserTokens } from '../../store/people/tokens.ts'
import {
  countOrganizationsByUser,
  findUser,
  listActiveAdmins,
  listAllProjects,
  listUsers,
  type ProjectSummary,
  updateUser,
} from '../../store/people/users.ts'
import { countEnvironments } from '../../store/projects/projects.ts'
import { requirePlatformAdmin } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change } from '../core/transaction.ts'
import { countParts, type OrganizationCounts } from '../people/organizations.ts'
import { endSshAccess } from '../ssh/revocation.ts'

export interface UserView {
  user: User
  organizationCount: number
}

export async function listEveryUser(ctx: Context, caller: Caller, page: Page): Promise<UserView[]> {
  requirePlatformAdmin(caller, 'read')
  const users = await listUsers(ctx.db, page)
  const counts = await countOrganizationsByUser(
    ctx.db,
    users.map((user) => user.id),
  )
  return users.map((user) => ({ user, organizationCount: counts.get(user.id) ?? 0 }))
}

/** Disabling an account ends its sessions, logins, tokens and shells immediately; enabling it restores none of them. */
export async function changeUser(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: AdminUserUpdate,
): Promise<UserView> {
  requirePlatformAdmin(caller)
  return change(ctx, async (c) => {
    const admins = await listActiveAdmins(c.db)
    const before = await findUser(c.db, id)
    if (!before) throw new AppError('not_found', "Not found, or you don't have access.")
    const loses = asked.is_platform_admin === false || asked.disabled === true
    if (loses && admins.length === 1 && admins[0] === id) {
      const message = `${before.name} is the only platform administrator. Appoint another one first.`
      throw new AppError('last_platform_admin', message)
    }
    const { is_platform_admin: admin, disabled } = asked
    if (admin !== undefined) await updateUser(c.db, id, { isPlatformAdmin: admin ? 1 : 0 })
    if (disabled !== undefined) {
      await updateUser(c.db, id, { disabledAt: disabled ? (before.disabledAt ?? c.now) : null })
    }
    if (disabled === true) {
      await deleteUserSessions(c.db, id)
      await deleteUserVerifications(c.db, id)
      await deleteLogins(c.db, { userId: id }, c.now)
      await deleteUserTokens(c.db, id, c.now)
      await endSshAccess(c, { userId: id }, 'account_disabled')
    }
    await auditCaller(c, caller, null, 'user.change', ['user', id], { ...asked })
    const after = await findUser(c.db, id)
    const counts = await countOrganizationsByUser(c.db, [id])
    return { user: after ?? before, organizationCount: counts.get(id) ?? 0 }
  })
}

export async function listEveryOrganization(
  ctx: Context,
  caller: Caller,
  page: Page,
): Promise<OrganizationCounts[]> {
  requirePlatformAdmin(caller, 'read')
  return countParts(ctx.db, await listAllOrganizations(ctx.db, page))
}

export interface ProjectCounts {
  project: ProjectSummary
  environmentCount: number
}

export async function listEveryProject(
  ctx: Context,
  caller: Caller,
  page: Page,
): Promise<ProjectCounts[]> {
  requirePlatformAdmin(caller, 'read')
  const projects = await listAllProjects(ctx.db, page)
  const counts = await countEnvironments(
    ctx.db,
    projects.map((project) => project.id),
  )
  return projects.map((project) => ({
    project,
    environmentCount: counts.get(project.id) ?? 0,
  }))
}
