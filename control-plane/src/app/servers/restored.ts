// After a database restore, servers know more than the database. Compares an agent's hello with the rows
// (docs/decisions/0026-after-a-restore.md): what may have run is not sent again, no number is issued twice, and what
// the database does not know is recorded once in the audit log before it is forgotten.

import { AttemptState, type EnvironmentFence, type Hello } from '@berth/shared/wire'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import { describeFailure } from '../../domain/deployments/failure.ts'
import { RESTORE } from '../../limits/installation.ts'
import { listAuditedSubjects } from '../../store/core/audit.ts'
import { findHighestGiven, type Numbered, skipNumbers } from '../../store/core/given-numbers.ts'
import {
  type Attempt,
  adoptAttempts,
  findLiveAttempt,
  listAttemptsById,
  listHeldAttempts,
} from '../../store/deployments/attempts.ts'
import { listUnfinishedTasks, moveTask, type Task } from '../../store/deployments/tasks.ts'
import {
  type Environment,
  findEnvironment,
  listEnvironmentServers,
  raiseFence,
} from '../../store/environments/environments.ts'
import { type Agent, listFormerAgents } from '../../store/servers/agents.ts'
import { auditAgent } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { emitTask } from '../core/transaction.ts'
import { endRemovalTask } from '../environments/removal.ts'

/** An attempt that the agent holds and should not hold, or no longer; the control plane says what to do with it. */
export interface UnknownAttempt {
  attemptId: string
  environmentId: number
  live: boolean
  fence: bigint
}

const MAY_HAVE_RUN =
  'The control plane was restored from a backup and this task may have run. Deploy again.'
const ANOTHER =
  'The control plane was restored from a backup, and another environment has this number on its server. ' +
  'Remove this environment and create it again.'

/** For an unknown environment. An older agent refuses 0, and reads the number only if it has something to do. */
const SOME_ENVIRONMENT = 0xffff_ffff

const HIGHEST_ID = 0x7fff_ffff // the highest id that a database issues

/** A server that joined again keeps its attempts: those of its former identity move to the new one. */
export async function adoptFormerAttempts(
  c: Change,
  agent: Agent,
  hello: Hello,
): Promise<{ gone: Attempt[] }> {
  const reported = new Set(hello.attempts.map((a) => a.attemptId))
  const gone: Attempt[] = []
  for (const former of await listFormerAgents(c.db, agent)) {
    const held = await listHeldAttempts(c.db, former)
    const there = held.filter(({ id }) => reported.has(id)).map(({ id }) => id)
    await adoptAttempts(c.db, there, agent.id)
    gone.push(...held.filter(({ id }) => !reported.has(id)))
  }
  return { gone }
}

/** Returns the attempts that the agent should not hold. Those that the database never knew are reported. */
export async function closeUnknownAttempts(
  ctx: Context,
  c: Change,
  agent: Agent,
  hello: Hello,
  held: ReadonlySet<string>,
): Promise<UnknownAttempt[]> {
  const unknownAttempts = hello.attempts.filter((a) => !held.has(a.attemptId))
  const known = await listAttemptsById(
    c.db,
    unknownAttempts.map((a) => a.attemptId),
  )
  const unknown = unknownAttempts.filter((a) => !known.has(a.attemptId))
  await report(ctx, c, agent, {
    verb: 'attempt.unknown',
    subject: 'attempt',
    found: unknown.map((a) => ({
      id: a.attemptId,
      details: { environment_id: a.environmentId || null, fence: Number(a.fence), state: a.state },
    })),
  })
  return unknownAttempts.map((a) => ({
    attemptId: a.attemptId,
    environmentId: known.get(a.attemptId)?.environmentId ?? (a.environmentId || SOME_ENVIRONMENT),
    live: a.state < AttemptState.SUCCEEDED,
    fence: a.fence,
  }))
}

/** Reports each one once, even if the agent sends it repeatedly. */
async function report(
  ctx: Context,
  c: Change,
  agent: Agent,
  what: {
    verb: string
    subject: string
    found: { id: string; details: Record<string, unknown> }[]
  },
): Promise<void> {
  const ids = what.found.map(({ id }) => id)
  const before = await listAuditedSubjects(c.db, what.verb, what.subject, ids)
  const news = what.found.filter(({ id }) => !before.has(id))
  if (news.length === 0) return
  ctx.log.warn(
    { agentId: agent.id, serverId: agent.serverId, [what.subject]: news.map(({ id }) => id) },
    'a server knows what the database does not: it was restored from a backup',
  )
  for (const { id, details } of news) {
    await auditAgent(c, agent.id, 'system', what.verb, [what.subject, id], details)
  }
}

