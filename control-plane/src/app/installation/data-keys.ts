// One data key an organization, and one for the installation itself: made, opened at start, wrapped again when the KEK
// was replaced. A key is in its committed row before it seals anything. Each row is wrapped again by itself, so a kill
// in the middle leaves rows of both KEKs, and the next start goes on. Another data key for an organization:
// data-key-rotation.ts.
import { createSecretKey, randomBytes } from 'node:crypto'
import { SECRET_STORE } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Place, SecretStore } from '../../keys/secret-store.ts'
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

/** Its row must be committed: from now on it seals. */
export function openDataKey(secretStore: SecretStore, row: OrganizationKey): void {
  const { id, organizationId } = row
  const bytes = Buffer.from(secretStore.open('data-key', placeOf(organizationId), row.wrapped))
  const key = createSecretKey(bytes)
  bytes.fill(0)
  secretStore.addDataKey({ id, organizationId, key }, { retired: row.retiredAt !== null })
}

/** The row in use afterwards: another's, when two made it at once. */
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

/** On start: every key is opened, each organization has one. Gives how many were wrapped with a newer KEK. */
export async function openDataKeys(db: Db, secretStore: SecretStore, now: number): Promise<number> {
  const wrappedAgain = await rotateKek(db, secretStore)
  for (const row of await listDataKeys(db)) openDataKey(secretStore, row)
  for (const organizationId of [null, ...(await listOrganizationIds(db))]) {
    if (secretStore.findDataKey(organizationId)) continue
    openDataKey(secretStore, await makeDataKey(db, secretStore, organizationId, now))
  }
  return wrappedAgain
}

/** Whatever a former KEK wrapped is wrapped with the present one; values are not touched. Resumable at any point. */
export async function rotateKek(db: Db, secretStore: SecretStore): Promise<number> {
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

/** Before anything of an organization is sealed for the first time. */
export async function ensureDataKey(ctx: Context, organizationId: number): Promise<void> {
  const { secretStore, db, clock } = ctx
  if (secretStore.findDataKey(organizationId)) return
  openDataKey(secretStore, await makeDataKey(db, secretStore, organizationId, clock.now()))
}
