// Another data key for an organization, or for the installation itself. The new one seals from the moment its row is
// committed; what others sealed is sealed again in the background, a few values a second, each only if nobody wrote
// another one since. What is left to do is read from the values themselves, so a kill at any point loses nothing. A key
// that opens nothing any more goes an hour after it was retired: by then no request that began before still writes.
import { AppError, SECRET_STORE } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type DataKey, SecretStoreError } from '../../keys/secret-store.ts'
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

/** The new key; the former one goes by itself. `null` is the installation's own. */
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
  openDataKey(ctx.secretStore, made)
  return made
}

/** Not readable at its place: a token for a host that the project has left. It is worth nothing to anybody. */
function sealAgain(
  ctx: Context,
  kind: EncryptedColumn,
  row: SealedRow,
  organizationId: number | null,
): string | undefined {
  const place = kind.placeOf(row, organizationId ?? 0)
  try {
    const plain = ctx.secretStore.open(kind.label, place, row.sealed)
    const sealed = ctx.secretStore.seal(kind.label, place, plain)
    plain.fill(0)
    return sealed
  } catch (error) {
    if (error instanceof SecretStoreError) return undefined
    throw error
  }
}

/** Some of what other keys of the same owner sealed; true: nothing is left to do. */
async function rewriteSome(ctx: Context, key: DataKey): Promise<boolean> {
  let isDone = true
  for (const kind of kindsOf(key.organizationId)) {
    await change(ctx, async (c) => {
      const rows = await listSealedByOthers(c.db, kind, key, SECRET_STORE.rewrittenAtOnce)
      for (const row of rows) {
        const sealed = sealAgain(ctx, kind, row, key.organizationId)
        if (sealed === undefined) continue
        isDone = false
        await replaceSealed(c.db, kind, row, sealed)
      }
    })
  }
  return isDone
}

/** Called again and again; without a retired key it costs nothing. */
export async function continueKeyRotations(ctx: Context): Promise<void> {
  const retired = ctx.secretStore.listRetired()
  for (const organizationId of new Set(retired.map((key) => key.organizationId))) {
    const key = ctx.secretStore.findDataKey(organizationId)
    if (!key || !(await rewriteSome(ctx, key))) continue
    await dropRetired(ctx, key)
  }
}

/** Never the one that seals here, whatever its row says. */
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
