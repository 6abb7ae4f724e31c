// The repository of a project and its forge, as the control plane sees them, and connections to forges: a token of an
// organization, the repositories it opens, and what Berth set up in the repository of a project. No answer contains a
// token.
import { z } from 'zod'
import { FORGE_API } from '../limits/forges.ts'
import { RECIPES } from '../task.ts'
import { PROVIDERS } from '../webhook.ts'
import { Id, Paging, Person, Time } from './fields.ts'

const RepositoryError = z.object({ code: z.string(), message: z.string() })

/** Learned from deliveries and reconcile rounds. */
export const RepositoryFacts = z.object({
  provider: z.string().nullable(),
  external_id: z.string().nullable(),
  renamed_to: z.string().nullable(),
  /** Null if it was never checked. */
  reachable: z.boolean().nullable(),
  checked_at: Time.nullable(),
  error: RepositoryError.nullable(),
})
export type RepositoryFacts = z.infer<typeof RepositoryFacts>

export const HostTokenFacts = z.object({
  set: z.boolean(),
  checked_at: Time.nullable(),
  /** The forge's answer when the token last failed. */
  error: z.string().nullable(),
})
export type HostTokenFacts = z.infer<typeof HostTokenFacts>

export const HostToken = HostTokenFacts.extend({
  /** The kind of forge that accepted it. */
  host: z.string().nullable(),
})
export type HostToken = z.infer<typeof HostToken>

export const HostTokenPut = z.strictObject({
  token: z
    .string()
    .min(1)
    .max(FORGE_API.tokenLength)
    .regex(/^[\x21-\x7e]+$/, 'must be printable characters without spaces'),
})
export type HostTokenPut = z.infer<typeof HostTokenPut>

export const RepositoryCheck = z.object({
  reachable: z.boolean(),
  default_branch: z.string().nullable(),
  branch_count: z.int().nullable(),
  service_file: z
    .object({
      found: z.boolean(),
      /** The recipes whose section it has; empty if it cannot be read. */
      recipes: z.array(z.enum(RECIPES)).default([]),
      errors: z.array(z.object({ line: z.int(), code: z.string(), message: z.string() })),
    })
    .nullable(),
  error: RepositoryError.nullable(),
})
export type RepositoryCheck = z.infer<typeof RepositoryCheck>

export const ReconcileStarted = z.object({ started_at: Time })
export type ReconcileStarted = z.infer<typeof ReconcileStarted>

const ProviderName = z.enum(PROVIDERS)

export const ForgeConnection = z.object({
  id: Id,
  organization_id: Id,
  provider: ProviderName,
  api_url: z.string(),
  account: z.string(),
  project_count: z.int(),
  created_at: Time,
  created_by: Person,
  checked_at: Time.nullable(),
  error: z.string().nullable(),
})
export type ForgeConnection = z.infer<typeof ForgeConnection>

const Token = HostTokenPut.shape.token
const ApiUrl = z.string().min(1).max(FORGE_API.urlCharacters)

export const ForgeConnectionPost = z.strictObject({
  token: Token,
  provider: ProviderName.optional(),
  api_url: ApiUrl.optional(),
  repo_url: z.string().min(1).max(2_000).optional(),
})
export type ForgeConnectionPost = z.infer<typeof ForgeConnectionPost>

export const ForgeConnectionPatch = z.strictObject({
  token: Token.optional(),
  api_url: ApiUrl.optional(),
})
export type ForgeConnectionPatch = z.infer<typeof ForgeConnectionPatch>

export const ForgeRepositoryQuery = Paging.extend({
  search: z.string().max(FORGE_API.nameCharacters).optional(),
})

export const ForgeRepository = z.object({
  full_name: z.string(),
  description: z.string(),
  private: z.boolean().nullable(),
  archived: z.boolean(),
  default_branch: z.string().nullable(),
  web_url: z.string(),
  ssh_url: z.string(),
  https_url: z.string(),
  can_admin: z.boolean().nullable(),
  updated_at: Time.nullable(),
  project_ids: z.array(Id),
})
export type ForgeRepository = z.infer<typeof ForgeRepository>

export const FORGE_STATUSES = ['ok', 'broken', 'unchecked', 'not_connected'] as const

/** The part of a connection that every view of a project shows. */
export const ForgeFacts = z.object({
  connected: z.boolean(),
  status: z.enum(FORGE_STATUSES),
  checked_at: Time.nullable(),
})
export type ForgeFacts = z.infer<typeof ForgeFacts>

export const ForgeCheck = z.object({
  name: z.enum(['token', 'repository', 'deploy_key', 'webhook', 'delivery']),
  status: z.enum(['ok', 'failed', 'unknown']),
  message: z.string(),
  permission: z.string().nullable(),
})
export type ForgeCheck = z.infer<typeof ForgeCheck>

export const ProjectForge = z.object({
  connected: z.boolean(),
  connection: ForgeConnection.nullable(),
  repository: z.string().nullable(),
  status: z.enum(FORGE_STATUSES),
  checked_at: Time.nullable(),
  next_check_at: Time.nullable(),
  checks: z.array(ForgeCheck),
})
export type ProjectForge = z.infer<typeof ProjectForge>

/** A connection of the organization, or a token for a new one. */
export const ProjectForgePut = z.union([
  z.strictObject({ connection_id: Id }),
  ForgeConnectionPost.omit({ repo_url: true }),
])
export type ProjectForgePut = z.infer<typeof ProjectForgePut>

const MADE = ['deploy_key', 'webhook'] as const

export const ForgeDisconnected = z.object({
  removed: z.array(z.enum(MADE)),
  left: z.array(
    z.object({
      what: z.enum(MADE),
      message: z.string(),
    }),
  ),
})
export type ForgeDisconnected = z.infer<typeof ForgeDisconnected>