/** Skips fences and ids that were issued before the restore, and fails queued tasks that may have run. */
export async function recoverFences(
  ctx: Context,
  c: Change,
  agent: Agent,
  hello: Hello,
): Promise<void> {
  const fences = hello.fences.filter((f) => f.environmentId <= HIGHEST_ID)
  await skipGivenNumbers(ctx, c, agent, fences)
  const ids = fences.map((f) => f.environmentId)
  const servers = new Map((await listEnvironmentServers(c.db, ids)).map((e) => [e.id, e.serverId]))
  await report(ctx, c, agent, {
    verb: 'environment.unknown',
    subject: 'environment',
    found: fences
      .filter((f) => !servers.has(f.environmentId))
      .map((f) => ({ id: String(f.environmentId), details: { fence: Number(f.fence) } })),
  })
  const newest = Math.max(0, ...fences.map((f) => f.taskId))
  for (const reported of fences) {
    if (servers.get(reported.environmentId) !== agent.serverId) continue
    const environment = await findEnvironment(c.db, reported.environmentId)
    if (!environment) continue
    if (isAnother(environment, reported)) {
      await failTasks(ctx, c, agent, environment, ANOTHER, () => true)
    } else if (Number(reported.fence) > environment.fence) {
      await raiseFence(c.db, environment.id, Number(reported.fence))
      // created by this process under an id that was never issued before, so it cannot have run
      const isNew = (task: Task): boolean =>
        task.createdAt >= ctx.startedAt && reported.taskId > 0 && task.id > newest
      await failTasks(ctx, c, agent, environment, MAY_HAVE_RUN, (task) => !isNew(task))
    }
  }
}

const isAnother = (environment: Environment, reported: EnvironmentFence): boolean =>
  reported.createdAt !== undefined && timestampMs(reported.createdAt) !== environment.createdAt

async function failTasks(
  ctx: Context,
  c: Change,
  agent: Agent,
  environment: Environment,
  message: string,
  isConcerned: (task: Task) => boolean,
): Promise<void> {
  for (const task of await listUnfinishedTasks(c.db, environment.id)) {
    if (task.serverId !== agent.serverId) continue // a copy on another server is unaffected
    // the server reports the end of an attempt that we know
    if (!isConcerned(task) || (await findLiveAttempt(c.db, task.id))) continue
    const failure = describeFailure({ code: 'stale_fence', message })
    const end = { finishedAt: c.now, failure: JSON.stringify(failure) }
    if (!(await moveTask(c.db, task.id, 'failed', end))) continue
    emitTask(c, task, 'task.failed', { code: 'stale_fence' })
    await endRemovalTask(ctx, c, task, { status: 'failed', message })
  }
}

const asked = new WeakMap<Context, Set<string>>()

/**
 * Runs once per agent in the life of a control plane, with a bound: all servers share the ids, and one server must
 * not use them up.
 */
async function skipGivenNumbers(
  ctx: Context,
  c: Change,
  agent: Agent,
  fences: readonly EnvironmentFence[],
): Promise<void> {
  const agents = asked.get(ctx) ?? new Set()
  asked.set(ctx, agents)
  if (agents.has(agent.id)) return
  const highest: Record<Numbered, number> = {
    environments: Math.max(0, ...fences.map((f) => f.environmentId)),
    projects: Math.max(0, ...fences.map((f) => f.projectId)),
    tasks: Math.max(0, ...fences.map((f) => f.taskId)),
  }
  for (const [table, reported] of Object.entries(highest) as [Numbered, number][]) {
    const given = await findHighestGiven(c.db, ctx.engine, table)
    if (reported <= given) continue
    agents.add(agent.id)
    const atLeast = Math.min(reported, given + RESTORE.numbers)
    await skipNumbers(c.db, ctx.engine, table, atLeast)
    ctx.log.warn({ table, given, atLeast }, 'numbers were given out before a restore: skipped')
  }
}
