// Serializes rows to the documented fields: snake_case, UTC without fractions, "no value" as null. Only serializers
// name response fields; routes call them and add nothing.
import {
  defaultCeilings,
  defaultServerSettings,
  knownSize,
  NO_SERVER_SETTINGS,
  readCeilings,
  readServerSettings,
  type StepStatus,
  VERSION,
} from '@berth/shared'
import type {
  AgentUpdate,
  Me,
  Phase,
  Project,
  Server,
  ServerTrust,
  ServerUsage,
  Step,
  Task,
} from '@berth/shared/api'
import { StepState } from '@berth/shared/wire'
import type { StepLines } from '../../app/deployments/logs.ts'
import type { TaskView } from '../../app/deployments/tasks.ts'
import type { Listed } from '../../app/projects/views.ts'
import type { ServerView } from '../../app/servers/servers.ts'
import type { Context } from '../../context.ts'
import { type Caller, permissionsOf } from '../../domain/core/access.ts'
import { toUtc } from '../../domain/core/utc.ts'
import { isOlder } from '../../domain/servers/server.ts'
import { sshEndpointOf } from '../../domain/ssh/grant.ts'
import type { Token, User } from '../../store/people/people.ts'
import type { HostFacts } from '../../store/servers/servers.ts'
import type { ServerUsage as StoredUsage } from '../../store/servers/usage.ts'

const MANY_TIMES = 5_000
const times = new Map<number, string>()

/** Cached by the second: a page of tasks formats a hundred times, mostly the same ones at the next poll. */
export function time(ms: number): string {
  const second = Math.floor(ms / 1_000)
  const known = times.get(second)
  if (known !== undefined) return known
  const text = toUtc(second * 1_000)
  if (times.size >= MANY_TIMES) times.clear()
  times.set(second, text)
  return text
}
export const timeOrNull = (ms: number | null): string | null => (ms === null ? null : time(ms))

export function serializeMe(
  user: User,
  token: Token,
  caller: Caller,
  projectCounts: Map<number, number>,
): Me {
  return {
    id: user.id,
    name: user.name,
    email: user.email,
    avatar_url: null,
    is_platform_admin: user.isPlatformAdmin === 1,
    created_at: time(user.createdAt),
    token: {
      id: token.id,
      kind: token.kind,
      name: token.name,
      scopes: token.scopes,
      organization_id: token.organizationId,
      expires_at: timeOrNull(token.expiresAt),
    },
    current_organization_id: caller.askedOrganizationId,
    organizations: caller.memberships.map((m) => ({
      id: m.organizationId,
      name: m.organizationName,
      slug: m.organizationSlug,
      role: m.role,
      permissions: permissionsOf(m.role, token.scopes),
      project_count: projectCounts.get(m.organizationId) ?? 0,
    })),
  }
}

/** Exactly the six fields of the specification. */
export const serializeProject = ({ project, servers, environmentCount }: Listed): Project => ({
  id: project.id,
  name: project.name,
  repo_url: project.repoUrl,
  domain: project.domain,
  environment_count: environmentCount,
  servers,
})

export const serializeUsage = (usage: StoredUsage): ServerUsage => ({
  at: time(usage.at),
  cpu_percent: usage.cpuPermille / 10,
  load: usage.loadHundredths / 100,
  memory_used_bytes: usage.memoryUsedBytes,
  memory_bytes: usage.memoryBytes,
  disk_used_bytes: usage.diskUsedBytes,
  disk_bytes: usage.diskBytes,
  docker_ok: usage.dockerOk === 1,
  proxy_ok: usage.proxyOk === 1,
})

function serializeTrust({ agent, status }: ServerView): ServerTrust | null {
  if (!agent) return null
  if (status !== 'online' && status !== 'draining') return { state: 'away', reason: null }
  if (agent.trustError !== '') return { state: 'refused', reason: agent.trustError }
  const isNewest = agent.trustApplied > 0 && agent.trustApplied === agent.trustGeneration
  return { state: isNewest ? 'confirmed' : 'told', reason: null }
}

