// Environments: a branch or a pull request of a project, on one server, at one address.
import { z } from 'zod'
import { RECIPES, TASK_STATUSES } from '../task.ts'
import { BasicAuth, EnvironmentBasicAuth } from './basic-auth.ts'
import { CommitPrefix, HostName, Id, Person, Slug, Time } from './fields.ts'
import { ServerRef } from './server.ts'
import { Task } from './task.ts'

/** stopped: by a user. unmanaged: its owner keeps it running, Berth only routes to it. */
export const SERVICE_STATES = [
  'running',
  'restarting',
  'exited',
  'missing',
  'stopped',
  'unmanaged',
] as const

const ENVIRONMENT_STATUSES = [
  'new',
  'deploying',
  'running',
  'stopped',
  'degraded',
  'failed',
  'removing',
] as const

export const Environment = z.object({
  id: Id,
  project_id: Id,
  identifier: z.string(),
  title: z.string(),
  type: z.enum(['pull_request', 'manual']),
  recipe: z.enum(RECIPES),
  recipe_inherited: z.boolean(),
  branch: z.string(),
  branch_missing: z.boolean(),
  commit_sha: z.string().nullable(),
  target_sha: z.string().nullable(),
  /** It stays at a commit that a user chose, until the next push or a deployment of its branch. */
  pinned: z.boolean(),
  pull_request: z
    .object({
      number: z.int(),
      url: z.string(),
      title: z.string(),
      author: z.string(),
      state: z.enum(['open', 'merged', 'closed', 'presumed_closed']),
      draft: z.boolean(),
      base_branch: z.string(),
      from_fork: z.boolean(),
      head_sha: z.string(),
      approval: z.enum(['not_needed', 'approved', 'required']),
    })
    .nullable(),
  url: z.string().nullable(),
  domain: z.string(),
  server: ServerRef,
  owner: Person,
  protected: z.boolean(),
  sticky: z.boolean(),
  auto_deploy: z.boolean(),
  basic_auth: BasicAuth,
  status: z.enum(ENVIRONMENT_STATUSES),
  status_reason: z.string().nullable(),
  /** Who stopped services of it, and which of them are still stopped; null: none is. */
  stopped: z
    .object({ by: z.string(), at: Time, task_id: Id, services: z.array(z.string()) })
    .nullable()
    .default(null),
  locked: z.boolean(),
  locked_by: z
    .object({ task_id: Id, trigger: z.string(), status: z.enum(TASK_STATUSES) })
    .nullable(),
  variables_changed: z.boolean(),
  services: z.array(
    z.object({
      name: z.string(),
      url: z.string().nullable(),
      status: z.enum(SERVICE_STATES),
      /** Null: it has one, or the server has not counted them. */
      replicas: z.object({ wanted: z.int(), running: z.int() }).nullable().default(null),
      /** How often it ended by itself and was started again, since it was deployed. */
      restarts: z.int().default(0),
      /** As the service file names it; null: built from the repository, or not a container. */
      image: z.string().nullable().default(null),
    }),
  ),
  last_task: z
    .object({ id: Id, status: z.enum(TASK_STATUSES), finished_at: Time.nullable() })
    .nullable(),
  /** The newest successful deployment; `last_task` may be a later failure, or something else. */
  deployed: z.object({ task_id: Id, commit_sha: z.string().nullable(), at: Time }).nullable(),
  /** You asked for a mail when it is degraded, and when it has recovered. */
  watching: z.boolean().default(false),
  may: z.array(z.string()),
  created_at: Time,
  updated_at: Time,
})
export type Environment = z.infer<typeof Environment>

export const EnvironmentCreate = z.strictObject({
  identifier: Slug,
  branch: z.string().min(1).max(255),
  title: z.string().trim().min(1).max(100).optional(),
  server_id: Id.optional(),
  domain: HostName.optional(),
  recipe: z.enum(RECIPES).nullable().optional(),
  protected: z.boolean().optional(),
  sticky: z.boolean().optional(),
  auto_deploy: z.boolean().optional(),
  basic_auth: EnvironmentBasicAuth.optional(),
  /** Write-only; effective from the first deployment on. */
  variables: z.record(z.string(), z.unknown()).optional(),
  deploy: z.boolean().optional(),
})
export type EnvironmentCreate = z.infer<typeof EnvironmentCreate>

