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

const named = (db: Db) =>
  db
    .selectFrom('sshCertificates')
    .innerJoin('users as holder', 'holder.id', 'sshCertificates.userId')
    .leftJoin('users as revoker', 'revoker.id', 'sshCertificates.revokedBy')
    .selectAll('sshCertificates')
    .select(['holder.name as holderName', 'revoker.name as revokerName'])

const listing = (db: Db, serverId: number) =>
  named(db).where('sshCertificates.serverId', '=', serverId)

export interface LiveSshCertificate extends ListedSshCertificate {
  /** Null: the whole server. */
  environmentName: string | null
  sessions: { verb: string; startedAt: number }[]
}

/**
 * Newest first: those that can still open a session, and those that hold one. `userId`: only this user's; undefined:
 * everyone's.
 */
export async function listLiveSshCertificates(
  db: Db,
  organizationIds: readonly number[],
  userId: number | undefined,
  { now, limit }: { now: number; limit: number },
): Promise<LiveSshCertificate[]> {
  if (organizationIds.length === 0) return []
  let query = named(db)
    .leftJoin('environments as place', 'place.id', 'sshCertificates.environmentId')
    .select('place.identifier as environmentName')
    .where('sshCertificates.organizationId', 'in', organizationIds)
    .where('sshCertificates.sessionUntil', '>', now)
    .where((e) =>
      e.or([
        e.and([
          e('sshCertificates.validBefore', '>', now),
          e('sshCertificates.revokedAt', 'is', null),
          e('sshCertificates.signedAt', 'is not', null),
        ]),
        e.exists(
          e
            .selectFrom('sshSessions')
            .select('sessionId')
            .whereRef('sshSessions.certificateId', '=', 'sshCertificates.id'),
        ),
      ]),
    )
    .orderBy('sshCertificates.id', 'desc')
    .limit(limit)
  if (userId !== undefined) query = query.where('sshCertificates.userId', '=', userId)
  const rows = (await query.execute()).map(toCertificate)
  const sessions = await listSshSessions(
    db,
    rows.map(({ id }) => id),
  )
  return rows.map((row) => ({ ...row, sessions: sessions.get(row.id) ?? [] }))
}

async function listSshSessions(
  db: Db,
  certificateIds: number[],
): Promise<Map<number, { verb: string; startedAt: number }[]>> {
  const found = new Map<number, { verb: string; startedAt: number }[]>()
  if (certificateIds.length === 0) return found
  const rows = await db
    .selectFrom('sshSessions')
    .selectAll()
    .where('certificateId', 'in', certificateIds)
    .orderBy('startedAt')
    .execute()
  for (const { certificateId, verb, startedAt } of rows) {
    found.set(certificateId, [...(found.get(certificateId) ?? []), { verb, startedAt }])
  }
  return found
}

/** Idempotent, because agents repeat what was not acknowledged. */
export async function openSshSession(
  db: Db,
  row: { certificateId: number; sessionId: string; verb: string; startedAt: number },
): Promise<void> {
  await db
    .insertInto('sshSessions')
    .values(row)
    .onConflict((o) => o.doNothing())
    .execute()
}

export async function closeSshSession(
  db: Db,
  certificateId: number,
  sessionId: string,
): Promise<void> {
  await db
    .deleteFrom('sshSessions')
    .where('certificateId', '=', certificateId)
    .where('sessionId', '=', sessionId)
    .execute()
}

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
