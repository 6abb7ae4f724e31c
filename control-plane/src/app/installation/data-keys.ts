// One data key per organization and one for the installation: created, opened at start, and rewrapped when the KEK was
// replaced. A key's row is committed before the key encrypts anything. Each row is rewrapped on its own, so after a
// kill the next start continues. data-key-rotation.ts replaces a data key.
import { createSecretKey, randomBytes } from 'node:crypto'
import type { Context } from '../../context.ts'
import { type Place, SecretStore } from '../../keys/secret-store.ts'
import { SECRET_STORE } from '../../limits/keys.ts'
import { KEY_REFRESH } from '../../limits/sharing.ts'
import type { Db } from '../../store/engine/db.ts'
import {
  findDataKeyRow,
  insertOrganizationKey,
  listDataKeyIds,
  listDataKeys,
  listOrganizationIds,
  type OrganizationKey,
  updateWrapped,
} from '../../store/installation/organization-keys.ts'

const placeOf = (organizationId: number | null): Place => ({
  table: 'organization_keys',
  column: 'wrapped',
  organizationId,
  rowId: 'data',
})

/** Puts the key into use; its row must be committed. */
export async function openDataKey(secretStore: SecretStore, row: OrganizationKey): Promise<void> {
  const { id, organizationId } = row
  const place = placeOf(organizationId)
  const bytes = Buffer.from(await secretStore.open('data-key', place, row.wrapped))
  const key = createSecretKey(bytes)
  bytes.fill(0)
  secretStore.addDataKey({ id, organizationId, key }, { retired: row.retiredAt !== null })
}

/** Returns the row in use, which is the other one if two processes created it concurrently. */
export async function makeDataKey(
  db: Db,
  secretStore: SecretStore,
  organizationId: number | null,
  now: number,
): Promise<OrganizationKey> {
  const bytes = randomBytes(SECRET_STORE.kekBytes)
  const wrapped = secretStore.wrap(placeOf(organizationId), bytes)
  bytes.fill(0)
  return insertOrganizationKey(db, { organizationId, purpose: 'data', wrapped, createdAt: now })
}

/** At start, opens every key and creates missing ones. Returns how many were rewrapped with a newer KEK. */
export async function openDataKeys(db: Db, secretStore: SecretStore, now: number): Promise<number> {
  const wrappedAgain = await rotateKek(db, secretStore)
  for (const row of await listDataKeys(db)) await openDataKey(secretStore, row)
  for (const organizationId of [null, ...(await listOrganizationIds(db))]) {
    if (secretStore.findDataKey(organizationId)) continue
    await openDataKey(secretStore, await makeDataKey(db, secretStore, organizationId, now))
  }
  return wrappedAgain
}

/** Rewraps every key of a former KEK; values stay as they are. Resumable at any point. */
async function rotateKek(db: Db, secretStore: SecretStore): Promise<number> {
  let count = 0
  for (const row of await listDataKeys(db)) {
    if (secretStore.isWrappedNow(row.wrapped)) continue
    const place = placeOf(row.organizationId)
    const bytes = await secretStore.open('data-key', place, row.wrapped)
    await updateWrapped(db, row, secretStore.wrap(place, bytes))
    bytes.fill(0)
    count += 1
  }
  return count
}

/** The key files that wrapped them; several while one is being replaced. */
export async function listKekIds(db: Db): Promise<string[]> {
  const rows = await listDataKeys(db)
  return [...new Set(rows.map(({ wrapped }) => SecretStore.kekOf(wrapped)))]
}

/** Call this before encrypting the first value of an organization. */
export async function ensureDataKey(ctx: Context, organizationId: number): Promise<void> {
  const { secretStore, db, clock } = ctx
  if (secretStore.findDataKey(organizationId)) return
  await openDataKey(secretStore, await makeDataKey(db, secretStore, organizationId, clock.now()))
}

/**
 * Keeps up with the keys that other control planes make. A value's own key is found when the value is read; the rest is
 * found in the background, long before a retired key is deleted. Returns the function that stops it.
 */
export function shareDataKeys({ db, secretStore, log }: SharingParts): () => Promise<void> {
  secretStore.findMissingWith(async (id) => {
    const row = await findDataKeyRow(db, id)
    if (row) await openDataKey(secretStore, row)
  })
  let running = Promise.resolve()
  const timer = setInterval(() => {
    running = refreshDataKeys({ db, secretStore }).catch((error: unknown) =>
      log.warn({ err: error }, 'data keys of other control planes could not be read'),
    )
  }, KEY_REFRESH.everyMs)
  timer.unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}

type SharingParts = Pick<Context, 'db' | 'secretStore' | 'log'>

/** However long this process was away: opens what others made, and forgets what they deleted. */
export async function refreshDataKeys({
  db,
  secretStore,
}: Pick<Context, 'db' | 'secretStore'>): Promise<void> {
  const retired = secretStore.listRetired() // before the rows are read, or a key that is made meanwhile would be missing
  const ids = new Set(await listDataKeyIds(db))
  for (const id of ids) {
    const row = secretStore.knowsDataKey(id) ? undefined : await findDataKeyRow(db, id)
    if (row) await openDataKey(secretStore, row)
  }
  for (const { id } of retired) if (!ids.has(id)) secretStore.forget(id)
}
