// Changes that depend on time alone: tasks of offline servers, attempts without reports, passed deadlines, incomplete
// logs. A tick runs this; tests move the clock and call it.
import { ARTIFACTS, EVENTS, LOGS, SSH, TASKS } from '@berth/shared'
import { Desired, FailureCode } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import { describeFailure } from '../../domain/deployments/failure.ts'
import { taskTimeoutMs } from '../../domain/deployments/timeouts.ts'
import { LIVE } from '../../limits/browser.ts'
import { COMMIT_STATUSES } from '../../limits/forges.ts'
import { ALERTS, MAIL, REPLICAS } from '../../limits/installation.ts'
import { NOTICES } from '../../limits/notices.ts'
import { SCHEDULES } from '../../limits/schedules.ts'
import { deleteOldEvents } from '../../store/core/events.ts'
import { deleteExpiredCodes } from '../../store/core/one-use-codes.ts'
import {
  type Attempt,
  listIncompleteLogs,
  listLiveAttempts,
  listTaskAttempts,
  stopAttempt,
  updateAttempt,
  updateReachability,
} from '../../store/deployments/attempts.ts'
import { deleteOldRuns } from '../../store/deployments/schedules.ts'
import {
  findTask,
  listNeverSent,
  lockTask,
  moveTask,
  type UnsentTask,
} from '../../store/deployments/tasks.ts'
import { deleteOldArtifacts } from '../../store/files/artifacts.ts'
import { deleteOldReports } from '../../store/forges/commit-statuses.ts'
import { deleteOldAlerts } from '../../store/installation/alerts.ts'
import { deleteOldAgentWakes } from '../../store/installation/replicas.ts'
import { deleteOldNotices } from '../../store/notices/notices.ts'
import { deleteOldMails } from '../../store/people/mails.ts'
import { deleteExpiredSecrets } from '../../store/people/one-time-secrets.ts'
import { findProject } from '../../store/projects/projects.ts'
import { findAgent, findServerAgent, listServerAgents } from '../../store/servers/agents.ts'
import { deleteOldJoinTokens, findServer } from '../../store/servers/servers.ts'
import { deleteOldSshCertificates } from '../../store/ssh/certificates.ts'
import { trimAudit } from '../core/audit-check.ts'
import { forgetOldRequests } from '../core/idempotency.ts'
import { agentTopic, change, emitTask } from '../core/transaction.ts'
import { decideOpenDeliveries } from '../forges/delivery-queue.ts'
import { forgetDeliveries } from '../forges/webhook-deliveries.ts'
import { sweepSignIns } from '../people/sign-in.ts'
import { hasSession, inStartGrace } from '../servers/servers.ts'
import { loseAttempt } from '../servers/sessions.ts'
import { expireLogs } from './logs.ts'
import { startDueActions } from './schedules.ts'
import { offlineDeadline } from './tasks.ts'

export async function passDeadlines(ctx: Context): Promise<void> {
  await each(ctx, [
    failUnsentTasks,
    watchAttempts,
    giveUpLogs,
    startDueActions,
    decideOpenDeliveries,
  ])
}

/** Runs them one after the other; the next tick retries a failed one, and the others still run. */
async function each(
  ctx: Context,
  works: readonly ((ctx: Context) => Promise<unknown>)[],
): Promise<void> {
  for (const work of works) {
    await work(ctx).catch((error: unknown) =>
      ctx.log.error({ err: error, work: work.name }, 'what time changes could not be done'),
    )
  }
}

/** Safe, because a task without an attempt was never sent. Destroy tasks have no deadline. */
async function failUnsentTasks(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  if (now < ctx.startedAt + TASKS.serverOfflineMs) return // no server can be offline that long
  const waiting = await listNeverSent(ctx.db, now - TASKS.serverOfflineMs)
  const unsent = waiting.filter((task) => task.type !== 'destroy')
  const agents = await listServerAgents(ctx.db, [...new Set(unsent.map((task) => task.serverId))])
  const due = unsent.filter((task) => {
    const agent = agents.get(task.serverId)
    return !hasSession(agent) && now >= offlineDeadline(ctx, task, agent)
  })
  await each(
    ctx,
    due.map((task) => () => failUnsent(ctx, task)),
  )
}

async function failUnsent(ctx: Context, task: UnsentTask): Promise<void> {
  if (hasSession(await findServerAgent(ctx.db, task.serverId))) return // it has just returned
  const server = await findServer(ctx.db, task.serverId)
  const message =
    `${server?.name ?? 'The server'} was offline for 15 minutes. ` +
    'Start berth-agent there, then deploy again.'
  await change(ctx, async (c) => {
    await lockTask(c.db, task.id)
    if ((await listTaskAttempts(c.db, task.id)).length > 0) return // sent since it was listed
    const failure = JSON.stringify(describeFailure({ code: 'server_offline', message }))
    if (!(await moveTask(c.db, task.id, 'failed', { finishedAt: c.now, failure }))) return
    await emitTask(c, task, 'task.failed', { code: 'server_offline' })
  })
}

