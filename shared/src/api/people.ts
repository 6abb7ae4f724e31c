// Organizations, members, invitations, tokens, and what platform administrators see. None contains a secret, except a
// new token once, in the answer that created it.
import { z } from 'zod'
import { PEOPLE } from '../limits/limits.ts'
import { Id, Name, Slug, Time } from './fields.ts'
import { PERMISSIONS, ROLES, SCOPES } from './me.ts'

const Email = z.email().max(254)
const PersonName = z
  .string()
  .trim()
  .min(1)
  .max(100)
  .regex(/^[^\p{Cc}]*$/u, 'must not contain control characters')
export const Password = z.string().min(PEOPLE.passwordChars).max(PEOPLE.passwordMaxChars)

export const OrganizationDetail = z.object({
  id: Id,
  name: z.string(),
  slug: z.string(),
  role: z.enum(ROLES),
  permissions: z.array(z.enum(PERMISSIONS)),
  project_count: z.int(),
  member_count: z.int(),
  server_count: z.int(),
  second_factor_required: z.boolean().default(false),
  created_at: Time,
})
export type OrganizationDetail = z.infer<typeof OrganizationDetail>

export const OrganizationCreate = z.strictObject({ name: Name, slug: Slug.optional() })
export type OrganizationCreate = z.infer<typeof OrganizationCreate>
export const OrganizationUpdate = z.strictObject({
  name: Name.optional(),
  slug: Slug.optional(),
  second_factor_required: z.boolean().optional(),
})
export type OrganizationUpdate = z.infer<typeof OrganizationUpdate>
export const Confirmation = z.object({ confirm: z.string().max(100).optional() })

export const Member = z.object({
  user: z.object({ id: Id, name: z.string(), email: z.string() }),
  role: z.enum(ROLES),
  joined_at: Time,
  last_active_at: Time.nullable(),
  has_second_factor: z.boolean().nullable().default(null),
})
export type Member = z.infer<typeof Member>
export const MemberUpdate = z.strictObject({ role: z.enum(ROLES) })

const pathId = z
  .string()
  .regex(/^[1-9][0-9]{0,9}$/, 'must be a positive integer')
  .transform(Number)
  .pipe(Id)
export const MemberParams = z.object({ id: pathId, user_id: pathId })
export const InvitationParams = z.object({ id: pathId, invitation_id: pathId })

export const Invitation = z.object({
  id: Id,
  email: z.string(),
  role: z.enum(ROLES),
  invited_by: z.object({ id: Id, name: z.string() }),
  created_at: Time,
  expires_at: Time,
  status: z.enum(['pending', 'accepted', 'expired']),
})
export type Invitation = z.infer<typeof Invitation>
export const InvitationCreate = z.strictObject({ email: Email, role: z.enum(ROLES) })
export type InvitationCreate = z.infer<typeof InvitationCreate>

const Link = z.string().min(1).max(200)
export const InvitationAccept = z.strictObject({ token: Link })
export const InvitationRegister = z.strictObject({
  token: Link,
  name: PersonName,
  password: Password,
})
/** What the invited person sees before they decide. */
export const InvitationDescription = z.object({
  organization: z.object({ id: Id, name: z.string() }),
  email: z.string(),
  role: z.enum(ROLES),
  invited_by: z.string(),
  expires_at: Time,
  account_exists: z.boolean(),
})
export const AcceptedMembership = z.object({
  organization: z.object({ id: Id, name: z.string(), slug: z.string() }),
  role: z.enum(ROLES),
  joined_at: Time,
})
export type AcceptedMembership = z.infer<typeof AcceptedMembership>
export const RegisteredMembership = AcceptedMembership.extend({
  user: z.object({ id: Id, name: z.string(), email: z.string() }),
})

export const Token = z.object({
  id: Id,
  kind: z.enum(['login', 'personal']),
  name: z.string(),
  /** The last four characters. */
  hint: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  organization_id: Id.nullable(),
  created_at: Time,
  last_used_at: Time.nullable(),
  last_used_address: z.string().nullable(),
  expires_at: Time.nullable(),
})
export type Token = z.infer<typeof Token>
export const TokenCreate = z.strictObject({
  name: Name,
  scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length),
  organization_id: Id.nullable().optional(),
  expires_in_days: z.int().min(1).max(PEOPLE.tokenDays),
})
export type TokenCreate = z.infer<typeof TokenCreate>
/** Includes the token itself, this once. */
export const TokenCreated = Token.extend({ token: z.string() })

export const AdminUser = z.object({
  id: Id,
  name: z.string(),
  email: z.string(),
  is_platform_admin: z.boolean(),
  disabled: z.boolean(),
  has_second_factor: z.boolean(),
  organization_count: z.int(),
  created_at: Time,
  last_active_at: Time.nullable(),
})
export type AdminUser = z.infer<typeof AdminUser>
export const AdminUserUpdate = z.strictObject({
  is_platform_admin: z.boolean().optional(),
  disabled: z.boolean().optional(),
})
export type AdminUserUpdate = z.infer<typeof AdminUserUpdate>
export const AdminOrganization = z.object({
  id: Id,
  name: z.string(),
  slug: z.string(),
  project_count: z.int(),
  member_count: z.int(),
  server_count: z.int(),
  created_at: Time,
})
export type AdminOrganization = z.infer<typeof AdminOrganization>
export const AdminProject = z.object({
  id: Id,
  name: z.string(),
  organization: z.object({ id: Id, name: z.string() }),
  status: z.enum(['active', 'deleting']),
  environment_count: z.int(),
  environment_limit: z.int(),
  created_at: Time,
})
export type AdminProject = z.infer<typeof AdminProject>
