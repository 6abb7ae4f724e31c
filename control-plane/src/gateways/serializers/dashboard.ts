// Serializes fields that only the dashboard gets; fields.ts and its siblings serialize what REST has too.
import type { Task } from '@berth/shared/api'
import { readStepLines } from '../../app/deployments/logs.ts'
import type { TaskView } from '../../app/deployments/tasks.ts'
import type { TicketView } from '../../app/files/downloads.ts'
import type { SessionView } from '../../app/people/browser-logins.ts'
import type { FactorsView } from '../../app/people/factors/factors.ts'
import type { DomainView } from '../../app/projects/domains.ts'
import type { Overview } from '../../app/projects/overview.ts'
import type { Context } from '../../context.ts'
import { type Caller, permissionsOf } from '../../domain/core/access.ts'
import type { User } from '../../store/people/people.ts'
import { serializeTask, time, timeOrNull } from './fields.ts'

/** Like /api/me, for a user without a token. */
export const serializeSelf = (
  user: User,
  caller: Caller,
  projectCounts: Map<number, number>,
  waiting: readonly { organizationId: number; organizationName: string }[],
) => ({
  id: user.id,
  name: user.name,
  email: user.email,
  avatar_url: null,
  is_platform_admin: caller.isPlatformAdmin,
  created_at: time(user.createdAt),
  current_organization_id: caller.askedOrganizationId,
  organizations: caller.memberships.map((m) => ({
    id: m.organizationId,
    name: m.organizationName,
    slug: m.organizationSlug,
    role: m.role,
    permissions: permissionsOf(m.role, caller.scopes),
    project_count: projectCounts.get(m.organizationId) ?? 0,
  })),
  has_second_factor: user.secondFactorAt !== null,
  /** These wait until the user has a second factor. */
  waiting_organizations: waiting.map((m) => ({ id: m.organizationId, name: m.organizationName })),
})

/** Includes phases, steps and their lines. */
export const serializeWholeTask = async (ctx: Context, view: TaskView): Promise<Task> =>
  serializeTask(ctx, view, { lines: await readStepLines(ctx, view) })

export const serializeSession = (view: SessionView) => ({
  id: view.id,
  address: view.address,
  user_agent: view.userAgent,
  started_at: time(view.createdAt),
  last_used_at: time(view.lastUsedAt ?? view.createdAt),
  method: view.method,
  expires_at: time(view.expiresAt),
  is_current: view.isCurrent,
})

export const serializeFactors = (view: FactorsView) => ({
  has_app: view.hasApp,
  app_since: timeOrNull(view.appSince),
  passkeys: view.passkeys.map((one) => ({
    id: one.id,
    name: one.name,
    created_at: time(one.createdAt),
    last_used_at: timeOrNull(one.lastUsedAt),
  })),
  passkey_obstacle: view.obstacle ?? null,
  recovery_codes_left: view.recoveryCodesLeft,
  is_recent: view.isRecent,
  has_password: view.hasPassword,
  is_linked: view.isLinked,
  required_by: view.requiredBy,
})

export const serializeOverview = ({ activity, approvals, brokenForges }: Overview) => ({
  activity: activity.map(({ task, projectName, identifier }) => ({
    id: task.id,
    project: { id: task.projectId, name: projectName },
    environment: { id: task.environmentId, identifier },
    status: task.status,
    branch: task.branch,
    commit_sha: task.commitSha,
    commit_message: task.commitMessage,
    triggered_by: task.triggeredBy,
    at: time(task.finishedAt ?? task.createdAt),
  })),
  approvals: approvals.map((p) => ({
    project: { id: p.projectId, name: p.projectName },
    number: p.number,
    title: p.title,
    author: p.author,
    url: p.url,
    head_sha: p.headSha || null,
    since: timeOrNull(p.waitingSince),
  })),
  broken_forges: brokenForges.map((b) => ({
    project: { id: b.projectId, name: b.projectName },
    checked_at: timeOrNull(b.checkedAt),
  })),
})

export const serializeDomain = ({ host, environment, server, check }: DomainView) => ({
  host,
  environment,
  server,
  check: check && {
    dns: check.dns,
    tls: check.tls,
    addresses: check.addresses,
    advice: check.advice,
    issuer: check.issuer,
    valid_to: timeOrNull(check.validTo),
    checked_at: time(check.checkedAt),
  },
})

/** The browser itself opens it, once. */
export const serializeTicket = ({ path, expiresAt }: TicketView) => ({
  url: path,
  expires_at: time(expiresAt),
})