export const EnvironmentPatch = z.strictObject({
  title: z.string().trim().min(1).max(100).optional(),
  server_id: Id.optional(),
  domain: HostName.optional(),
  recipe: z.enum(RECIPES).nullable().optional(),
  branch: z.string().min(1).max(255).optional(),
  protected: z.boolean().optional(),
  sticky: z.boolean().optional(),
  auto_deploy: z.boolean().optional(),
  owner_id: Id.optional(),
})
export type EnvironmentPatch = z.infer<typeof EnvironmentPatch>

export const EnvironmentWatch = z.strictObject({ watching: z.boolean() })
export type EnvironmentWatch = z.infer<typeof EnvironmentWatch>

export const EnvironmentDeleteQuery = z.object({
  /** The identifier; required for a protected one. */
  confirm: z.string().max(64).optional(),
  /** "Remove anyway": skips the repository's own destroy steps. */
  force: z.enum(['true', 'false']).optional(),
  /** The server will not return: forgets the environment without destroying anything. */
  forget: z.enum(['true', 'false']).optional(),
})

/** For a restart, stop or start; without `service`, of every service. */
export const LifecycleRequest = z.strictObject({
  service: z.string().min(1).max(63).nullable().optional(),
  message: z.string().trim().max(500).nullable().optional(),
})
export type LifecycleRequest = z.infer<typeof LifecycleRequest>

export const ResetRequest = z.strictObject({ confirm: z.string().max(64).optional() })

export const EnvironmentCreated = Environment.extend({ task: Task.nullable() })

export const TaskCreate = z.strictObject({
  /** In full, or its first 7 or more digits if they name one commit. */
  commit_sha: CommitPrefix.nullable().optional(),
  no_cache: z.boolean().optional(),
  /** A rollback: where the server kept the release of this commit, the deploy steps are not run again. */
  reuse_release: z.boolean().optional(),
  message: z.string().trim().max(500).nullable().optional(),
})
export type TaskCreate = z.infer<typeof TaskCreate>

const METRIC_RANGES = ['hour', 'day', 'week'] as const

/** Processor, memory and requests in steps of a range. */
export const EnvironmentMetricsQuery = z.object({
  /** `hour`: a point per minute; `day`: per ten minutes; `week`: per hour. */
  range: z.enum(METRIC_RANGES).optional(),
})

const RequestCounts = {
  requests: z.int(),
  status_2xx: z.int(),
  status_3xx: z.int(),
  status_4xx: z.int(),
  status_5xx: z.int(),
  /** Null: without requests. */
  p50_ms: z.int().nullable(),
  p95_ms: z.int().nullable(),
}

const Use = {
  /** Of one processor: 200 is two of them. */
  cpu_percent: z.number(),
  memory_bytes: z.int(),
}

export const EnvironmentMetrics = z.object({
  range: z.enum(METRIC_RANGES),
  step_seconds: z.int(),
  /** Null: its server reported nothing about it lately. */
  latest: z
    .object({
      at: Time,
      ...Use,
      services: z.array(z.object({ name: z.string(), ...Use })),
    })
    .nullable(),
  /** Of the whole range; null: requests are not measured on its server. */
  totals: z.object(RequestCounts).nullable(),
  /** Every step of the range, oldest first; null where nothing was measured. */
  points: z.array(
    z.object({
      at: Time,
      cpu_percent: z.number().nullable(),
      memory_bytes: z.int().nullable(),
      requests: z.int().nullable(),
      requests_per_second: z.number().nullable(),
      status_2xx: z.int().nullable(),
      status_3xx: z.int().nullable(),
      status_4xx: z.int().nullable(),
      status_5xx: z.int().nullable(),
      p50_ms: z.int().nullable(),
      p95_ms: z.int().nullable(),
    }),
  ),
})
export type EnvironmentMetrics = z.infer<typeof EnvironmentMetrics>