/** The disk comes from the newest measurement, as in the charts; before the first one, from the agent's hello. */
function serializeDisk(host: HostFacts, usage: StoredUsage | undefined) {
  const [all, free] = usage
    ? [usage.diskBytes, usage.diskBytes - usage.diskUsedBytes]
    : [host.diskBytes, host.diskFreeBytes]
  return { disk_bytes: all, disk_free_bytes: Math.max(0, free) }
}

export function serializeServer(view: ServerView): Server {
  const { server, agent, status, environmentCount, usage, owner, sharedWith } = view
  const { host } = server
  const offered = new Set(agent?.capabilities ?? [])
  const shown: Server = {
    id: server.id,
    name: server.name,
    hostname: server.hostname,
    organization_id: server.organizationId,
    status,
    paused: server.paused,
    paused_by: view.pausedBy ?? null,
    paused_at: timeOrNull(server.pausedAt),
    agent_version: agent?.version ?? null,
    agent_outdated: isOlder(agent?.version ?? null, VERSION),
    update: view.update
      ? {
          rollout_id: view.update.rolloutId,
          version: view.update.version,
          state: view.update.state as AgentUpdate['state'],
          reason: view.update.reason || null,
          finished_at: timeOrNull(view.update.finishedAt),
        }
      : null,
    last_seen_at: timeOrNull(agent?.lastSeenAt ?? null),
    joined_at: timeOrNull(agent?.joinedAt ?? null),
    ssh_port: server.sshPort,
    ssh: sshEndpointOf(server),
    shell_enabled: server.shellEnabled,
    recipes: (['docker', 'manual'] as const).filter((r) => offered.has(r)),
    facts: host && {
      os: host.os,
      arch: host.arch,
      cpus: host.cpus,
      memory_bytes: host.memoryBytes,
      ...serializeDisk(host, usage),
      docker_version: host.dockerVersion || null,
    },
    parts: (host?.parts ?? []).map((p) => ({
      name: p.name,
      version: p.version || null,
      reason: p.reason || null,
    })),
    environment_count: environmentCount,
    limits: readCeilings(server.ceilings),
    default_limits: host && knownSize(host) ? defaultCeilings(host) : null,
    settings: readServerSettings(server.settings),
    default_settings: host && knownSize(host) ? defaultServerSettings(host) : null,
    usage: usage ? serializeUsage(usage) : null,
    trust: serializeTrust(view),
    shared_by: null,
    shared_with: sharedWith.map(({ id, name, slug }) => ({ id, name, slug })),
    created_at: time(server.createdAt),
  }
  return owner ? { ...shown, ...HIDDEN_FROM_GUESTS, shared_by: owner } : shown
}

/** A guest sees the server's name, address, state and recipes. */
const HIDDEN_FROM_GUESTS = {
  paused_by: null,
  shell_enabled: false,
  agent_version: null,
  agent_outdated: false,
  facts: null,
  parts: [],
  limits: readCeilings('{}'),
  default_limits: null,
  settings: NO_SERVER_SETTINGS,
  default_settings: null,
  usage: null,
  trust: null,
  shared_with: [],
} satisfies Partial<Server>

const STEP_WORDS = new Map<number, StepStatus>([
  [StepState.PENDING, 'pending'],
  [StepState.RUNNING, 'running'],
  [StepState.SUCCEEDED, 'succeeded'],
  [StepState.FAILED, 'failed'],
  [StepState.SKIPPED, 'skipped'],
  [StepState.CANCELED, 'canceled'],
])

/** The status of a phase follows its steps: the worst of the finished, the first of the open ones. */
function phaseStatus(steps: Step[]): StepStatus {
  const has = (s: StepStatus) => steps.some((step) => step.status === s)
  if (has('failed')) return 'failed'
  if (has('running')) return 'running'
  if (has('canceled')) return 'canceled'
  if (steps.every((s) => s.status === 'pending')) return 'pending'
  if (has('pending')) return 'running'
  return steps.every((s) => s.status === 'skipped') ? 'skipped' : 'succeeded'
}

