// Stores issued SSH certificates: one row each, written before it is signed. Of the key only its fingerprint is stored.
import type { SshVerb } from '@berth/shared'
import type { Permission } from '@berth/shared/api'
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { SshCertificatesTable } from '../schema.ts'

export interface SshCertificateRow extends Omit<Selectable<SshCertificatesTable>, 'can'> {
  can: SshVerb[]
}
export interface ListedSshCertificate extends SshCertificateRow {
  holderName: string
  revokerName: string | null
}

type Row = Selectable<SshCertificatesTable>
const toCertificate = <T extends Row>(row: T): Omit<T, 'can'> & { can: SshVerb[] } => ({
  ...row,
  can: JSON.parse(row.can) as SshVerb[],
})

export async function insertSshCertificate(
  db: Db,
  row: Omit<Insertable<SshCertificatesTable>, 'can'> & { can: SshVerb[] },
): Promise<SshCertificateRow> {
  const made = await db
    .insertInto('sshCertificates')
    .values({ ...row, can: JSON.stringify(row.can) })
    .returningAll()
    .executeTakeFirstOrThrow()
  return toCertificate(made)
}

/** Returns false if it was revoked before it was signed. */
export async function markSshCertificateSigned(db: Db, id: number, now: number): Promise<boolean> {
  const result = await db
    .updateTable('sshCertificates')
    .set({ signedAt: now })
    .where('id', '=', id)
    .where('revokedAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

const listing = (db: Db, serverId: number) =>
  db
    .selectFrom('sshCertificates')
    .innerJoin('users as holder', 'holder.id', 'sshCertificates.userId')
    .leftJoin('users as revoker', 'revoker.id', 'sshCertificates.revokedBy')
    .selectAll('sshCertificates')
    .select(['holder.name as holderName', 'revoker.name as revokerName'])
    .where('sshCertificates.serverId', '=', serverId)

/** Of one organization; others that share the server have their own. */
export async function listSshCertificates(
  db: Db,
  { serverId, organizationId }: { serverId: number; organizationId: number },
  page: { beforeId: number | undefined; limit: number },
): Promise<ListedSshCertificate[]> {
  let query = listing(db, serverId)
    .where('sshCertificates.organizationId', '=', organizationId)
    .orderBy('sshCertificates.id', 'desc')
    .limit(page.limit)
  if (page.beforeId !== undefined) query = query.where('sshCertificates.id', '<', page.beforeId)
  return (await query.execute()).map(toCertificate)
}

export async function findSshCertificate(
  db: Db,
  serverId: number,
  serial: string,
): Promise<ListedSshCertificate | undefined> {
  const row = await listing(db, serverId).where('serial', '=', serial).executeTakeFirst()
  return row && toCertificate(row)
}

/** Selects certificates to revoke; every given field must match. */
export interface RevocationScope {
  serial?: string
  serverId?: number
  environmentId?: number
  userId?: number
  organizationId?: number
  /** Only certificates that required one of these permissions. */
  permissions?: readonly Permission[]
  exceptUserId?: number
}

/** Revokes certificates that could still open or hold a session, and returns the affected servers. */
export async function revokeSshCertificates(
  db: Db,
  scope: RevocationScope,
  by: { now: number; userId: number | null; reason: string },
): Promise<{ serial: string; serverId: number }[]> {
  let query = db
    .updateTable('sshCertificates')
    .set({ revokedAt: by.now, revokedBy: by.userId, revokeReason: by.reason })
    .where('revokedAt', 'is', null)
    .where('sessionUntil', '>', by.now)
  const { exceptUserId, permissions, ...exact } = scope
  if (permissions?.length === 0) return []
  if (Object.values(exact).every((value) => value === undefined))
    throw new Error('A revocation names whose certificates it means.')
  for (const [column, value] of Object.entries(exact)) {
    if (value !== undefined) query = query.where(column as keyof typeof exact, '=', value)
  }
  if (permissions) query = query.where('permission', 'in', permissions)
  if (exceptUserId !== undefined) query = query.where('userId', '!=', exceptUserId)
  return query.returning(['serial', 'serverId']).execute()
}

/**
 * Lists what a server must refuse now, smallest first: revoked serials until the end of the last session that they can
 * have opened. After that they do not matter.
 */
export async function listRevokedSerials(db: Db, serverId: number, now: number): Promise<bigint[]> {
  const rows = await db
    .selectFrom('sshCertificates')
    .select('serial')
    .where('serverId', '=', serverId)
    .where('revokedAt', 'is not', null)
    .where('sessionUntil', '>', now)
    .execute()
  return rows.map((row) => BigInt(row.serial)).toSorted((a, b) => (a < b ? -1 : 1))
}

export async function deleteOldSshCertificates(db: Db, before: number): Promise<void> {
  await db.deleteFrom('sshCertificates').where('sessionUntil', '<', before).execute()
}
