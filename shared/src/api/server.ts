// Servers: machines that run an agent.
import { z } from 'zod'
import { NO_SERVER_SETTINGS, SERVER_SETTINGS } from '../server-settings.ts'
import { Limits, LimitsPatch } from './ceilings.ts'
import { Id, Name, Person, Time } from './fields.ts'

const SERVER_STATUSES = [
  'pending',
  'online',
  'unknown',
  'offline',
  'draining',
  'updating',
  'duplicate_identity',
  'revoked',
  'uninstalled',
] as const
export type ServerStatus = (typeof SERVER_STATUSES)[number]

export const ServerRef = z.object({ id: Id, name: z.string(), hostname: z.string() })

/** What it uses of its machine, from its last report. */
export const ServerUsage = z.object({
  at: Time,
  /** Of all processors together. */
  cpu_percent: z.number(),
  load: z.number(),
  memory_used_bytes: z.int(),
  memory_bytes: z.int(),
  disk_used_bytes: z.int(),
  disk_bytes: z.int(),
  docker_ok: z.boolean(),
  proxy_ok: z.boolean(),
})
export type ServerUsage = z.infer<typeof ServerUsage>

export const ServerUsageQuery = z.object({
  /** `hour` and `day`: a point per minute; `month`: a point per hour. */
  span: z.enum(['hour', 'day', 'month']).optional(),
})

export const ServerUsageHistory = z.object({
  latest: ServerUsage.nullable(),
  environments: z.array(
    z.object({
      id: Id,
      identifier: z.string(),
      /** From the last hourly measurement; 0: not measured yet. */
      disk_bytes: z.int(),
      memory_bytes: z.int(),
      /** Of one processor: 200 is two of them. */
      cpu_percent: z.number(),
    }),
  ),
  span: z.enum(['hour', 'day', 'month']),
  /** Oldest first; minutes without a report are missing. */
  points: z.array(
    z.object({
      at: Time,
      cpu_percent: z.number(),
      memory_used_bytes: z.int(),
      disk_used_bytes: z.int(),
    }),
  ),
})
export type ServerUsageHistory = z.infer<typeof ServerUsageHistory>

export const ServerTrust = z.object({
  /** `away`: not connected, so it does not have later changes; `told`: it has not answered yet. */
  state: z.enum(['confirmed', 'told', 'refused', 'away']),
  /** Why it could not apply it, in its own words. */
  reason: z.string().nullable(),
})
export type ServerTrust = z.infer<typeof ServerTrust>

/** What builds may use, and how many tasks run together. Null: derived from the size of the server. */
export const ServerSettings = z.object({
  /** Memory of one build, and of the steps of one manual deployment. */
  build_memory_bytes: z.int().nullable(),
  /** Processors. */
  build_cpus: z.number().nullable(),
  /** Null: 30 minutes for a build, and no limit of its own for a manual step. */
  build_timeout_ms: z.int().nullable(),
  /** Builds that run together. */
  build_slots: z.int().nullable(),
  /** Actions, removals, and deployments outside of their build that run together. */
  task_slots: z.int().nullable(),
})
export type ServerSettings = z.infer<typeof ServerSettings>

const { lowest, highest } = SERVER_SETTINGS
const { build_memory_bytes: least } = lowest

/** Absent fields stay unchanged. */
export const ServerSettingsPatch = z.strictObject({
  build_memory_bytes: z.int().min(least).max(highest.build_memory_bytes).nullable().optional(),
  build_cpus: z.number().min(lowest.build_cpus).max(highest.build_cpus).nullable().optional(),
  build_timeout_ms: z
    .int()
    .min(lowest.build_timeout_ms)
    .max(highest.build_timeout_ms)
    .nullable()
    .optional(),
  build_slots: z.int().min(lowest.build_slots).max(highest.build_slots).nullable().optional(),
  task_slots: z.int().min(lowest.task_slots).max(highest.task_slots).nullable().optional(),
})
export type ServerSettingsPatch = z.infer<typeof ServerSettingsPatch>

