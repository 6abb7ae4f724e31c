// Stores organizations and their members. A deleted organization leaves one row without a slug.
import type { Role } from '@berth/shared/api'
import type { Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { OrganizationsTable } from '../schema.ts'

export type Organization = Selectable<OrganizationsTable>

export interface Member {
  userId: number
  name: string
  email: string
  role: Role
  createdAt: number
  lastActiveAt: number | null
  secondFactorAt: number | null
}

export interface Page {
  limit: number
  after?: number | undefined
}

export const findOrganization = (db: Db, id: number): Promise<Organization | undefined> =>
  db
    .selectFrom('organizations')
    .selectAll()
    .where('id', '=', id)
    .where('removedAt', 'is', null)
    .executeTakeFirst()

export const findOrganizationBySlug = (db: Db, slug: string): Promise<Organization | undefined> =>
  db
    .selectFrom('organizations')
    .selectAll()
    .where('slug', '=', slug)
    .where('removedAt', 'is', null)
    .executeTakeFirst()

export async function listOrganizationsById(db: Db, ids: number[]): Promise<Organization[]> {
  if (ids.length === 0) return []
  return db
    .selectFrom('organizations')
    .selectAll()
    .where('id', 'in', ids)
    .where('removedAt', 'is', null)
    .orderBy('id')
    .execute()
}

export async function listAllOrganizations(db: Db, page: Page): Promise<Organization[]> {
  return db
    .selectFrom('organizations')
    .selectAll()
    .where('removedAt', 'is', null)
    .where('id', '>', page.after ?? 0)
    .orderBy('id')
    .limit(page.limit)
    .execute()
}

/** Locks the row, so that concurrent changes of members run one after the other. */
export async function touchOrganization(db: Db, id: number): Promise<boolean> {
  const result = await db
    .updateTable('organizations')
    .set((e) => ({ name: e.ref('name') }))
    .where('id', '=', id)
    .where('removedAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function updateOrganization(
  db: Db,
  id: number,
  change: {
    name?: string
    slug?: string
    removedAt?: number
    secondFactorSince?: number | null
  },
): Promise<void> {
  await db.updateTable('organizations').set(change).where('id', '=', id).execute()
}

const members = (db: Db, organizationId: number) =>
  db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.userId')
    .select([
      'members.userId',
      'users.name',
      'users.email',
      'members.role',
      'members.createdAt',
      'users.lastActiveAt',
      'users.secondFactorAt',
    ])
    .where('members.organizationId', '=', organizationId)

export const listMembers = (db: Db, organizationId: number, page: Page): Promise<Member[]> =>
  members(db, organizationId)
    .where('members.userId', '>', page.after ?? 0)
    .orderBy('members.userId')
    .limit(page.limit)
    .execute()

export const findMember = (
  db: Db,
  organizationId: number,
  userId: number,
): Promise<Member | undefined> =>
  members(db, organizationId).where('members.userId', '=', userId).executeTakeFirst()

export const findMemberByEmail = (
  db: Db,
  organizationId: number,
  email: string,
): Promise<Member | undefined> =>
  members(db, organizationId).where('users.email', '=', email).executeTakeFirst()

/** Lists owners, the longest-serving first. */
export const listOwners = (db: Db, organizationId: number): Promise<Member[]> =>
  members(db, organizationId)
    .where('members.role', '=', 'owner')
    .orderBy('members.createdAt')
    .orderBy('members.userId')
    .execute()

export async function updateMemberRole(
  db: Db,
  organizationId: number,
  userId: number,
  role: Role,
): Promise<void> {
  await db
    .updateTable('members')
    .set({ role })
    .where('organizationId', '=', organizationId)
    .where('userId', '=', userId)
    .execute()
}

export async function deleteMembers(
  db: Db,
  organizationId: number,
  userId?: number,
): Promise<void> {
  const own = db
    .selectFrom('environments')
    .select('id')
    .where('organizationId', '=', organizationId)
  let watched = db.deleteFrom('environmentWatchers').where('environmentId', 'in', own)
  if (userId !== undefined) watched = watched.where('userId', '=', userId)
  await watched.execute()
  let query = db.deleteFrom('members').where('organizationId', '=', organizationId)
  if (userId !== undefined) query = query.where('userId', '=', userId)
  await query.execute()
}

export async function countMembers(db: Db, ids: number[]): Promise<Map<number, number>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('members')
    .select((e) => ['organizationId', e.fn.countAll<number>().as('count')])
    .where('organizationId', 'in', ids)
    .groupBy('organizationId')
    .execute()
  return new Map(rows.map((row) => [row.organizationId, row.count]))
}

/** Passes on what a leaving member owned: projects to the heir, environments to their project's owner. */
export async function updateOwnedBy(
  db: Db,
  organizationId: number,
  leaverId: number,
  heirId: number,
  now: number,
): Promise<{ projects: number[]; environments: { id: number; projectId: number }[] }> {
  const projects = await db
    .updateTable('projects')
    .set({ ownerId: heirId, updatedAt: now })
    .where('organizationId', '=', organizationId)
    .where('ownerId', '=', leaverId)
    .returning('id')
    .execute()
  const environments = await db
    .updateTable('environments')
    .set((e) => ({
      ownerId: e
        .selectFrom('projects')
        .select('projects.ownerId')
        .whereRef('projects.id', '=', 'environments.projectId')
        .$asScalar()
        .$notNull(),
      updatedAt: now,
    }))
    .where('organizationId', '=', organizationId)
    .where('ownerId', '=', leaverId)
    .returning(['id', 'projectId'])
    .execute()
  return { projects: projects.map((p) => p.id), environments }
}
