// One data key an organization, and one for the installation itself: made, opened at start, wrapped again when the KEK
// was replaced. A key is in its committed row before it seals anything. Each row is wrapped again by itself, so a kill
// in the middle leaves rows of both KEKs, and the next start goes on. Another data key for an organization:
// data-key-rotation.ts.
import { createSecretKey, randomBytes } from 'node:crypto'
import { CUSTODY } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Custody, Place } from '../../keys/secret-store.ts'
import type { Db } from '../../store/engine/database.ts'
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
export function openDataKey(custody: Custody, row: OrganizationKey): void {
  const { id, organizationId } = row
  const bytes = Buffer.from(custody.open('data-key', placeOf(organizationId), row.wrapped))
  const key = createSecretKey(bytes)
  bytes.fill(0)
  custody.addDataKey({ id, organizationId, key }, { retired: row.retiredAt !== null })
}

/** The row in use afterwards: another's, when two made it at once. */
export async function makeDataKey(
  db: Db,
  custody: Custody,
  organizationId: number | null,
  now: number,
): Promise<OrganizationKey> {
  const bytes = randomBytes(CUSTODY.kekBytes)
  const wrapped = custody.wrap(placeOf(organizationId), bytes)
  bytes.fill(0)
  return insertOrganizationKey(db, { organizationId, purpose: 'data', wrapped, createdAt: now })
}

/** On start: every key is opened, each organization has one. Gives how many were wrapped with a newer KEK. */
export async function openDataKeys(db: Db, custody: Custody, now: number): Promise<number> {
  const wrappedAgain = await rotateKek(db, custody)
  for (const row of await listDataKeys(db)) openDataKey(custody, row)
  for (const organizationId of [null, ...(await listOrganizationIds(db))]) {
    if (custody.findDataKey(organizationId)) continue
    openDataKey(custody, await makeDataKey(db, custody, organizationId, now))
  }
  return wrappedAgain
}

/** Whatever a former KEK wrapped is wrapped with the present one; values are not touched. Resumable at any point. */
export async function rotateKek(db: Db, custody: Custody): Promise<number> {
  let count = 0
  for (const row of await listDataKeys(db)) {
    if (custody.isWrappedNow(row.wrapped)) continue
    const place = placeOf(row.organizationId)
    const bytes = custody.open('data-key', place, row.wrapped)
    await updateWrapped(db, row, custody.wrap(place, bytes))
    bytes.fill(0)
    count += 1
  }
  return count
}

/** Before anything of an organization is sealed for the first time. */
export async function ensureDataKey(ctx: Context, organizationId: number): Promise<void> {
  const { custody, db, clock } = ctx
  if (custody.findDataKey(organizationId)) return
  openDataKey(custody, await makeDataKey(db, custody, organizationId, clock.now()))
}
