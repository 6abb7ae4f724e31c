// Backups of the data of environments (volumes, shared folder, output of backup commands), their settings and storage.
import { z } from 'zod'
import { SERVICE_FILE, VOLUME_BACKUPS } from '../limits/limits.ts'
import { RECIPES } from '../task.ts'
import { ScheduledRun } from './action.ts'
import { Id, Person, Time } from './fields.ts'

export const BACKUP_PLACES = ['server', 'bucket'] as const
export const BACKUP_STATUSES = ['creating', 'complete', 'failed'] as const

const BackupPart = z.object({
  file: z.string(),
  kind: z.enum(['volume', 'folder', 'command']),
  /** The volume, or the service whose command wrote it. */
  name: z.string(),
  size_bytes: z.int(),
  /** Before compression. */
  content_bytes: z.int(),
  sha256: z.string(),
})

export const Backup = z.object({
  id: Id,
  /** Its name on the server's disk and in the bucket. */
  uuid: z.string(),
  project_id: Id,
  environment_id: Id,
  environment: z.string(),
  server_id: Id,
  /** The task that made it, with its log. */
  task_id: Id,
  status: z.enum(BACKUP_STATUSES),
  place: z.enum(BACKUP_PLACES),
  /** s3://bucket/folder; null: on the disk of the server. */
  location: z.string().nullable(),
  /** Services ran while their data was archived. */
  live: z.boolean(),
  recipe: z.enum(RECIPES),
  commit_sha: z.string().nullable(),
  triggered_by: Person,
  size_bytes: z.int(),
  content_bytes: z.int(),
  parts: z.array(BackupPart),
  created_at: Time,
  completed_at: Time.nullable(),
})
export type Backup = z.infer<typeof Backup>

export const BackupCreate = z.strictObject({
  /** Do not pause services while their volumes are archived. */
  live: z.boolean().optional(),
  /** Default: as the settings of the environment say. */
  place: z.enum(BACKUP_PLACES).optional(),
  message: z.string().trim().max(500).nullable().optional(),
})
export type BackupCreate = z.infer<typeof BackupCreate>

export const BackupRestore = z.strictObject({
  /** Another environment of the project; default: the one that it was made of. */
  environment_id: Id.optional(),
  /** The identifier of the environment whose data is replaced; a protected one needs it. */
  confirm: z.string().max(64).optional(),
  message: z.string().trim().max(500).nullable().optional(),
})
export type BackupRestore = z.infer<typeof BackupRestore>

export const BackupSettings = z.object({
  schedule: z
    .object({
      cron: z.string(),
      timezone: z.string(),
      /** Null while it is paused. */
      next_run_at: Time.nullable(),
      paused_reason: z.string().nullable(),
      last_run: ScheduledRun.nullable(),
    })
    .nullable(),
  keep_count: z.int(),
  /** Null: any age. */
  keep_days: z.int().nullable(),
  place: z.enum(BACKUP_PLACES),
})
export type BackupSettings = z.infer<typeof BackupSettings>

/** Absent fields stay as they are. */
export const BackupSettingsPatch = z.strictObject({
  schedule: z
    .strictObject({
      cron: z.string().max(SERVICE_FILE.cronCharacters),
      timezone: z.string().max(SERVICE_FILE.timezoneCharacters).optional(),
    })
    .nullable()
    .optional(),
  keep_count: z.int().min(1).max(VOLUME_BACKUPS.keepCountMost).optional(),
  keep_days: z.int().min(1).max(VOLUME_BACKUPS.keepDaysMost).nullable().optional(),
  place: z.enum(BACKUP_PLACES).optional(),
})
export type BackupSettingsPatch = z.infer<typeof BackupSettingsPatch>

export const BackupStorage = z.object({
  endpoint: z.string(),
  region: z.string(),
  bucket: z.string(),
  prefix: z.string(),
  access_key_id: z.string(),
  /** Backups are encrypted for this public key of age; the control plane keeps the secret one. */
  recipient: z.string(),
  updated_at: Time,
  updated_by: Person,
})
export type BackupStorage = z.infer<typeof BackupStorage>

const word = z.string().min(1).max(VOLUME_BACKUPS.keyCharacters)
export const BackupStoragePut = z.strictObject({
  endpoint: z.url({ protocol: /^https?$/ }).max(VOLUME_BACKUPS.endpointCharacters),
  region: word.default('us-east-1'),
  bucket: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket'),
  prefix: z
    .string()
    .max(VOLUME_BACKUPS.prefixCharacters)
    .regex(/^(?:[\w.-]+(?:\/[\w.-]+)*)?$/, 'must be a folder such as berth/backups')
    .default(''),
  access_key_id: word,
  secret_access_key: word,
})
export type BackupStoragePut = z.infer<typeof BackupStoragePut>