/** `waiting`: its turn has not come, or it is away; `offered`: it fetches or tries the new version. */
const AGENT_UPDATE_STATES = ['waiting', 'offered', 'kept', 'failed', 'skipped'] as const

/** The newest update of a server's agent. */
export const AgentUpdate = z.object({
  rollout_id: Id,
  version: z.string(),
  state: z.enum(AGENT_UPDATE_STATES),
  /** Why it failed or was skipped. */
  reason: z.string().nullable(),
  finished_at: Time.nullable(),
})
export type AgentUpdate = z.infer<typeof AgentUpdate>

export const AgentRollout = z.object({
  id: Id,
  /** Null: every server of the installation. */
  organization_id: Id.nullable(),
  version: z.string(),
  state: z.enum(['running', 'done', 'failed']),
  /** The first failure, which stopped it. */
  reason: z.string().nullable(),
  /** 1: one server; 2: a tenth of them; 3: all. */
  wave: z.int(),
  servers: z.object({
    waiting: z.int(),
    offered: z.int(),
    kept: z.int(),
    failed: z.int(),
    skipped: z.int(),
  }),
  started_at: Time,
  finished_at: Time.nullable(),
})
export type AgentRollout = z.infer<typeof AgentRollout>

export const AgentUpdates = z.object({
  /** Of the agents that this control plane offers. */
  version: z.string(),
  /** Why agents cannot be upgraded from here; null: they can. */
  reason: z.string().nullable(),
  /** Upgrades one agent by hand; null if no agent was packaged here. */
  command: z.string().nullable(),
  /** Newest first. */
  rollouts: z.array(AgentRollout),
})
export type AgentUpdates = z.infer<typeof AgentUpdates>

export const AgentUpdatesStart = z.strictObject({
  /** `installation` needs a platform administrator. */
  scope: z.enum(['organization', 'installation']),
})

