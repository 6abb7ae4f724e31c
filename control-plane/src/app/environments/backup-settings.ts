// When an environment is backed up by itself, where to, and how long backups stay. A setting of the environment and not
// of .service.yml, because one file serves production and previews, and a branch must not end production's backups.
import { invalidFields } from '@berth/shared'
import type { BackupSettingsPatch } from '@berth/shared/api'
import { nextRun, scheduleFault } from '@berth/shared/service-file'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { SCHEDULES } from '../../limits/schedules.ts'
import {
  BACKUP_SCHEDULE,
  deleteSchedule,
  listRuns,
  listSchedules,
  type ScheduledRun,
  saveSchedule,
} from '../../store/deployments/schedules.ts'
import {
  type BackupSettingsRow,
  findBackupSettings,
  findStorage,
  upsertBackupSettings,
} from '../../store/environments/backups.ts'
import { type Environment, lockEnvironment } from '../../store/environments/environments.ts'
import { loadEnvironment, missing, requireUnprotected } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emitEnvironment } from '../core/transaction.ts'
import { backupPause, type ScheduleView } from '../deployments/schedules.ts'
import { DEFAULT_SETTINGS } from './backups.ts'

export interface BackupSettingsView {
  keepCount: number
  keepDays: number | null
  place: BackupSettingsRow['place']
  schedule: ScheduleView | null
}

const RUN = (environmentId: number) => ({ environmentId, action: BACKUP_SCHEDULE })

async function viewOf(ctx: Context, environment: Environment): Promise<BackupSettingsView> {
  const { keepCount, keepDays, place } =
    (await findBackupSettings(ctx.db, environment.id)) ?? DEFAULT_SETTINGS
  const rows = await listSchedules(ctx.db, environment.id)
  const row = rows.find(({ action }) => action === BACKUP_SCHEDULE)
  if (!row) return { keepCount, keepDays, place, schedule: null }
  const pausedReason = backupPause(environment, row.problem)
  const [lastRun = null] = await listRuns(ctx.db, RUN(environment.id), 1)
  const { cron, timezone } = row
  const nextRunAt = pausedReason === null ? row.nextRunAt : null
  const schedule = { cron, timezone, nextRunAt, pausedReason, lastRun }
  return { keepCount, keepDays, place, schedule }
}

export async function getBackupSettings(
  ctx: Context,
  caller: Caller,
  environmentId: number,
): Promise<BackupSettingsView> {
  return viewOf(ctx, await loadEnvironment(ctx.db, caller, environmentId, 'read'))
}

/** Newest first. */
export async function listBackupRuns(
  ctx: Context,
  caller: Caller,
  environmentId: number,
): Promise<ScheduledRun[]> {
  await loadEnvironment(ctx.db, caller, environmentId, 'read')
  return listRuns(ctx.db, RUN(environmentId), SCHEDULES.keptRuns)
}

export async function patchBackupSettings(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: BackupSettingsPatch,
): Promise<BackupSettingsView> {
  await loadEnvironment(ctx.db, caller, environmentId, 'environment:write')
  const changed = await change(ctx, async (c) => {
    const environment = await lockEnvironment(c.db, environmentId)
    if (!environment) throw missing()
    await requireUnprotected(c.db, caller, environment)
    const before = (await findBackupSettings(c.db, environmentId)) ?? DEFAULT_SETTINGS
    const row = {
      environmentId,
      keepCount: asked.keep_count ?? before.keepCount,
      keepDays: asked.keep_days === undefined ? before.keepDays : asked.keep_days,
      place: asked.place ?? before.place,
      updatedAt: c.now,
      updatedBy: caller.userId,
    }
    if (row.place === 'bucket' && !(await findStorage(c.db, environment.organizationId))) {
      const message = 'needs storage of the organization; an administrator adds it first'
      throw invalidFields([{ field: 'place', code: 'invalid_value', message }])
    }
    await upsertBackupSettings(c.db, row)
    await setSchedule(c, environmentId, asked.schedule)
    const subject: [string, number] = ['environment', environmentId]
    const { organizationId } = environment
    await auditCaller(c, caller, organizationId, 'environment.backup_settings', subject, {
      ...asked,
    })
    emitEnvironment(c, environment, 'environment.updated')
    return environment
  })
  return viewOf(ctx, changed)
}

async function setSchedule(
  c: Change,
  environmentId: number,
  asked: BackupSettingsPatch['schedule'],
): Promise<void> {
  if (asked === undefined) return
  if (asked === null) return deleteSchedule(c.db, environmentId, BACKUP_SCHEDULE)
  const schedule = { cron: asked.cron, timezone: asked.timezone ?? 'UTC' }
  const fault = scheduleFault(schedule)
  if (fault !== undefined) {
    throw invalidFields([{ field: 'schedule', code: 'invalid_value', message: fault }])
  }
  const nextRunAt = nextRun(schedule, c.now)
  const row = { environmentId, action: BACKUP_SCHEDULE, ...schedule, nextRunAt, problem: null }
  await saveSchedule(c.db, row)
}
