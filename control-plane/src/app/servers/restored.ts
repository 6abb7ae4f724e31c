// After the database was restored from a backup the servers know more than it does (wire.md, "After a restore"). What
// they tell in their first message is compared with the rows here: nothing that may have run is sent again, no number is
// given out twice, and what the database does not know is written down once, in the audit log, before it is forgotten.
import { RESTORE } from '@berth/shared'
import { AttemptState, type EnvironmentFence, type Hello } from '@berth/shared/wire'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import { describeFailure } from '../../domain/deployments/failure.ts'
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

/** An attempt that the agent holds and that is not, or no longer, ours to hold: it is told what to do with it. */
export interface Stranger {
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

/** An older agent refuses 0, and reads the number only where there is something to do. */
const SOME_ENVIRONMENT = 0xffff_ffff

const HIGHEST_ID = 0x7fff_ffff // beyond it no database gives one out

/** A server that joined again keeps its attempts: those of its former identity are this one's now. */
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

/** What the agent holds and is not among what it should hold. Those the database never heard of are reported. */
export async function closeUnknownAttempts(
  ctx: Context,
  c: Change,
  agent: Agent,
  hello: Hello,
  held: ReadonlySet<string>,
): Promise<Stranger[]> {
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

/** Each one once, however often the agent comes back with it. */
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

/** Fences ahead of ours, and numbers that were given out: queued tasks may have run, new rows must not be mixed up. */
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
      // made by this very process, under a number that was never given out: it cannot have run
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
    if (task.serverId !== agent.serverId) continue // a copy elsewhere has nothing to do with it
    // it has an attempt that we know: the server tells what became of that one
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
 * Once an agent in the life of a control plane, and not far: numbers belong to everybody, and one server must not use
 * them up.
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
