// Actions and backups that run by themselves: takes the schedules of actions from a deployment, starts due ones as
// ordinary tasks, and shows when each runs next. The environment is locked first and the due time is claimed in the
// same transaction, so that one process starts a run, once.
import { nextRun, type Schedule, scheduleFault } from '@berth/shared/service-file'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import type { SyncedAction } from '../../domain/deployments/action.ts'
import { decideRun, pauseReason } from '../../domain/deployments/schedule.ts'
import { isStopped, stoppedServices } from '../../domain/environments/observation.ts'
import { SCHEDULES } from '../../limits/schedules.ts'
import { countQueuedActions, findActions } from '../../store/deployments/actions.ts'
import {
  BACKUP_SCHEDULE,
  insertStartedRun,
  listDueSchedules,
  listLastRuns,
  listRuns,
  listSchedules,
  recordUnstarted,
  type ScheduledRun,
  type StoredSchedule,
  saveSchedules,
  takeRun,
  trimRuns,
} from '../../store/deployments/schedules.ts'
import { listUnfinishedTasks } from '../../store/deployments/tasks.ts'
import {
  type Environment,
  findEnvironment,
  lockEnvironment,
} from '../../store/environments/environments.ts'
import { findProject } from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { findServer, type Server } from '../../store/servers/servers.ts'
import { loadEnvironment } from '../core/access.ts'
import { BERTH } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emitEnvironment } from '../core/transaction.ts'
import { queueBackup } from '../environments/backups.ts'
import { hasSession, inStartGrace } from '../servers/servers.ts'
import { queueTask } from './queue.ts'

export interface ScheduleView {
  cron: string
  timezone: string
  /** Null while it is paused. */
  nextRunAt: number | null
  pausedReason: string | null
  lastRun: ScheduledRun | null
}

/** Keeps the due time of an unchanged schedule, so that a deployment neither loses nor repeats a run. */
export async function syncSchedules(
  c: Change,
  environment: Environment,
  wanted: ReadonlyMap<string, Schedule>,
  actions: readonly SyncedAction[],
): Promise<void> {
  const all = await listSchedules(c.db, environment.id)
  const before = all.filter(({ action }) => action !== BACKUP_SCHEDULE)
  const rows = actions.flatMap(({ name, disabledReason }) => {
    const schedule = wanted.get(name)
    if (!schedule || environment.fromFork) return []
    const { cron, timezone } = schedule
    const problem = scheduleFault(schedule) ?? null
    const same = before.find(
      (row) => row.action === name && row.cron === cron && row.timezone === timezone,
    )
    const isOn = problem === null && disabledReason === ''
    const nextRunAt = isOn ? (same?.nextRunAt ?? nextRun(schedule, c.now)) : null
    return [{ environmentId: environment.id, action: name, cron, timezone, nextRunAt, problem }]
  })
  if (rows.length > 0 || before.length > 0) await saveSchedules(c.db, environment.id, rows)
}

/** Each second. A run that fails to start is tried again by the next round, and the others still start. */
export async function startDueActions(ctx: Context): Promise<void> {
  for (const due of await listDueSchedules(ctx.db, ctx.clock.now(), SCHEDULES.batch)) {
    await change(ctx, (c) => settleDue(ctx, c, due)).catch((error: unknown) =>
      ctx.log.error({ err: error, environment: due.environmentId }, 'a schedule was not followed'),
    )
  }
}

