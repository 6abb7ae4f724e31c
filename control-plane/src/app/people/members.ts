// Members: roles, leaving, removal. A former member keeps nothing: tokens bound to the organization are revoked, owned
// projects and environments get a new owner, and other tokens lose the organization from the next request on.
import { AppError } from '@berth/shared'
import type { Role } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { type Caller, effectiveMemberships, permit } from '../../domain/core/access.ts'
import { decideMemberChange } from '../../domain/people/people.ts'
import {
  deleteMembers,
  findMember,
  listMembers,
  listOwners,
  type Member,
  touchOrganization,
  updateMemberRole,
  updateOwnedBy,
} from '../../store/people/organizations.ts'
import { deleteBoundTokens } from '../../store/people/tokens.ts'
import { requirePermission, requireScope } from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'
import { forgetMember } from '../notices/channels.ts'
import { endSshAccess, endSshAccessBeyondRole } from '../ssh/revocation.ts'

const missing = () => new AppError('not_found', "Not found, or you don't have access.")

export async function listOrganizationMembers(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  page: { limit: number; after?: number | undefined },
): Promise<MemberView[]> {
  requirePermission(caller, organizationId, 'read')
  const rows = await listMembers(ctx.db, organizationId, page)
  return rows.map((row) => viewMember(caller, organizationId, row))
}

export interface MemberView extends Member {
  /** Null for callers who do not manage members. */
  hasSecondFactor: boolean | null
}

const viewMember = (caller: Caller, organizationId: number, member: Member): MemberView => ({
  ...member,
  hasSecondFactor:
    permit(caller, organizationId, 'member:write').kind === 'granted'
      ? member.secondFactorAt !== null
      : null,
})

/** The caller's role now, not at the start of the request, so that a demoted caller cannot use the old one. */
async function ownRole(c: Change, caller: Caller, organizationId: number): Promise<Role> {
  const own = await findMember(c.db, organizationId, caller.userId)
  if (!own) throw missing()
  return own.role
}

export async function emitMember(
  c: Change,
  organizationId: number,
  body: { user_id: number; role: Role | null },
): Promise<void> {
  emit(c, { organizationId }, 'member.updated', body)
}

function refuse(verdict: 'role_too_high' | 'last_owner', target: Member): AppError {
  return verdict === 'last_owner'
    ? new AppError(
        'last_owner',
        `${target.name} is the only owner. Make another member an owner first.`,
      )
    : new AppError('role_too_high', 'You can neither give nor change a role above your own.')
}

async function decide(
  c: Change,
  caller: Caller,
  organizationId: number,
  target: Member,
  newRole: Role | null,
): Promise<void> {
  const verdict = decideMemberChange(
    {
      callerRole: await ownRole(c, caller, organizationId),
      targetRole: target.role,
      owners: (await listOwners(c.db, organizationId)).length,
      isSelf: target.userId === caller.userId,
    },
    newRole,
  )
  if (verdict !== 'allowed') throw refuse(verdict, target)
}

export async function changeMemberRole(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  userId: number,
  role: Role,
): Promise<MemberView> {
  requirePermission(caller, organizationId, 'member:write')
  return change(ctx, async (c) => {
    await touchOrganization(c.db, organizationId)
    const target = await findMember(c.db, organizationId, userId)
    if (!target) throw missing()
    await decide(c, caller, organizationId, target, role)
    if (target.role === role) return viewMember(caller, organizationId, target)
    await updateMemberRole(c.db, organizationId, userId, role)
    await endSshAccessBeyondRole(c, { organizationId, userId }, role)
    const details = { before: target.role, after: role }
    await auditCaller(c, caller, organizationId, 'member.change', ['user', userId], details)
    await emitMember(c, organizationId, { user_id: userId, role })
    return viewMember(caller, organizationId, { ...target, role })
  })
}

/** Removing a member needs the permission; leaving needs a membership and a token that may manage members. */
export async function removeMember(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  userId: number,
): Promise<void> {
  if (userId === caller.userId) {
    const here = effectiveMemberships(caller).some((m) => m.organizationId === organizationId)
    if (!here) throw missing()
    requireScope(caller, 'admin')
  } else requirePermission(caller, organizationId, 'member:write')
  await change(ctx, async (c) => {
    await touchOrganization(c.db, organizationId)
    const target = await findMember(c.db, organizationId, userId)
    if (!target) throw missing()
    await decide(c, caller, organizationId, target, null)
    await deleteMembers(c.db, organizationId, userId)
    await deleteBoundTokens(c.db, organizationId, userId, c.now)
    await endSshAccess(c, { organizationId, userId }, 'member_removed')
    const channels = await forgetMember(c, organizationId, target.email)
    const passed = await passOn(c, organizationId, userId)
    const verb = userId === caller.userId ? 'member.leave' : 'member.remove'
    const subject: Subject = ['user', userId]
    await auditCaller(c, caller, organizationId, verb, subject, {
      role: target.role,
      ...passed,
      channels,
    })
    await emitMember(c, organizationId, { user_id: userId, role: null })
  })
}

/** Projects go to the longest-standing owner, environments to their project's owner. */
async function passOn(c: Change, organizationId: number, leaverId: number) {
  const [heir] = await listOwners(c.db, organizationId)
  if (!heir) throw new Error(`organization ${organizationId} has no owner`)
  const passed = await updateOwnedBy(c.db, organizationId, leaverId, heir.userId, c.now)
  const body = { fields: ['owner'] }
  for (const projectId of passed.projects) {
    emit(c, { organizationId, projectId }, 'project.updated', body)
  }
  for (const { id: environmentId, projectId } of passed.environments) {
    emit(c, { organizationId, projectId, environmentId }, 'environment.updated', body)
  }
  return { projects: passed.projects, environments: passed.environments.map((e) => e.id) }
}
