// The S3-compatible storage of an organization for backups. Callers can read where it is but only write its secret key.
// The key pair that backups are encrypted with is made once and kept, so that older backups stay readable.
// Only app/environments/values.ts decrypts both.
import { AppError, invalidFields, METADATA_ADDRESSES } from '@berth/shared'
import type { BackupStoragePut } from '@berth/shared/api'
import { makeKeyPair } from '@berth/shared/storage'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  countBucketBackups,
  deleteStorage,
  findSealedStorage,
  findStorage,
  type StorageRow,
  upsertStorage,
} from '../../store/environments/backups.ts'
import { listUserNames } from '../../store/people/people.ts'
import { requirePermission } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change, emit } from '../core/transaction.ts'

/** Bound to the storage, so that a key is never sent to another one. */
export const storageSecretPlace = (
  row: Pick<StorageRow, 'organizationId' | 'endpoint' | 'bucket' | 'accessKeyId'>,
) => ({
  table: 'backup_storages',
  column: 'secret_sealed',
  organizationId: row.organizationId,
  rowId: `${row.endpoint}/${row.bucket}/${row.accessKeyId}`,
})

export const storageIdentityPlace = (row: Pick<StorageRow, 'organizationId' | 'recipient'>) => ({
  table: 'backup_storages',
  column: 'identity_sealed',
  organizationId: row.organizationId,
  rowId: row.recipient,
})

export interface StorageView extends StorageRow {
  updatedByName: string
}

async function viewOf(ctx: Context, row: StorageRow): Promise<StorageView> {
  const names = await listUserNames(ctx.db, [row.updatedBy])
  return { ...row, updatedByName: names.get(row.updatedBy) ?? '' }
}

const none = (): AppError =>
  new AppError('not_found', 'The organization has no storage for backups.')

export async function findStorageView(
  ctx: Context,
  caller: Caller,
  organizationId: number,
): Promise<StorageView | undefined> {
  requirePermission(caller, organizationId, 'read')
  const row = await findStorage(ctx.db, organizationId)
  return row && viewOf(ctx, row)
}

export async function getStorage(
  ctx: Context,
  caller: Caller,
  organizationId: number,
): Promise<StorageView> {
  const view = await findStorageView(ctx, caller, organizationId)
  if (!view) throw none()
  return view
}

/** Servers connect there with credentials; the addresses of clouds that hand out credentials are never storage. */
function readEndpoint(written: string): string {
  const url = new URL(written)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const addresses: readonly string[] = [...METADATA_ADDRESSES.v4, ...METADATA_ADDRESSES.v6]
  const isBare = url.username === '' && url.search === '' && url.hash === ''
  if (isBare && !addresses.includes(host)) return url.href.replace(/\/+$/, '')
  const message = 'must be the address of the storage, such as https://s3.example.com'
  throw invalidFields([{ field: 'endpoint', code: 'invalid_value', message }])
}

export async function putStorage(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  given: BackupStoragePut,
): Promise<StorageView> {
  requirePermission(caller, organizationId, 'project:write')
  const endpoint = readEndpoint(given.endpoint)
  const fresh = await makeKeyPair()
  const row = await change(ctx, async (c) => {
    const before = await findSealedStorage(c.db, organizationId)
    const { region, bucket, prefix, access_key_id: accessKeyId } = given
    const recipient = before?.recipient ?? fresh.recipient
    const shown: StorageRow = {
      organizationId,
      endpoint,
      region,
      bucket,
      prefix,
      accessKeyId,
      recipient,
      updatedAt: c.now,
      updatedBy: caller.userId,
    }
    const { secretStore } = ctx
    const secret = Buffer.from(given.secret_access_key)
    const identity = Buffer.from(fresh.identity)
    await upsertStorage(c.db, {
      ...shown,
      secretSealed: secretStore.seal('backup-storage', storageSecretPlace(shown), secret),
      identitySealed:
        before?.identitySealed ??
        secretStore.seal('backup-storage', storageIdentityPlace(shown), identity),
    })
    const details = { endpoint, bucket, prefix, access_key_id: accessKeyId }
    const subject: [string, number] = ['organization', organizationId]
    await auditCaller(c, caller, organizationId, 'backup_storage.set', subject, details)
    emit(c, { organizationId }, 'organization.updated', {})
    return shown
  })
  return viewOf(ctx, row)
}

/** With it goes the key that opens its backups. */
export async function removeStorage(
  ctx: Context,
  caller: Caller,
  organizationId: number,
): Promise<void> {
  requirePermission(caller, organizationId, 'project:write')
  await change(ctx, async (c) => {
    const used = await countBucketBackups(c.db, organizationId)
    if (used > 0) {
      throw new AppError(
        'backup_storage_used',
        `${used} backups are in this storage, and only its key opens them. Let retention end them first, or change the storage.`,
        { backups: used },
      )
    }
    if (!(await deleteStorage(c.db, organizationId))) throw none()
    const subject: [string, number] = ['organization', organizationId]
    await auditCaller(c, caller, organizationId, 'backup_storage.remove', subject, {})
    emit(c, { organizationId }, 'organization.updated', {})
  })
}