async function watchAttempts(ctx: Context): Promise<void> {
  const live = await listLiveAttempts(ctx.db)
  await each(
    ctx,
    live.map((attempt) => () => watchAttempt(ctx, attempt)),
  )
}

async function watchAttempt(ctx: Context, attempt: Attempt): Promise<void> {
  const now = ctx.clock.now()
  const agent = await findAgent(ctx.db, attempt.agentId)
  if (hasSession(agent)) {
    if (attempt.desired === Desired.RUNNING && (await isOverdue(ctx, attempt, now))) {
      // a backstop for the runner's own timeout; it only asks the agent to stop
      await change(ctx, async (c) => {
        await stopAttempt(c.db, attempt.id)
        c.notify(agentTopic(attempt.agentId))
      })
    }
    return
  }
  if (inStartGrace(ctx)) return
  if (attempt.unreachableSince === null) {
    await updateReachability(ctx.db, [attempt.agentId], now)
    return
  }
  const task = await findTask(ctx.db, attempt.taskId)
  const project = task && (await findProject(ctx.db, task.projectId))
  const silent = now - Math.max(attempt.unreachableSince, ctx.startedAt)
  const lostAfterMs = project?.lostAfterMs ?? TASKS.lostAfterMs
  if (silent < lostAfterMs) return
  const minutes = Math.round(lostAfterMs / 60_000)
  const message =
    `Nothing was heard of the server for ${minutes} min. What became of the deployment is not known; ` +
    'its end will be shown when the server returns.'
  await change(ctx, async (c) => {
    if (hasSession(await findAgent(c.db, attempt.agentId))) return // it has just returned
    await loseAttempt(ctx, c, attempt, FailureCode.AGENT_LOST, message)
  })
}

/** Waiting for a build slot does not count, as on the server. */
async function isOverdue(ctx: Context, attempt: Attempt, now: number): Promise<boolean> {
  if (attempt.startedAt === null || attempt.waitingSince !== null) return false
  const ranMs = now - attempt.startedAt - attempt.waitedMs
  if (ranMs <= TASKS.timeoutMs + TASKS.backstopMs) return false
  const task = await findTask(ctx.db, attempt.taskId)
  const server = task && (await findServer(ctx.db, task.serverId))
  return ranMs > taskTimeoutMs(task?.type ?? 'deploy', server?.settings) + TASKS.backstopMs
}

/** After a day an incomplete log counts as truncated, so that the agent may forget the attempt. */
async function giveUpLogs(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  for (const attempt of await listIncompleteLogs(ctx.db, now - LOGS.completeMs)) {
    await change(ctx, async (c) => {
      await updateAttempt(c.db, attempt.id, {
        logCompleteAt: now,
        logTruncated: 1,
        desired: Desired.FORGOTTEN,
      })
      c.notify(agentTopic(attempt.agentId))
    })
  }
}

/** SQLite has none. */
const forgetAgentWakes = async ({ db, replicas }: Context): Promise<void> => {
  if (!replicas.isAlone) await deleteOldAgentWakes(db, REPLICAS.wakesKeptMs)
}

/** Once an hour, deletes rows past their retention. */
export async function sweep(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  await each(ctx, [
    ({ db }) => deleteOldEvents(db, now - Math.min(EVENTS.keptMs, LIVE.keptMs)),
    ({ db }) => deleteOldJoinTokens(db, now - 86_400_000),
    ({ db }) => deleteExpiredSecrets(db, now),
    ({ db }) => deleteExpiredCodes(db, now),
    ({ db }) => deleteOldSshCertificates(db, now - SSH.keptMs),
    ({ db }) => deleteOldReports(db, now - COMMIT_STATUSES.keptMs),
    expireLogs,
    ({ db }) => deleteOldRuns(db, now - SCHEDULES.keptMs),
    ({ db }) => deleteOldArtifacts(db, now - ARTIFACTS.rememberedMs),
    sweepSignIns,
    trimAudit,
    forgetOldRequests,
    ({ db }) => deleteOldMails(db, now - MAIL.keptMs),
    ({ db }) => deleteOldAlerts(db, now - ALERTS.keptMs),
    ({ db }) =>
      deleteOldNotices(db, { before: now - NOTICES.keptMs, keep: NOTICES.keptPerChannel }),
    forgetDeliveries,
    forgetAgentWakes,
  ])
}
