// Stores users, organizations, memberships and access tokens. Of a token only its hash is stored.
import type { Role, Scope } from '@berth/shared/api'
import type { Insertable, Selectable } from 'kysely'
import type { MembershipFacts } from '../../domain/people/second-factor.ts'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { TokensTable, UsersTable } from '../schema.ts'

export type User = Selectable<UsersTable>
export interface Token extends Omit<Selectable<TokensTable>, 'scopes'> {
  scopes: Scope[]
}

export async function insertUser(db: Db, row: Insertable<UsersTable>): Promise<number> {
  const { id } = await db.insertInto('users').values(row).returning('id').executeTakeFirstOrThrow()
  return id
}

export async function insertOrganization(
  db: Db,
  row: { name: string; slug: string; createdAt: number },
): Promise<number> {
  const { id } = await db
    .insertInto('organizations')
    .values(row)
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function insertMember(
  db: Db,
  row: { organizationId: number; userId: number; role: Role; createdAt: number },
): Promise<void> {
  await db.insertInto('members').values(row).execute()
}

export async function insertToken(
  db: Db,
  row: Omit<Insertable<TokensTable>, 'scopes'> & { scopes: Scope[] },
): Promise<number> {
  const { id } = await db
    .insertInto('tokens')
    .values({ ...row, scopes: row.scopes.join(' ') })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/** Finds the token and its user in any state; the caller judges expiry and revocation. */
export async function findTokenByHash(
  db: Db,
  hash: string,
): Promise<{ token: Token; user: User } | undefined> {
  const [row] = await runCompiled(db, 'token by hash', [hash], () =>
    db
      .selectFrom('tokens')
      .innerJoin('users', 'users.id', 'tokens.userId')
      .selectAll('tokens')
      .select(['users.name as userName', 'users.email', 'users.isPlatformAdmin'])
      .select(['users.disabledAt', 'users.createdAt as userCreatedAt', 'users.lastActiveAt'])
      .select('users.secondFactorAt')
      .where('tokens.hash', '=', hash),
  )
  if (!row) return undefined
  const user: User = {
    id: row.userId,
    name: row.userName,
    email: row.email,
    isPlatformAdmin: row.isPlatformAdmin,
    disabledAt: row.disabledAt,
    createdAt: row.userCreatedAt,
    lastActiveAt: row.lastActiveAt,
    secondFactorAt: row.secondFactorAt,
  }
  return { token: toToken(row), user }
}

const toToken = (row: Selectable<TokensTable>): Token => ({
  id: row.id,
  userId: row.userId,
  kind: row.kind,
  name: row.name,
  hash: row.hash,
  hint: row.hint,
  scopes: row.scopes.split(' ') as Scope[],
  organizationId: row.organizationId,
  expiresAt: row.expiresAt,
  revokedAt: row.revokedAt,
  lastUsedAt: row.lastUsedAt,
  createdAt: row.createdAt,
  lastUsedAddress: row.lastUsedAddress,
  loginId: row.loginId,
})

/** Records when and from where a token was last used, and that its user is active. */
export async function updateTokenUse(
  db: Db,
  token: { id: number; userId: number },
  now: number,
  address: string,
): Promise<void> {
  await db
    .updateTable('tokens')
    .set({ lastUsedAt: now, lastUsedAddress: address })
    .where('id', '=', token.id)
    .execute()
  await db.updateTable('users').set({ lastActiveAt: now }).where('id', '=', token.userId).execute()
}

export const listMemberships = (db: Db, userId: number): Promise<MembershipFacts[]> =>
  runCompiled(db, 'memberships of a user', [userId], () =>
    db
      .selectFrom('members')
      .innerJoin('organizations', 'organizations.id', 'members.organizationId')
      .select([
        'organizations.id as organizationId',
        'organizations.name as organizationName',
        'organizations.slug as organizationSlug',
        'organizations.secondFactorSince',
        'members.role',
        'members.createdAt as joinedAt',
      ])
      .where('members.userId', '=', userId)
      .where('organizations.removedAt', 'is', null)
      .orderBy('organizations.id'),
  )

export async function countProjectsByOrganization(
  db: Db,
  organizationIds: number[],
): Promise<Map<number, number>> {
  if (organizationIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('projects')
    .select((e) => ['organizationId', e.fn.countAll<number>().as('count')])
    .where('organizationId', 'in', organizationIds)
    .where('removedAt', 'is', null)
    .groupBy('organizationId')
    .execute()
  return new Map(rows.map((row) => [row.organizationId, row.count]))
}

/** Returns names by id, for messages and serializers. */
export async function listUserNames(db: Db, ids: number[]): Promise<Map<number, string>> {
  if (ids.length === 0) return new Map()
  const rows = await runCompiled(db, `names of ${ids.length} users`, ids, () =>
    db.selectFrom('users').select(['id', 'name']).where('id', 'in', ids),
  )
  return new Map(rows.map((row) => [row.id, row.name]))
}

/**
 * Locks the user and their role there until the transaction ends. A transaction that removes either waits, and then
 * sees what was granted meanwhile. The locks are updates that change nothing, which work on both databases.
 */
export async function lockMember(
  db: Db,
  organizationId: number,
  userId: number,
): Promise<{ role: Role | undefined; disabled: boolean }> {
  const user = await db
    .updateTable('users')
    .set((e) => ({ name: e.ref('name') }))
    .where('id', '=', userId)
    .returning('disabledAt')
    .executeTakeFirst()
  const member = await db
    .updateTable('members')
    .set((e) => ({ role: e.ref('role') }))
    .where('organizationId', '=', organizationId)
    .where('userId', '=', userId)
    .returning('role')
    .executeTakeFirst()
  return { role: member?.role, disabled: !user || user.disabledAt !== null }
}