function serializePhases(view: TaskView, lines: StepLines): Phase[] {
  const phases: Phase[] = []
  for (const row of view.steps) {
    let phase = phases.find((p) => p.name === row.phase)
    if (!phase) {
      phase = {
        name: row.phase,
        title: row.phaseTitle,
        status: 'pending',
        started_at: null,
        duration_ms: null,
        steps: [],
      }
      phases.push(phase)
    }
    const at = lines.get(row.stepIndex)
    phase.steps.push({
      name: row.stepId,
      title: row.title,
      status: STEP_WORDS.get(row.state) ?? 'pending',
      message: row.message || null,
      started_at: timeOrNull(row.startedAt),
      duration_ms: row.durationMs,
      first_line: at?.first ?? null,
      last_line: at?.last ?? null,
      exit_code: row.exitCode,
    })
  }
  for (const phase of phases) {
    phase.status = phaseStatus(phase.steps)
    phase.started_at = phase.steps.find((s) => s.started_at !== null)?.started_at ?? null
    // after a failure, the remaining steps never begin
    const isCut = phase.status === 'failed' || phase.status === 'canceled'
    const isOver = (s: Step) => s.status !== 'running' && (isCut || s.status !== 'pending')
    phase.duration_ms = phase.steps.every(isOver)
      ? phase.steps.reduce((sum, s) => sum + (s.duration_ms ?? 0), 0)
      : null
  }
  return phases
}

/** Serializes a list without phases; `lines` come from `readFailureLines`. */
export const serializeTasks = (
  ctx: Context,
  views: readonly TaskView[],
  lines: ReadonlyMap<number, number>,
): Task[] => views.map((view) => serializeTask(ctx, view, undefined, lines.get(view.task.id)))

export function serializeTask(
  ctx: Context,
  view: TaskView,
  phases?: { lines: StepLines },
  failureLine?: number,
): Task {
  const { task, attempt, waiting } = view
  const failedAt = view.steps.find((s) => s.stepId === task.failure?.step)
  const line = phases ? failedAt && phases.lines.get(failedAt.stepIndex)?.last : failureLine
  return {
    id: task.id,
    environment_id: task.environmentId,
    project_id: task.projectId,
    type: task.type,
    reset: task.reset,
    status: task.status,
    trigger: task.triggerBy,
    triggered_by: { id: task.userId, name: task.triggeredBy },
    delivery_id: task.deliveryId,
    message: task.message,
    branch: task.branch,
    commit_sha: task.commitSha,
    commit_message: task.commitMessage,
    commit_author: task.commitAuthor,
    recipe: task.recipe,
    action: task.action,
    service: task.service,
    waiting_for: waiting && {
      code: waiting.code,
      message: waiting.message,
      since: time(waiting.since),
      deadline: timeOrNull(waiting.deadline),
      task_id: waiting.taskId,
      position: waiting.position,
    },
    cancel_requested_at: timeOrNull(task.cancelRequestedAt),
    cancel_reason: task.cancelReason,
    canceled_by: task.canceledBy,
    superseded_by: task.supersededBy,
    failure: task.failure && { ...task.failure, line: line ?? null },
    warnings: task.warnings,
    unreachable_since: timeOrNull(attempt?.unreachableSince ?? null),
    late_outcome: task.lateOutcome,
    created_at: time(task.createdAt),
    started_at: timeOrNull(task.startedAt),
    live_at: timeOrNull(task.liveAt),
    finished_at: timeOrNull(task.finishedAt),
    duration_ms:
      task.finishedAt === null ? null : task.finishedAt - (task.startedAt ?? task.createdAt),
    url: `${ctx.baseUrl}/tasks/${task.id}`,
    log_url: `${ctx.baseUrl}/api/tasks/${task.id}/log`,
    log_lines: attempt?.logLines ?? 0,
    log_complete: attempt ? attempt.logCompleteAt !== null : task.finishedAt !== null,
    ...(phases ? { phases: serializePhases(view, phases.lines) } : {}),
  }
}
