// Rotates the data key of an organization or of the installation. The new key encrypts as soon as its row is committed;
// a background job re-encrypts older values, a few a second, each only if it did not change meanwhile. The values
// themselves show what is left, so a kill loses nothing. An unused key is deleted an hour after it was retired, when no
// earlier request still writes.
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type DataKey, SecretStoreError } from '../../keys/secret-store.ts'
import { SECRET_STORE } from '../../limits/keys.ts'
import {
  deleteRetiredKey,
  findOrganizationKey,
  listDataKeys,
  type OrganizationKey,
  retireOrganizationKey,
} from '../../store/installation/organization-keys.ts'
import {
  listSealedByOthers,
  replaceSealed,
  type SealedRow,
} from '../../store/installation/sealed-values.ts'
import { requirePlatformAdmin } from '../core/access.ts'
import { audit, BERTH, byCaller } from '../core/audit.ts'
import { change } from '../core/transaction.ts'
import { makeDataKey, openDataKey } from './data-keys.ts'
import { type EncryptedColumn, kindsOf } from './encrypted-columns.ts'

export async function listKeys(ctx: Context, caller: Caller): Promise<OrganizationKey[]> {
  requirePlatformAdmin(caller)
  return listDataKeys(ctx.db)
}

/** Returns the new key; the former one is removed later. `null` means the installation's own. */
export async function rotateDataKey(
  ctx: Context,
  caller: Caller,
  organizationId: number | null,
): Promise<OrganizationKey> {
  requirePlatformAdmin(caller)
  const made = await change(ctx, async (c) => {
    const former = await findOrganizationKey(c.db, organizationId, 'data')
    if (!former) throw new AppError('not_found', 'There is no organization with this id.')
    await retireOrganizationKey(c.db, former.id, c.now)
    const row = await makeDataKey(c.db, ctx.secretStore, organizationId, c.now)
    const subject = ['data_key', row.id] as [string, number]
    await audit(c, byCaller(caller), organizationId, 'data_key.rotate', subject, {
      former: former.id,
    })
    return row
  })
  await openDataKey(ctx.secretStore, made)
  return made
}

/** Undefined if the value cannot be read: it is a token for a forge that the project has left, and is useless. */
async function sealAgain(
  ctx: Context,
  kind: EncryptedColumn,
  row: SealedRow,
  organizationId: number | null,
): Promise<string | undefined> {
  const place = kind.placeOf(row, organizationId ?? 0)
  try {
    const plain = await ctx.secretStore.open(kind.label, place, row.sealed)
    const sealed = ctx.secretStore.seal(kind.label, place, plain)
    plain.fill(0)
    return sealed
  } catch (error) {
    if (error instanceof SecretStoreError) return undefined
    throw error
  }
}

/** Re-encrypts some values of other keys of the same owner; true if none are left. */
async function rewriteSome(ctx: Context, key: DataKey): Promise<boolean> {
  let isDone = true
  for (const kind of kindsOf(key.organizationId)) {
    await change(ctx, async (c) => {
      const rows = await listSealedByOthers(c.db, kind, key, SECRET_STORE.rewrittenAtOnce)
      for (const row of rows) {
        const sealed = await sealAgain(ctx, kind, row, key.organizationId)
        if (sealed === undefined) continue
        isDone = false
        await replaceSealed(c.db, kind, row, sealed)
      }
    })
  }
  return isDone
}

/** Called periodically; free without a retired key. */
export async function continueKeyRotations(ctx: Context): Promise<void> {
  const retired = ctx.secretStore.listRetired()
  for (const organizationId of new Set(retired.map((key) => key.organizationId))) {
    const key = ctx.secretStore.findDataKey(organizationId)
    if (!key || !(await rewriteSome(ctx, key))) continue
    await dropRetired(ctx, key)
  }
}

/** Never deletes the key in use here, even if its row says it is retired. */
async function dropRetired(ctx: Context, { id, organizationId }: DataKey): Promise<void> {
  const before = ctx.clock.now() - SECRET_STORE.retiredKeptMs
  const rows = (await listDataKeys(ctx.db)).filter(
    (row) =>
      row.organizationId === organizationId &&
      row.id !== id &&
      row.retiredAt !== null &&
      row.retiredAt < before,
  )
  for (const row of rows) {
    await change(ctx, async (c) => {
      await deleteRetiredKey(c.db, row.id)
      await audit(c, BERTH, organizationId, 'data_key.remove', ['data_key', row.id])
    })
    ctx.secretStore.forget(row.id)
  }
}
