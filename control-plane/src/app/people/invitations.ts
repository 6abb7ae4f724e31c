// Invitations: one link each, for one use, one address and 7 days. It is mailed, and shown to the person who invites
// in a browser, in case the mail does not arrive. Accepting one
// is the only way into an organization, and apart from set-up the only way to create an account.
import { AppError, invalidFields, PEOPLE } from '@berth/shared'
import type { InvitationCreate, Role } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller, From } from '../../domain/core/access.ts'
import { isAbove, normalizeEmail } from '../../domain/people/people.ts'
import { hashPassword } from '../../identity/passwords.ts'
import { hashToken, makeToken, parseToken } from '../../identity/tokens.ts'
import { invitationLetter } from '../../mail/messages.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import type { Db } from '../../store/engine/db.ts'
import { insertPassword } from '../../store/people/accounts.ts'
import {
  countOpenInvitations,
  deleteInvitation,
  findInvitation,
  findInvitationByHash,
  findOpenInvitation,
  type Invitation,
  insertInvitation,
  listInvitations,
  takeInvitation,
  updateInvitationLink,
} from '../../store/people/invitations.ts'
import { deleteSecretsOf, listSecretsBySubject } from '../../store/people/one-time-secrets.ts'
import {
  countMembers,
  findMember,
  findMemberByEmail,
  findOrganization,
  type Organization,
  touchOrganization,
} from '../../store/people/organizations.ts'
import { insertMember, insertUser, listUserNames, type User } from '../../store/people/people.ts'
import { findUser, findUserByEmail } from '../../store/people/users.ts'
import { requirePermission } from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { queueMail } from './mail.ts'
import { emitMember } from './members.ts'
import { keepSecret } from './one-time-secrets.ts'
import { personAsCaller } from './sign-in.ts'

export interface InvitationView {
  invitation: Invitation
  invitedByName: string
  status: 'pending' | 'accepted' | 'expired'
  /** The page that shows its link to the person who made it. */
  page?: string | null
}

const missing = () => new AppError('not_found', "Not found, or you don't have access.")

function view(invitation: Invitation, names: Map<number, string>, now: number): InvitationView {
  const expired = invitation.expiresAt <= now ? 'expired' : 'pending'
  return {
    invitation,
    invitedByName: names.get(invitation.invitedBy) ?? '',
    status: invitation.acceptedAt === null ? expired : 'accepted',
  }
}

export async function listOrganizationInvitations(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  page: { limit: number; before?: number | undefined },
): Promise<InvitationView[]> {
  requirePermission(caller, organizationId, 'member:write')
  const rows = await listInvitations(ctx.db, organizationId, page)
  const names = await listUserNames(ctx.db, [...new Set(rows.map((row) => row.invitedBy))])
  const now = ctx.clock.now()
  const pages =
    caller.origin.tokenId === null
      ? await listSecretsBySubject(ctx.db, caller.userId, now)
      : new Map<string, string>()
  return rows.map((row) => ({
    ...view(row, names, now),
    page: pages.get(linkSubject(row.id)) ?? null,
  }))
}

async function getOrganization(db: Db, id: number): Promise<Organization> {
  const organization = await findOrganization(db, id)
  if (!organization) throw missing()
  return organization
}

async function requireRoleWithin(
  c: Change,
  caller: Caller,
  organizationId: number,
  role: Role,
): Promise<void> {
  const own = await findMember(c.db, organizationId, caller.userId)
  if (!own) throw missing()
  if (isAbove(role, own.role)) {
    throw new AppError('role_too_high', `You cannot invite as ${role}: it is above your own role.`)
  }
}

async function mailLink(
  ctx: Context,
  c: Change,
  caller: Caller,
  to: { email: string; role: Role; organization: Organization; token: string },
): Promise<void> {
  const { email, role, organization, token } = to
  const letter = invitationLetter({
    inviter: caller.name,
    organization: organization.name,
    role,
    baseUrl: ctx.baseUrl,
    token,
  })
  await queueMail(ctx, c, { kind: 'invitation', to: email, ...letter })
}

