// Serializes an action to the documented fields.
import type { Action } from '@berth/shared/api'
import type { SyncedAction } from '../../domain/deployments/action.ts'
import { time } from './fields.ts'

const orNull = (text: string): string | null => (text === '' ? null : text)

export const serializeAction = (action: SyncedAction, syncedAt: number): Action => ({
  name: action.name,
  title: action.title,
  description: orNull(action.description),
  service: orNull(action.service),
  confirm: orNull(action.confirm),
  timeout_seconds: Math.round(action.timeoutMs / 1_000),
  artifact_paths: action.artifactPaths,
  enabled: action.disabledReason === '',
  disabled_reason: orNull(action.disabledReason),
  synced_at: time(syncedAt),
})
