// Projects. The list has exactly the six fields of the specification; a single project has more.
import { z } from 'zod'
import { RECIPES } from '../task.ts'
import { BasicAuth } from './basic-auth.ts'
import { Limits, LimitsPatch } from './ceilings.ts'
import { HostName, Id, Name, Person, Time } from './fields.ts'
import { ForgeFacts, HostTokenFacts, RepositoryFacts } from './repository.ts'
import { ServerRef } from './server.ts'

export const Project = z.object({
  id: Id,
  name: z.string(),
  repo_url: z.string(),
  domain: z.string(),
  environment_count: z.int(),
  servers: z.array(ServerRef),
})
export type Project = z.infer<typeof Project>

const PROJECT_STATUSES = ['active', 'deleting'] as const

export const ProjectDetail = Project.extend({
  organization_id: Id,
  status: z.enum(PROJECT_STATUSES),
  owner: Person,
  default_recipe: z.enum(RECIPES),
  default_branch: z.string(),
  default_server_id: Id.nullable(),
  environment_limit: z.int(),
  /** The most that one environment may use; the server's own limits apply as well. */
  limits: Limits,
  pull_request_environments: z.boolean(),
  pull_request_bases: z.array(z.string()),
  deploy_drafts: z.boolean(),
  fork_pull_requests: z.enum(['approve', 'never']),
  auto_deploy: z.boolean(),
  watch_paths: z.array(z.string()),
  skip_marker: z.boolean(),
  comment_on_pull_requests: z.boolean(),
  custom_domains: z.array(z.string()),
  lost_after_seconds: z.int(),
  basic_auth: BasicAuth,
  webhook: z.object({
    url: z.string(),
    secret_source: z.enum(['project', 'legacy']),
    secret_rotated_at: Time.nullable(),
    previous_accepted_until: Time.nullable(),
    last_delivery_at: Time.nullable(),
    last_delivery_secret: z.enum(['current', 'previous', 'legacy']).nullable(),
  }),
  /** OpenSSH line to add at the forge as a read-only deploy key. */
  repo_public_key: z.string(),
  repository: RepositoryFacts,
  host_token: HostTokenFacts,
  forge: ForgeFacts,
  created_at: Time,
  updated_at: Time,
})
export type ProjectDetail = z.infer<typeof ProjectDetail>

/** Includes the webhook secret, this once. */
export const ProjectCreated = ProjectDetail.extend({ webhook_secret: z.string() })
export type ProjectCreated = z.infer<typeof ProjectCreated>

/** Each wildcard multiplies the work of matching. */
const Glob = z
  .string()
  .min(1)
  .max(256)
  .regex(/^[^\p{Cc}]+$/u, 'must hold no control character')
  .refine((text) => (text.match(/\*+|[{[(?]/g) ?? []).length <= 5, 'has at most 5 wildcards')

const settings = {
  default_recipe: z.enum(RECIPES).optional(),
  default_branch: z.string().min(1).max(255).optional(),
  default_server_id: Id.optional(),
  pull_request_environments: z.boolean().optional(),
  pull_request_bases: z.array(Glob).min(1).max(50).optional(),
  deploy_drafts: z.boolean().optional(),
  fork_pull_requests: z.enum(['approve', 'never']).optional(),
  auto_deploy: z.boolean().optional(),
  watch_paths: z.array(Glob).max(50).optional(),
  skip_marker: z.boolean().optional(),
  comment_on_pull_requests: z.boolean().optional(),
  custom_domains: z.array(HostName).max(100).optional(),
  lost_after_seconds: z.int().min(60).max(86_400).optional(),
}

export const ProjectCreate = z.strictObject({
  name: Name,
  repo_url: z.string().min(1).max(2_000),
  domain: HostName,
  server_ids: z.array(Id).min(1).max(100),
  ...settings,
})
export type ProjectCreate = z.infer<typeof ProjectCreate>

export const ProjectPatch = z.strictObject({
  name: Name.optional(),
  repo_url: z.string().min(1).max(2_000).optional(),
  domain: HostName.optional(),
  /** Replaces the list. */
  server_ids: z.array(Id).min(1).max(100).optional(),
  owner_id: Id.optional(),
  limits: LimitsPatch.optional(),
  ...settings,
})
export type ProjectPatch = z.infer<typeof ProjectPatch>

export const ProjectDeleteQuery = z.object({
  /** The project's name. */
  confirm: z.string().max(64).optional(),
  /** Every protected environment, by identifier or id: staging,102. */
  confirm_protected: z
    .string()
    .max(8_000)
    .regex(
      /^([a-z0-9-]{1,40}(,[a-z0-9-]{1,40})*)?$/,
      'must be identifiers or ids, separated by commas',
    )
    .optional(),
})

export const WebhookSecret = z.object({
  /** Shown once. */
  secret: z.string(),
  previous_accepted_until: Time.nullable(),
})

export const DeployKey = z.object({
  public_key: z.string(),
  fingerprint: z.string(),
  created_at: Time,
  /** The key that may be removed at the forge once the new one is added. */
  previous: z.string().nullable(),
})

const HostKey = z.object({
  /** ssh-ed25519, ecdsa-sha2-nistp256, ssh-rsa, … */
  type: z.string(),
  /** `SHA256:…`, as ssh-keygen and forges show it. */
  fingerprint: z.string(),
})

/** The SSH host key of the project's forge: what is accepted, and what the forge shows now. */
export const ForgeHostKey = z.object({
  /** As known_hosts names it; null if the repository is not read over ssh. */
  host: z.string().nullable(),
  /** `trusted`: an owner named it. `first_use`: the control plane saw it first. `none`: none was seen yet. */
  trust: z.enum(['trusted', 'first_use', 'none']),
  trusted_at: Time.nullable(),
  known: z.array(HostKey),
  offered: z.array(HostKey),
  /** The forge shows none of the known keys. */
  changed: z.boolean(),
  /** Why the forge could not be reached. */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
})
export type ForgeHostKey = z.infer<typeof ForgeHostKey>

export const ForgeHostKeyPost = z.strictObject({
  /** Of a key that the forge shows now. */
  fingerprint: z.string().regex(/^SHA256:[A-Za-z0-9+/]{43}$/, 'must be a fingerprint: SHA256:…'),
})

export const EnvironmentLimitPut = z.strictObject({ limit: z.int().min(1).max(500) })
export const EnvironmentLimit = z.object({ limit: z.int(), used: z.int() })
