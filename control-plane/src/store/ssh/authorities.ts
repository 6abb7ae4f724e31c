// Stores SSH authorities through the phases of a rotation, which agents trust them, and each server's host certificate.
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { AuthorityPhase, SshAuthoritiesTable, SshHostCertificatesTable } from '../schema.ts'

export type SshAuthority = Selectable<SshAuthoritiesTable>
type SshHostCertificate = Selectable<SshHostCertificatesTable>

/** Does nothing if the kind already has an authority in this phase, because a concurrent insert was first. */
export async function insertSshAuthority(
  db: Db,
  row: Insertable<SshAuthoritiesTable>,
): Promise<boolean> {
  const result = await db
    .insertInto('sshAuthorities')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n
}

export const findSshAuthority = (
  db: Db,
  kind: SshAuthority['kind'],
  phase: AuthorityPhase,
): Promise<SshAuthority | undefined> =>
  db
    .selectFrom('sshAuthorities')
    .selectAll()
    .where('kind', '=', kind)
    .where('phase', '=', phase)
    .executeTakeFirst()

/** Lists the authorities that servers and clients must know: the signing one, and those being introduced or retired. */
export const listPublishedAuthorities = (
  db: Db,
  kind: SshAuthority['kind'],
): Promise<SshAuthority[]> =>
  db
    .selectFrom('sshAuthorities')
    .selectAll()
    .where('kind', '=', kind)
    .where('phase', '!=', 'retired')
    .orderBy('id')
    .execute()

/** Locks a kind's rotation until the transaction ends, by an update that changes nothing. */
export async function lockSshRotation(db: Db, kind: SshAuthority['kind']): Promise<void> {
  await db
    .updateTable('sshAuthorities')
    .set((e) => ({ phase: e.ref('phase') }))
    .where('kind', '=', kind)
    .where('phase', '!=', 'retired')
    .execute()
}

/** Returns false if it is no longer in the phase it was read in. */
export async function moveSshAuthority(
  db: Db,
  authority: SshAuthority,
  to: 'signing' | 'retiring' | 'retired',
  now: number,
): Promise<boolean> {
  const change = {
    signing: { phase: to, signingAt: now },
    retiring: { phase: to, retiringAt: now },
    retired: { phase: to, retiredAt: now, keySealed: null },
  }[to]
  const result = await db
    .updateTable('sshAuthorities')
    .set(change)
    .where('id', '=', authority.id)
    .where('phase', '=', authority.phase)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function insertAuthorityConfirmations(
  db: Db,
  agentId: string,
  authorityIds: number[],
  now: number,
): Promise<void> {
  if (authorityIds.length === 0) return
  await db
    .insertInto('sshAuthorityConfirmations')
    .values(authorityIds.map((authorityId) => ({ authorityId, agentId, confirmedAt: now })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Lists servers with an agent that has not yet confirmed this authority. */
export const listUnconfirmedServers = (
  db: Db,
  authorityId: number,
): Promise<{ id: number; name: string }[]> =>
  db
    .selectFrom('agents')
    .innerJoin('servers', 'servers.id', 'agents.serverId')
    .leftJoin('sshAuthorityConfirmations as known', (join) =>
      join.onRef('known.agentId', '=', 'agents.id').on('known.authorityId', '=', authorityId),
    )
    .select(['servers.id', 'servers.name'])
    .where('agents.revokedAt', 'is', null)
    .where('known.agentId', 'is', null)
    .orderBy('servers.id')
    .execute()

export const findSshHostCertificate = (
  db: Db,
  serverId: number,
): Promise<SshHostCertificate | undefined> =>
  db
    .selectFrom('sshHostCertificates')
    .selectAll()
    .where('serverId', '=', serverId)
    .executeTakeFirst()

export async function upsertSshHostCertificate(
  db: Db,
  row: Insertable<SshHostCertificatesTable>,
): Promise<void> {
  const { serverId: _, ...change } = row
  await db
    .insertInto('sshHostCertificates')
    .values(row)
    .onConflict((conflict) => conflict.column('serverId').doUpdateSet(change))
    .execute()
}

/** Lists servers whose newest host certificate is from this authority and still valid. */
export const listServersSignedBy = (
  db: Db,
  authorityId: number,
  now: number,
): Promise<{ id: number; name: string }[]> =>
  db
    .selectFrom('sshHostCertificates')
    .innerJoin('agents', 'agents.serverId', 'sshHostCertificates.serverId')
    .innerJoin('servers', 'servers.id', 'sshHostCertificates.serverId')
    .select(['servers.id', 'servers.name'])
    .where('agents.revokedAt', 'is', null)
    .where('sshHostCertificates.authorityId', '=', authorityId)
    .where('sshHostCertificates.validBefore', '>', now)
    .orderBy('servers.id')
    .execute()

/** Lists the agents that must receive a change of trust. */
export async function listLiveAgentIds(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('agents').select('id').where('revokedAt', 'is', null).execute()
  return rows.map((row) => row.id)
}
