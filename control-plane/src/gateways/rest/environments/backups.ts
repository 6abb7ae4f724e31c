// Backups of the data of environments: list, make, restore; their settings; the storage of an organization.
import {
  Backup,
  BackupCreate,
  BackupRestore,
  BackupSettings,
  BackupSettingsPatch,
  BackupStorage,
  BackupStoragePut,
  IdParams,
  ScheduledRun,
  Task,
} from '@berth/shared/api'
import { z } from 'zod'
import { loadBackup } from '../../../app/core/access.ts'
import {
  getBackupSettings,
  listBackupRuns,
  patchBackupSettings,
} from '../../../app/environments/backup-settings.ts'
import { getStorage, putStorage, removeStorage } from '../../../app/environments/backup-storage.ts'
import {
  listAllBackups,
  listEnvironmentBackups,
  requestBackup,
  requestRestore,
} from '../../../app/environments/backups.ts'
import type { Context } from '../../../context.ts'
import { serializeRun } from '../../serializers/action.ts'
import {
  serializeBackup,
  serializeBackupSettings,
  serializeStorage,
} from '../../serializers/backup.ts'
import { serializeWholeTask } from '../deployments/environment-tasks.ts'
import { type Api, callerOf } from '../http/api.ts'
import { triggerOf } from '../http/triggers.ts'

const QUEUE_ERRORS = [
  'environment_protected',
  'deployment_in_progress',
  'too_many_tasks',
  'not_deployed',
  'environment_removing',
  'project_deleting',
  'server_not_ready',
  'validation_failed',
] as const

export function backupRoutes(api: Api, ctx: Context): void {
  listRoutes(api, ctx)
  taskRoutes(api, ctx)
  settingsRoutes(api, ctx)
  storageRoutes(api, ctx)
}

function listRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/backups',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Backups of the data of an environment, newest first',
        params: IdParams,
        response: { 200: z.array(Backup) },
      },
    },
    async (request) =>
      (await listEnvironmentBackups(ctx, callerOf(request), request.params.id)).map(
        serializeBackup,
      ),
  )
  api.get(
    '/api/projects/:id/backups',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Backups of all environments of a project, also in a bucket of removed ones',
        params: IdParams,
        response: { 200: z.array(Backup) },
      },
    },
    async (request) =>
      (await listAllBackups(ctx, callerOf(request), request.params.id)).map(serializeBackup),
  )
  api.get(
    '/api/backups/:id',
    {
      config: { needs: 'read' },
      schema: { summary: 'A backup', params: IdParams, response: { 200: Backup } },
    },
    async (request) =>
      serializeBackup(await loadBackup(ctx.db, callerOf(request), request.params.id, 'read')),
  )
}

function taskRoutes(api: Api, ctx: Context): void {
  api.post(
    '/api/environments/:id/backups',
    {
      config: {
        needs: 'deploy',
        policy: 'deploy',
        errors: [...QUEUE_ERRORS, 'backup_storage_missing'],
      },
      schema: {
        summary: 'Back up the data of an environment',
        params: IdParams,
        body: BackupCreate.nullish(),
        response: { 201: Task },
      },
    },
    async (request, reply) => {
      const asked = request.body ?? {}
      const caller = callerOf(request)
      const view = await requestBackup(ctx, caller, request.params.id, asked, triggerOf(request))
      return reply
        .code(201)
        .header('location', `/api/tasks/${view.task.id}`)
        .send(await serializeWholeTask(ctx, view))
    },
  )
  api.post(
    '/api/backups/:id/restore',
    {
      config: {
        needs: 'deploy',
        policy: 'deploy',
        errors: [...QUEUE_ERRORS, 'backup_not_restorable', 'confirmation_required'],
      },
      schema: {
        summary: 'Replace the data of an environment by that of a backup',
        params: IdParams,
        body: BackupRestore.nullish(),
        response: { 201: Task },
      },
    },
    async (request, reply) => {
      const asked = request.body ?? {}
      const caller = callerOf(request)
      const view = await requestRestore(ctx, caller, request.params.id, asked, triggerOf(request))
      return reply
        .code(201)
        .header('location', `/api/tasks/${view.task.id}`)
        .send(await serializeWholeTask(ctx, view))
    },
  )
}

function settingsRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/backup-settings',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'When an environment is backed up, where to, and how long backups stay',
        params: IdParams,
        response: { 200: BackupSettings },
      },
    },
    async (request) =>
      serializeBackupSettings(await getBackupSettings(ctx, callerOf(request), request.params.id)),
  )
  api.patch(
    '/api/environments/:id/backup-settings',
    {
      config: {
        needs: 'environment:write',
        errors: ['environment_protected', 'validation_failed'],
      },
      schema: {
        summary: 'Change the schedule and retention of backups',
        params: IdParams,
        body: BackupSettingsPatch,
        response: { 200: BackupSettings },
      },
    },
    async (request) => {
      const { id } = request.params
      const changed = await patchBackupSettings(ctx, callerOf(request), id, request.body)
      return serializeBackupSettings(changed)
    },
  )
  api.get(
    '/api/environments/:id/backup-runs',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'What became of scheduled backups, newest first',
        params: IdParams,
        response: { 200: z.array(ScheduledRun) },
      },
    },
    async (request) =>
      (await listBackupRuns(ctx, callerOf(request), request.params.id)).map(serializeRun),
  )
}

function storageRoutes(api: Api, ctx: Context): void {
  const path = '/api/organizations/:id/backup-storage'
  api.get(
    path,
    {
      config: { needs: 'read' },
      schema: {
        summary: 'The S3-compatible storage of an organization for backups, without its secret key',
        params: IdParams,
        response: { 200: BackupStorage },
      },
    },
    async (request) =>
      serializeStorage(await getStorage(ctx, callerOf(request), request.params.id)),
  )
  api.put(
    path,
    {
      config: { needs: 'project:write', errors: ['validation_failed'] },
      schema: {
        summary: 'Set or replace the storage of an organization for backups',
        params: IdParams,
        body: BackupStoragePut,
        response: { 200: BackupStorage },
      },
    },
    async (request) => {
      const { id } = request.params
      return serializeStorage(await putStorage(ctx, callerOf(request), id, request.body))
    },
  )
  api.delete(
    path,
    {
      config: { needs: 'project:write', errors: ['backup_storage_used'] },
      schema: {
        summary: 'Remove the storage of an organization for backups, and the key of its backups',
        params: IdParams,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      await removeStorage(ctx, callerOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
}