export async function invite(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  asked: InvitationCreate,
): Promise<InvitationView> {
  requirePermission(caller, organizationId, 'member:write')
  const email = normalizeEmail(asked.email)
  const invited = () =>
    new AppError('already_invited', `${email} has an open invitation. Send it again instead.`)
  return change(ctx, async (c) => {
    await touchOrganization(c.db, organizationId)
    const organization = await getOrganization(c.db, organizationId)
    await requireRoleWithin(c, caller, organizationId, asked.role)
    if (await findMemberByEmail(c.db, organizationId, email)) {
      throw new AppError('already_member', `${email} is a member of ${organization.name} already.`)
    }
    const open = await findOpenInvitation(c.db, organizationId, email)
    if (open && open.expiresAt > c.now) throw invited()
    if (open) await deleteInvitation(c.db, open.id)
    await requireBelowLimit(c.db, organizationId)
    const token = makeToken('berth_invite_')
    const row = {
      organizationId,
      email,
      role: asked.role,
      tokenHash: hashToken(token),
      invitedBy: caller.userId,
      createdAt: c.now,
      expiresAt: c.now + PEOPLE.invitationMs,
    }
    const id = await insertInvitation(c.db, row)
    await mailLink(ctx, c, caller, { email, role: asked.role, organization, token })
    const subject: Subject = ['invitation', id]
    const details = { email, role: asked.role }
    await auditCaller(c, caller, organizationId, 'invitation.create', subject, details)
    const made = { ...row, id, acceptedAt: null, acceptedBy: null }
    const page = await keepLink(ctx, c, caller, made, token)
    return { ...view(made, new Map([[caller.userId, caller.name]]), c.now), page }
  }).catch((error: unknown) => {
    throw isUniqueViolation(error) ? invited() : error
  })
}

const linkSubject = (id: number): string => `invitation:${id}`

async function keepLink(
  ctx: Context,
  c: Change,
  caller: Caller,
  invitation: Invitation,
  token: string,
): Promise<string | null> {
  const subject = linkSubject(invitation.id)
  await deleteSecretsOf(c.db, subject)
  return keepSecret(ctx, c, caller, {
    title: 'Invitation link',
    hint: `We sent it to ${invitation.email}. You can also share it yourself: it works once, for this address only.`,
    back: '/org/members',
    values: [{ label: 'Link', text: `${ctx.baseUrl}/invite/${token}` }],
    organizationId: invitation.organizationId,
    subject,
    expiresAt: invitation.expiresAt,
  })
}

async function requireBelowLimit(db: Db, organizationId: number): Promise<void> {
  const members = (await countMembers(db, [organizationId])).get(organizationId) ?? 0
  const open = await countOpenInvitations(db, organizationId)
  // open invitations count, because accepting one checks no limit
  if (members + open < PEOPLE.members && open < PEOPLE.openInvitations) return
  throw invalidFields([
    {
      field: 'email',
      code: 'too_many_members',
      message: `An organization has at most ${PEOPLE.members} members, those with an open invitation counted, and ${PEOPLE.openInvitations} open invitations.`,
    },
  ])
}

async function loadInvitation(
  c: Change,
  organizationId: number,
  invitationId: number,
): Promise<Invitation> {
  const found = await findInvitation(c.db, invitationId)
  if (!found || found.organizationId !== organizationId) throw missing()
  return found
}

/** Sends a new link to the same address and invalidates the former one. */
export async function resendInvitation(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  invitationId: number,
): Promise<InvitationView> {
  requirePermission(caller, organizationId, 'member:write')
  return change(ctx, async (c) => {
    const found = await loadInvitation(c, organizationId, invitationId)
    await requireRoleWithin(c, caller, organizationId, found.role)
    const organization = await getOrganization(c.db, organizationId)
    const token = makeToken('berth_invite_')
    const link = { tokenHash: hashToken(token), expiresAt: c.now + PEOPLE.invitationMs }
    if (!(await updateInvitationLink(c.db, invitationId, link))) {
      throw new AppError('already_member', `${found.email} accepted this invitation.`)
    }
    await mailLink(ctx, c, caller, { ...found, organization, token })
    const subject: Subject = ['invitation', invitationId]
    const details = { email: found.email }
    await auditCaller(c, caller, organizationId, 'invitation.resend', subject, details)
    const names = await listUserNames(c.db, [found.invitedBy])
    const page = await keepLink(ctx, c, caller, { ...found, ...link }, token)
    return { ...view({ ...found, ...link }, names, c.now), page }
  })
}