async function settleDue(ctx: Context, c: Change, due: StoredSchedule): Promise<void> {
  const environment = await lockEnvironment(c.db, due.environmentId)
  const project = environment && (await findProject(c.db, environment.projectId))
  const server = environment && (await findServer(c.db, environment.serverId))
  const { actions } = await findActions(c.db, due.environmentId)
  const isBackup = due.action === BACKUP_SCHEDULE
  const action = actions.find(({ name }) => name === due.action)
  const isKnown = isBackup || action !== undefined
  if (!environment || !project || !server || !isKnown || due.nextRunAt === null) {
    await takeRun(c.db, due, null)
    return
  }
  const isRemoving = environment.removingAt !== null || project.status === 'deleting'
  const unfinished = await listUnfinishedTasks(c.db, environment.id)
  const open = unfinished.find((task) =>
    isBackup ? task.type === 'backup' : task.type === 'action' && task.action === due.action,
  )
  const decision = decideRun({
    schedule: due,
    dueAt: due.nextRunAt,
    now: c.now,
    identifier: environment.identifier,
    pause: action
      ? pauseOf(environment, action, due.problem)
      : backupPause(environment, due.problem),
    server: await serverFacts(ctx, c, server),
    openTaskId: open?.id ?? null,
    queued: await countQueuedActions(c.db, environment.id),
  })
  if (!(await takeRun(c.db, due, decision.nextRunAt))) return
  if (isRemoving || environment.deployedFence === 0) return
  for (const what of decision.unstarted) {
    await recordUnstarted(c.db, due, what)
    const { outcome, runs } = what
    emitEnvironment(c, environment, 'environment.schedule', { action: due.action, outcome, runs })
  }
  if (decision.startsFor !== null) {
    const by = { by: BERTH, trigger: 'schedule' } as const
    const taskId = isBackup
      ? await queueBackup(c, environment, project, by)
      : await queueTask(c, environment, project, { type: 'action', action: due.action, ...by })
    await insertStartedRun(c.db, due, decision.startsFor, taskId)
  }
  await trimRuns(c.db, due, SCHEDULES.keptRuns)
}

async function serverFacts(ctx: Context, c: Change, server: Server) {
  const agent = await findServerAgent(c.db, server.id)
  const isThere = hasSession(agent) || inStartGrace(ctx)
  return {
    name: server.name,
    isJoined: agent !== undefined,
    isPaused: server.paused,
    offlineSince: isThere ? null : (agent?.disconnectedAt ?? 0),
  }
}

const pauseOf = (
  environment: Environment,
  action: SyncedAction,
  problem: string | null,
): string | null =>
  pauseReason({
    identifier: environment.identifier,
    isRemoving: environment.removingAt !== null,
    isStopped: isStopped(environment),
    stoppedServices: stoppedServices(environment),
    service: action.service,
    disabledReason: action.disabledReason,
    problem,
  })

/** Why the environment is not backed up by itself now. Stopped services have data too, so a stop is no reason. */
export const backupPause = (environment: Environment, problem: string | null): string | null =>
  pauseReason({
    identifier: environment.identifier,
    isRemoving: environment.removingAt !== null,
    isStopped: false,
    stoppedServices: [],
    service: '',
    disabledReason:
      environment.deployedFence === 0 ? `${environment.identifier} was never deployed.` : '',
    problem,
  })

/** The schedules of an environment by the names of their actions; the caller has checked access. */
export async function viewSchedules(
  ctx: Context,
  environmentId: number,
  actions: readonly SyncedAction[],
): Promise<Map<string, ScheduleView>> {
  const rows = await listSchedules(ctx.db, environmentId)
  const environment = rows.length > 0 ? await findEnvironment(ctx.db, environmentId) : undefined
  if (!environment) return new Map()
  const last = await listLastRuns(ctx.db, environmentId)
  return new Map(
    rows.flatMap(({ action: name, cron, timezone, nextRunAt, problem }) => {
      const action = actions.find((one) => one.name === name)
      if (!action) return []
      const pausedReason = pauseOf(environment, action, problem)
      const lastRun = last.get(name) ?? null
      const next = pausedReason === null ? nextRunAt : null
      return [[name, { cron, timezone, nextRunAt: next, pausedReason, lastRun }] as const]
    }),
  )
}

/** Newest first. An action without a schedule has none; one that was removed keeps them for a while. */
export async function listScheduledRuns(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  name: string,
): Promise<ScheduledRun[]> {
  await loadEnvironment(ctx.db, caller, environmentId, 'read')
  return listRuns(ctx.db, { environmentId, action: name }, SCHEDULES.keptRuns)
}
