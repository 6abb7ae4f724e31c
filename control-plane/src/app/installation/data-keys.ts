// One data key per organization and one for the installation: created, opened at start, and rewrapped when the KEK was
// replaced. A key's row is committed before the key encrypts anything. Each row is rewrapped on its own, so after a
// kill the next start continues. data-key-rotation.ts replaces a data key.
import { createSecretKey, randomBytes } from 'node:crypto'
import type { Context } from '../../context.ts'
import { type Place, SecretStore } from '../../keys/secret-store.ts'
import { SECRET_STORE } from '../../limits/keys.ts'
import type { Db } from '../../store/engine/db.ts'
import {
  insertOrganizationKey,
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
export function openDataKey(secretStore: SecretStore, row: OrganizationKey): void {
  const { id, organizationId } = row
  const bytes = Buffer.from(secretStore.open('data-key', placeOf(organizationId), row.wrapped))
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
  for (const row of await listDataKeys(db)) openDataKey(secretStore, row)
  for (const organizationId of [null, ...(await listOrganizationIds(db))]) {
    if (secretStore.findDataKey(organizationId)) continue
    openDataKey(secretStore, await makeDataKey(db, secretStore, organizationId, now))
  }
  return wrappedAgain
}

/** Rewraps every key of a former KEK; values stay as they are. Resumable at any point. */
async function rotateKek(db: Db, secretStore: SecretStore): Promise<number> {
  let count = 0
  for (const row of await listDataKeys(db)) {
    if (secretStore.isWrappedNow(row.wrapped)) continue
    const place = placeOf(row.organizationId)
    const bytes = secretStore.open('data-key', place, row.wrapped)
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
  openDataKey(secretStore, await makeDataKey(db, secretStore, organizationId, clock.now()))
}
