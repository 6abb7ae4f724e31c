// The caller: user, token in use, organizations with role and effective permissions.
import { z } from 'zod'
import { PEOPLE } from '../limits/limits.ts'
import { Id, Time } from './fields.ts'

export const SCOPES = ['read', 'deploy', 'write', 'ssh', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

export const ROLES = ['viewer', 'developer', 'admin', 'owner'] as const
export type Role = (typeof ROLES)[number]

export const PERMISSIONS = [
  'read',
  'deploy',
  'environment:write',
  'variables:write',
  'ssh',
  'project:write',
  'server:write',
  'member:write',
  'audit:read',
  'organization:write',
] as const
export type Permission = (typeof PERMISSIONS)[number]

const Organization = z.object({
  id: Id,
  name: z.string(),
  slug: z.string(),
  role: z.enum(ROLES),
  permissions: z.array(z.enum(PERMISSIONS)),
  project_count: z.int(),
})

export const Me = z.object({
  id: Id,
  name: z.string(),
  email: z.string(),
  avatar_url: z.string().nullable(),
  is_platform_admin: z.boolean(),
  created_at: Time,
  token: z.object({
    id: Id,
    kind: z.enum(['login', 'personal']),
    name: z.string(),
    scopes: z.array(z.enum(SCOPES)),
    organization_id: Id.nullable(),
    expires_at: Time.nullable(),
  }),
  current_organization_id: Id.nullable(),
  organizations: z.array(Organization),
})
export type Me = z.infer<typeof Me>

/** POST /api/setup: the control plane prints the token on its console at its first start. */
export const SetupRequest = z.strictObject({
  token: z.string().min(1).max(200),
  name: z.string().trim().min(1).max(100),
  email: z.email().max(254),
  organization: z.string().trim().min(1).max(64),
  /** For the dashboard; without it the first administrator has a token but no password yet. */
  password: z.string().min(PEOPLE.passwordChars).max(PEOPLE.passwordMaxChars).optional(),
})
export const SetupResponse = z.object({
  user: z.object({ id: Id, name: z.string(), email: z.string() }),
  organization: z.object({ id: Id, name: z.string(), slug: z.string() }),
  /** Shown once. */
  token: z.string(),
  expires_at: Time,
})
export type SetupResponse = z.infer<typeof SetupResponse>

export const Health = z.object({
  /** `storage_full`: reads work, writes are refused. `unavailable`: the database does not answer. */
  status: z.enum(['ok', 'storage_full', 'unavailable']),
  version: z.string(),
  setup_required: z.boolean(),
  time: Time,
})