export const Server = ServerRef.extend({
  organization_id: Id,
  status: z.enum(SERVER_STATUSES),
  paused: z.boolean(),
  paused_by: Person.nullable().default(null),
  paused_at: Time.nullable().default(null),
  agent_version: z.string().nullable(),
  /** Older than this control plane. */
  agent_outdated: z.boolean(),
  /** Null if its agent was never upgraded from here. */
  update: AgentUpdate.nullish(),
  last_seen_at: Time.nullable(),
  joined_at: Time.nullable(),
  ssh_port: z.int(),
  /** How users connect, as the agent configured it. */
  ssh: z
    .object({
      /** unknown: its agent has not reported it yet. */
      state: z.enum(['ready', 'off', 'unknown']),
      /** Where to connect: the configured port, otherwise the agent's. */
      port: z.int(),
      /** Why users cannot connect, or why not at the usual port. */
      reason: z.string().nullable(),
    })
    .nullish(),
  /** Whether certificates for the whole server are issued. */
  shell_enabled: z.boolean(),
  recipes: z.array(z.enum(['docker', 'manual'])),
  facts: z
    .object({
      os: z.string(),
      arch: z.string(),
      cpus: z.int(),
      memory_bytes: z.int(),
      disk_bytes: z.int(),
      disk_free_bytes: z.int(),
      docker_version: z.string().nullable(),
    })
    .nullable(),
  parts: z.array(
    z.object({ name: z.string(), version: z.string().nullable(), reason: z.string().nullable() }),
  ),
  environment_count: z.int(),
  /** The configured limits of one environment on it. */
  limits: Limits,
  /** The limits that apply by default; null if its size is not known yet. */
  default_limits: Limits.nullable(),
  /** What builds may use, and how many tasks run together. */
  settings: ServerSettings.default(NO_SERVER_SETTINGS),
  /** The settings that apply by default; null if its size is not known yet. */
  default_settings: ServerSettings.nullable().default(null),
  /** Null if it has not reported yet. */
  usage: ServerUsage.nullish(),
  /** Whether the newest SSH keys and revocations are in force on it; null if it has no agent. */
  trust: ServerTrust.nullish(),
  /** The organization it belongs to, if that is another one: settings, load and parts are hidden then. */
  shared_by: z.object({ id: Id, name: z.string() }).nullish(),
  /** Organizations that may place environments on it. */
  shared_with: z.array(z.object({ id: Id, name: z.string(), slug: z.string() })).default([]),
  created_at: Time,
})
export type Server = z.infer<typeof Server>

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i
const IPV4 = /^(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/
const IPV6 = /^(?=.*:.*:)[0-9a-f:]{2,39}$/i

/** It becomes an argument of ssh and a part of addresses, so nothing may read as an option or a second word. */
export function isHostOrAddress(text: string): boolean {
  if (/^[\d.]+$/.test(text)) return IPV4.test(text)
  if (text.includes(':')) return IPV6.test(text)
  return text.length <= 253 && text.split('.').every((label) => LABEL.test(label))
}

export const ServerCreate = z.strictObject({
  name: Name,
  /** A hostname or an address; the domain code validates it, with its own error code. */
  hostname: z.string().min(1).max(253),
})

export const ServerPatch = z.strictObject({
  name: Name.optional(),
  hostname: z.string().min(1).max(253).optional(),
  ssh_port: z.int().min(1).max(65_535).optional(),
  shell_enabled: z.boolean().optional(),
  /** Takes no new tasks. */
  paused: z.boolean().optional(),
  limits: LimitsPatch.optional(),
  settings: ServerSettingsPatch.optional(),
})
export type ServerPatch = z.infer<typeof ServerPatch>

export const ServerShareCreate = z.strictObject({
  /** Slug or id of the organization. */
  organization: z.string().min(1).max(64),
})
export const ServerShareParams = z.object({
  id: z.coerce.number().int().positive(),
  organization_id: z.coerce.number().int().positive(),
})

export const ServerDeleteQuery = z.object({
  /** The server's name. */
  confirm: z.string().max(64).optional(),
})

export const JoinTokenRequest = z.strictObject({ rejoin: z.boolean().optional() })
export const JoinToken = z.object({
  /** Shown once. */
  token: z.string(),
  expires_at: Time,
  command: z.string(),
})

/** POST /api/agent/enroll: for agents; no bearer token. */
export const EnrollRequest = z.strictObject({
  token: z.string().max(300),
  csr: z.string().max(8_192),
  install_id: z.uuid(),
  host: z.strictObject({
    hostname: z.string().max(253),
    os: z.string().max(100),
    arch: z.string().max(20),
    agent_version: z.string().max(40),
  }),
})
export type EnrollRequest = z.infer<typeof EnrollRequest>
export const EnrollResponse = z.object({
  agent_id: z.string(),
  server_id: Id,
  certificate: z.string(),
  ca: z.array(z.string()),
  endpoints: z.array(z.string()),
  generation: z.int(),
  renew_at: Time,
  ssh_user_ca_keys: z.array(z.string()),
})
export type EnrollResponse = z.infer<typeof EnrollResponse>

/** Renewal after expiry: a signature over a one-use nonce proves possession of the old key. */
export const RenewChallengeRequest = z.strictObject({ certificate: z.string().max(8_192) })
export const RenewChallengeResponse = z.object({ nonce: z.string(), expires_at: Time })
export const RenewRequest = z.strictObject({
  certificate: z.string().max(8_192),
  csr: z.string().max(8_192),
  nonce: z.string().max(100),
  /** base64url, over length-prefixed ("berth-renew-1", nonce, CSR). */
  signature: z.string().max(1_000),
})

/** POST /api/agent/leave: Berth was uninstalled from the server. Proven as a renewal after expiry is. */
export const LeaveRequest = z.strictObject({
  certificate: z.string().max(8_192),
  nonce: z.string().max(100),
  /** base64url, over length-prefixed ("berth-leave-1", nonce). */
  signature: z.string().max(1_000),
})
export const LeaveResponse = z.object({
  /** The server's name. */
  server: z.string(),
  /** Environments that are still listed on it. */
  environments: z.int(),
})
export type LeaveResponse = z.infer<typeof LeaveResponse>
