// Serializes an action to the documented fields.
import type { Action, ScheduledRun } from '@berth/shared/api'
import type { ScheduleView } from '../../app/deployments/schedules.ts'
import type { SyncedAction } from '../../domain/deployments/action.ts'
import type { ScheduledRun as StoredRun } from '../../store/deployments/schedules.ts'
import { time, timeOrNull } from './fields.ts'

const orNull = (text: string): string | null => (text === '' ? null : text)

export const serializeRun = (run: StoredRun): ScheduledRun => ({
  outcome: run.outcome,
  reason: run.reason,
  due_at: time(run.dueAt),
  last_due_at: time(run.lastDueAt),
  runs: run.runs,
  task_id: run.taskId,
  task_status: run.taskStatus,
})

export const serializeSchedule = (schedule: ScheduleView): NonNullable<Action['schedule']> => ({
  cron: schedule.cron,
  timezone: schedule.timezone,
  next_run_at: timeOrNull(schedule.nextRunAt),
  paused_reason: schedule.pausedReason,
  last_run: schedule.lastRun && serializeRun(schedule.lastRun),
})

export const serializeAction = (
  action: SyncedAction,
  syncedAt: number,
  schedule: ScheduleView | undefined,
): Action => ({
  name: action.name,
  title: action.title,
  description: orNull(action.description),
  service: orNull(action.service),
  confirm: orNull(action.confirm),
  timeout_seconds: Math.round(action.timeoutMs / 1_000),
  artifact_paths: action.artifactPaths,
  enabled: action.disabledReason === '',
  disabled_reason: orNull(action.disabledReason),
  schedule: schedule ? serializeSchedule(schedule) : null,
  synced_at: time(syncedAt),
})
