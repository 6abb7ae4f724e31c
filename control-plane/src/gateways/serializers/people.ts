// Serializes people, organizations and tokens to the documented fields, never a secret.
import type {
  AcceptedMembership,
  AdminOrganization,
  AdminProject,
  AdminUser,
  DeviceDescription,
  Invitation,
  InvitationDescription,
  Member,
  OrganizationDetail,
  Token,
} from '@berth/shared/api'
import type { z } from 'zod'
import type { ProjectCounts, UserView } from '../../app/installation/users.ts'
import type { DeviceView } from '../../app/people/device-login.ts'
import type { InvitationOffer, InvitationView, Joined } from '../../app/people/invitations.ts'
import type { MemberView } from '../../app/people/members.ts'
import type { OrganizationCounts, OrganizationView } from '../../app/people/organizations.ts'
import type { Token as TokenRow } from '../../store/people/people.ts'
import { time, timeOrNull } from './fields.ts'

export const serializeAdminOrganization = (view: OrganizationCounts): AdminOrganization => ({
  id: view.organization.id,
  name: view.organization.name,
  slug: view.organization.slug,
  project_count: view.projectCount,
  member_count: view.memberCount,
  server_count: view.serverCount,
  created_at: time(view.organization.createdAt),
})

export const serializeOrganization = (view: OrganizationView): OrganizationDetail => ({
  ...serializeAdminOrganization(view),
  role: view.role,
  permissions: view.permissions,
  second_factor_required: view.organization.secondFactorSince !== null,
})

export const serializeMember = (member: MemberView): Member => ({
  user: { id: member.userId, name: member.name, email: member.email },
  role: member.role,
  joined_at: time(member.createdAt),
  last_active_at: timeOrNull(member.lastActiveAt),
  has_second_factor: member.hasSecondFactor,
})

export const serializeInvitation = ({
  invitation,
  invitedByName,
  status,
}: InvitationView): Invitation => ({
  id: invitation.id,
  email: invitation.email,
  role: invitation.role,
  invited_by: { id: invitation.invitedBy, name: invitedByName },
  created_at: time(invitation.createdAt),
  expires_at: time(invitation.expiresAt),
  status,
})

export const serializeJoined = ({ organization, role, joinedAt }: Joined): AcceptedMembership => ({
  organization: { id: organization.id, name: organization.name, slug: organization.slug },
  role,
  joined_at: time(joinedAt),
})

export const serializeToken = (token: TokenRow): Token => ({
  id: token.id,
  kind: token.kind,
  name: token.name,
  hint: token.hint,
  scopes: token.scopes,
  organization_id: token.organizationId,
  created_at: time(token.createdAt),
  last_used_at: timeOrNull(token.lastUsedAt),
  last_used_address: token.lastUsedAddress,
  expires_at: timeOrNull(token.expiresAt),
})

export const serializeAdminUser = ({ user, organizationCount }: UserView): AdminUser => ({
  id: user.id,
  name: user.name,
  email: user.email,
  is_platform_admin: user.isPlatformAdmin === 1,
  disabled: user.disabledAt !== null,
  has_second_factor: user.secondFactorAt !== null,
  organization_count: organizationCount,
  created_at: time(user.createdAt),
  last_active_at: timeOrNull(user.lastActiveAt),
})

export const serializeAdminProject = ({
  project,
  environmentCount,
}: ProjectCounts): AdminProject => ({
  id: project.id,
  name: project.name,
  organization: { id: project.organizationId, name: project.organizationName },
  status: project.status,
  environment_count: environmentCount,
  environment_limit: project.environmentLimit,
  created_at: time(project.createdAt),
})

/** What the invited person sees before they decide. */
export const serializeOffer = (offer: InvitationOffer): z.infer<typeof InvitationDescription> => ({
  organization: { id: offer.organization.id, name: offer.organization.name },
  email: offer.invitation.email,
  role: offer.invitation.role,
  invited_by: offer.invitedByName,
  expires_at: time(offer.invitation.expiresAt),
  account_exists: offer.accountExists,
})

export const serializeDevice = (view: DeviceView): DeviceDescription => ({
  user_code: view.userCode,
  device_name: view.deviceName,
  address: view.address,
  scopes: view.scopes,
  started_at: time(view.startedAt),
  expires_at: time(view.expiresAt),
})
