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

const says = <T extends z.ZodType>(type: T, description: string, example: unknown): T =>
  type.meta({ description, example })

const ProviderName = z.enum(PROVIDERS)
const AT = '2026-11-15T09:12:30Z'

export const ForgeConnection = z.object({
  id: says(Id, 'Number of the connection.', 3),
  organization_id: says(Id, 'Organization whose projects may use it.', 1),
  provider: says(ProviderName, 'Kind of forge.', 'gitea'),
  api_url: says(z.string(), 'Address of its API.', 'https://git.example.com/api/v1'),
  account: says(z.string(), "Name of the token's account; empty if it has none.", 'berth-bot'),
  project_count: says(z.int(), 'How many projects use it.', 2),
  created_at: says(Time, 'When it was made.', AT),
  created_by: Person.meta({ description: 'Who connected it.', example: { id: 1, name: 'Ada' } }),
  checked_at: says(Time.nullable(), 'When the forge last accepted or refused the token.', AT),
  error: says(z.string().nullable(), 'Why the token failed last; null if it works.', null),
})
export type ForgeConnection = z.infer<typeof ForgeConnection>

const Token = says(
  HostTokenPut.shape.token,
  'Token for the API. It is checked at the forge, stored encrypted and never shown.',
  'gto_4f1c…',
)
const ApiUrl = says(
  z.string().min(1).max(FORGE_API.urlCharacters),
  'Address of the API, with port and path. The well-known end (/api/v1, /api/v4 …) may be left out.',
  'https://git.example.com:8443/gitea/api/v1',
)

export const ForgeConnectionPost = z.strictObject({
  token: Token,
  provider: says(ProviderName.optional(), 'Kind of forge; found out if it is left out.', 'gitea'),
  api_url: ApiUrl.optional(),
  repo_url: says(
    z.string().min(1).max(2_000).optional(),
    'A repository at this forge, which says where its API is if api_url is left out.',
    'https://git.example.com/acme/shop.git',
  ),
})
export type ForgeConnectionPost = z.infer<typeof ForgeConnectionPost>

export const ForgeConnectionPatch = z.strictObject({
  token: Token.optional(),
  api_url: ApiUrl.optional(),
})
export type ForgeConnectionPatch = z.infer<typeof ForgeConnectionPatch>

export const ForgeRepositoryQuery = Paging.extend({
  search: says(
    z.string().max(FORGE_API.nameCharacters).optional(),
    'Part of the name of a repository.',
    'shop',
  ),
})

export const ForgeRepository = z.object({
  full_name: says(z.string(), 'Name at the forge, with owner or group.', 'acme/shop'),
  description: says(z.string(), 'Its description; may be empty.', 'The web shop'),
  private: says(z.boolean().nullable(), 'Null if the forge does not say.', true),
  archived: says(z.boolean(), 'An archived repository cannot be changed.', false),
  default_branch: says(z.string().nullable(), 'Null if the forge does not say.', 'main'),
  web_url: says(
    z.string(),
    'Its page; empty if the forge sends none.',
    'https://git.example.com/acme/shop',
  ),
  ssh_url: says(
    z.string(),
    'Address for ssh, for repo_url of a project.',
    'git@git.example.com:acme/shop.git',
  ),
  https_url: says(z.string(), 'Address for https.', 'https://git.example.com/acme/shop.git'),
  can_admin: says(
    z.boolean().nullable(),
    'Whether the token may add a deploy key and a webhook; null if the forge does not say.',
    true,
  ),
  updated_at: says(Time.nullable(), 'When it last changed.', AT),
  project_ids: says(z.array(Id), 'Projects of the organization with this repository.', [12]),
})
export type ForgeRepository = z.infer<typeof ForgeRepository>

export const FORGE_STATUSES = ['ok', 'broken', 'unchecked', 'not_connected'] as const

/** The part of a connection that every view of a project shows. */
export const ForgeFacts = z.object({
  connected: says(z.boolean(), 'Whether the project uses a connection to a forge.', true),
  status: says(z.enum(FORGE_STATUSES), 'What the last check found.', 'ok'),
  checked_at: says(Time.nullable(), 'When that was.', AT),
})
export type ForgeFacts = z.infer<typeof ForgeFacts>

export const ForgeCheck = z.object({
  name: says(
    z.enum(['token', 'repository', 'deploy_key', 'webhook', 'delivery']),
    'What was looked at.',
    'webhook',
  ),
  status: says(
    z.enum(['ok', 'failed', 'unknown']),
    'unknown: it could not be looked at, or nothing happened yet.',
    'failed',
  ),
  message: says(z.string(), 'What was found, and what to do.', 'The webhook is switched off.'),
  permission: says(
    z.string().nullable(),
    'The permission that the token lacks, in the words of the forge.',
    'Webhooks: read and write',
  ),
})
export type ForgeCheck = z.infer<typeof ForgeCheck>

export const ProjectForge = z.object({
  connected: says(z.boolean(), 'Whether the project uses a connection.', true),
  connection: ForgeConnection.nullable().meta({ description: 'The connection that it uses.' }),
  repository: says(z.string().nullable(), 'Name of the repository at the forge.', 'acme/shop'),
  status: says(z.enum(FORGE_STATUSES), 'What the last check found.', 'ok'),
  checked_at: says(Time.nullable(), 'When that was.', AT),
  next_check_at: says(Time.nullable(), 'When Berth checks again by itself.', AT),
  checks: z.array(ForgeCheck).meta({ description: 'What was checked, in order.' }),
})
export type ProjectForge = z.infer<typeof ProjectForge>

/** A connection of the organization, or a token for a new one. */
export const ProjectForgePut = z.union([
  z.strictObject({ connection_id: says(Id, 'A connection of the organization.', 3) }),
  ForgeConnectionPost.omit({ repo_url: true }),
])
export type ProjectForgePut = z.infer<typeof ProjectForgePut>

const MADE = ['deploy_key', 'webhook'] as const

export const ForgeDisconnected = z.object({
  removed: says(z.array(z.enum(MADE)), 'What was removed at the forge.', ['deploy_key', 'webhook']),
  left: z
    .array(
      z.object({
        what: says(z.enum(MADE), 'What is still there.', 'webhook'),
        message: says(z.string(), 'Why; remove it by hand.', 'git.example.com rejected the token.'),
      }),
    )
    .meta({ description: 'What could not be removed there.' }),
})
export type ForgeDisconnected = z.infer<typeof ForgeDisconnected>