export async function withdrawInvitation(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  invitationId: number,
): Promise<void> {
  requirePermission(caller, organizationId, 'member:write')
  await change(ctx, async (c) => {
    const found = await loadInvitation(c, organizationId, invitationId)
    if (found.acceptedAt !== null) throw missing()
    await deleteInvitation(c.db, invitationId)
    await deleteSecretsOf(c.db, linkSubject(invitationId))
    const subject: Subject = ['invitation', invitationId]
    const details = { email: found.email }
    await auditCaller(c, caller, organizationId, 'invitation.delete', subject, details)
  })
}

/** Unknown, used and expired links get the same answer, so that a caller cannot distinguish them. */
async function openLink(db: Db, token: string, now: number): Promise<Invitation> {
  const known = parseToken(token)?.prefix === 'berth_invite_'
  const found = known ? await findInvitationByHash(db, hashToken(token)) : undefined
  if (found && found.acceptedAt === null && found.expiresAt > now) return found
  throw new AppError(
    'invitation_expired',
    'This invitation was used, withdrawn, replaced by a newer one, or is older than 7 days. Ask for a new one.',
  )
}

export interface Joined {
  organization: Organization
  role: Role
  joinedAt: number
  user: { id: number; name: string; email: string }
}

async function join(
  c: Change,
  invitation: Invitation,
  user: Pick<User, 'id' | 'name' | 'email'>,
  caller: Caller,
): Promise<Joined> {
  const { organizationId, role } = invitation
  await touchOrganization(c.db, organizationId)
  const organization = await getOrganization(c.db, organizationId)
  if (await findMember(c.db, organizationId, user.id)) {
    throw new AppError('already_member', `You are a member of ${organization.name} already.`)
  }
  if (!(await takeInvitation(c.db, invitation.id, user.id, c.now))) {
    throw new AppError('invitation_expired', 'This invitation has just been used.')
  }
  await deleteSecretsOf(c.db, linkSubject(invitation.id))
  await insertMember(c.db, { organizationId, userId: user.id, role, createdAt: c.now })
  const subject: Subject = ['invitation', invitation.id]
  await auditCaller(c, caller, organizationId, 'invitation.accept', subject, { role })
  await emitMember(c, organizationId, { user_id: user.id, role })
  return { organization, role, joinedAt: c.now, user }
}

/** For a user with an account: its address must be the invited one. */
export async function acceptInvitation(
  ctx: Context,
  caller: Caller,
  token: string,
): Promise<Joined> {
  return change(ctx, async (c) => {
    const invitation = await openLink(c.db, token, c.now)
    const user = await findUser(c.db, caller.userId)
    if (!user || user.email !== invitation.email) {
      throw new AppError(
        'invitation_for_other_address',
        'This invitation was sent to another address than that of your account.',
      )
    }
    return join(c, invitation, user, caller)
  })
}

/** For a new user: creates the account and the membership atomically. */
export async function registerByInvitation(
  ctx: Context,
  asked: { token: string; name: string; password: string },
  from: From,
): Promise<Joined> {
  await openLink(ctx.db, asked.token, ctx.clock.now()) // before the slow hash
  const hash = await hashPassword(asked.password)
  const exists = () =>
    new AppError('account_exists', 'There is an account with this address. Sign in, then accept.')
  return change(ctx, async (c) => {
    const invitation = await openLink(c.db, asked.token, c.now)
    const { name } = asked
    const { email } = invitation
    if (await findUserByEmail(c.db, email)) throw exists()
    const id = await insertUser(c.db, { name, email, createdAt: c.now })
    await insertPassword(c.db, id, hash, c.now)
    const user = { id, name, email }
    return join(c, invitation, user, personAsCaller(user, from))
  }).catch((error: unknown) => {
    throw isUniqueViolation(error) ? exists() : error
  })
}

export interface InvitationOffer {
  invitation: Invitation
  organization: Organization
  invitedByName: string
  accountExists: boolean
}

/** The data that the holder of a link sees before deciding. */
export async function describeInvitation(ctx: Context, token: string): Promise<InvitationOffer> {
  const invitation = await openLink(ctx.db, token, ctx.clock.now())
  const names = await listUserNames(ctx.db, [invitation.invitedBy])
  return {
    invitation,
    organization: await getOrganization(ctx.db, invitation.organizationId),
    invitedByName: names.get(invitation.invitedBy) ?? '',
    accountExists: (await findUserByEmail(ctx.db, invitation.email)) !== undefined,
  }
}
