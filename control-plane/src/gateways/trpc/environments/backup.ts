// Backups of the data of environments: list, make, restore; their settings; the storage of an organization.
import {
  BackupCreate,
  BackupRestore,
  BackupSettingsPatch,
  BackupStoragePut,
  Id,
} from '@berth/shared/api'
import { z } from 'zod'
import {
  getBackupSettings,
  patchBackupSettings,
} from '../../../app/environments/backup-settings.ts'
import {
  findStorageView,
  putStorage,
  removeStorage,
} from '../../../app/environments/backup-storage.ts'
import {
  listEnvironmentBackups,
  requestBackup,
  requestRestore,
} from '../../../app/environments/backups.ts'
import {
  serializeBackup,
  serializeBackupSettings,
  serializeStorage,
} from '../../serializers/backup.ts'
import { serializeWholeTask } from '../../serializers/dashboard.ts'
import { call, router } from '../base.ts'

const BY = 'dashboard'
const One = z.strictObject({ environment_id: Id })
const Organization = z.strictObject({ organization_id: Id })

export const backupRouter = router({
  list: call.input(One).query(async ({ ctx: { ctx, caller }, input }) => {
    const backups = await listEnvironmentBackups(ctx, caller, input.environment_id)
    return { backups: backups.map(serializeBackup) }
  }),
  create: call
    .meta({ policy: 'deploy' })
    .input(z.strictObject({ environment_id: Id, ...BackupCreate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, ...asked } = input
      return serializeWholeTask(ctx, await requestBackup(ctx, caller, id, asked, BY))
    }),
  restore: call
    .meta({ policy: 'deploy' })
    .input(z.strictObject({ backup_id: Id, ...BackupRestore.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { backup_id: id, ...asked } = input
      return serializeWholeTask(ctx, await requestRestore(ctx, caller, id, asked, BY))
    }),
  settings: call
    .input(One)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeBackupSettings(await getBackupSettings(ctx, caller, input.environment_id)),
    ),
  updateSettings: call
    .input(z.strictObject({ environment_id: Id, ...BackupSettingsPatch.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, ...asked } = input
      return serializeBackupSettings(await patchBackupSettings(ctx, caller, id, asked))
    }),
  storage: call.input(Organization).query(async ({ ctx: { ctx, caller }, input }) => {
    const view = await findStorageView(ctx, caller, input.organization_id)
    return { storage: view ? serializeStorage(view) : null }
  }),
  setStorage: call
    .input(z.strictObject({ organization_id: Id, ...BackupStoragePut.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { organization_id: id, ...given } = input
      return serializeStorage(await putStorage(ctx, caller, id, given))
    }),
  removeStorage: call.input(Organization).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await removeStorage(ctx, caller, input.organization_id)
    return null
  }),
})
