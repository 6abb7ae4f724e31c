// Turns rows of backups, their settings and their storage into the documented fields. Keys have no field.
import type { Backup, BackupSettings, BackupStorage } from '@berth/shared/api'
import type { BackupSettingsView } from '../../app/environments/backup-settings.ts'
import type { StorageView } from '../../app/environments/backup-storage.ts'
import type { Backup as StoredBackup } from '../../store/environments/backups.ts'
import { serializeSchedule } from './action.ts'
import { time, timeOrNull } from './fields.ts'

function statusOf({ parts, taskStatus }: StoredBackup): Backup['status'] {
  if (parts !== null) return 'complete'
  return taskStatus === 'queued' || taskStatus === 'running' ? 'creating' : 'failed'
}

export const serializeBackup = (backup: StoredBackup): Backup => ({
  id: backup.id,
  uuid: backup.uuid,
  project_id: backup.projectId,
  environment_id: backup.environmentId,
  environment: backup.identifier,
  server_id: backup.serverId,
  task_id: backup.taskId,
  status: statusOf(backup),
  place: backup.place,
  location: backup.location || null,
  live: backup.live,
  recipe: backup.recipe,
  commit_sha: backup.commitSha,
  triggered_by: { id: backup.userId, name: backup.triggeredBy },
  size_bytes: backup.sizeBytes,
  content_bytes: backup.contentBytes,
  parts: (backup.parts ?? []).map((part) => ({
    file: part.file,
    kind: part.kind,
    name: part.name,
    size_bytes: part.sizeBytes,
    content_bytes: part.contentBytes,
    sha256: part.sha256,
  })),
  created_at: time(backup.createdAt),
  completed_at: timeOrNull(backup.completedAt),
})

export const serializeBackupSettings = (view: BackupSettingsView): BackupSettings => ({
  schedule: view.schedule && serializeSchedule(view.schedule),
  keep_count: view.keepCount,
  keep_days: view.keepDays,
  place: view.place,
})

export const serializeStorage = (view: StorageView): BackupStorage => ({
  endpoint: view.endpoint,
  region: view.region,
  bucket: view.bucket,
  prefix: view.prefix,
  access_key_id: view.accessKeyId,
  recipient: view.recipient,
  updated_at: time(view.updatedAt),
  updated_by: { id: view.updatedBy, name: view.updatedByName },
})
