// Reads users for administrators, and projects across organizations: names, counts and limits, no contents.
import type { Db } from '../engine/db.ts'
import type { Page } from './organizations.ts'
import type { User } from './people.ts'

export const findUser = (db: Db, id: number): Promise<User | undefined> =>
  db.selectFrom('users').selectAll().where('id', '=', id).executeTakeFirst()

export const findUserByEmail = (db: Db, email: string): Promise<User | undefined> =>
  db.selectFrom('users').selectAll().where('email', '=', email).executeTakeFirst()

export const listUsers = (db: Db, page: Page): Promise<User[]> =>
  db
    .selectFrom('users')
    .selectAll()
    .where('id', '>', page.after ?? 0)
    .orderBy('id')
    .limit(page.limit)
    .execute()

export async function countOrganizationsByUser(
  db: Db,
  ids: number[],
): Promise<Map<number, number>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('members')
    .select((e) => ['userId', e.fn.countAll<number>().as('count')])
    .where('userId', 'in', ids)
    .groupBy('userId')
    .execute()
  return new Map(rows.map((row) => [row.userId, row.count]))
}

export async function updateUser(
  db: Db,
  id: number,
  change: {
    isPlatformAdmin?: 0 | 1
    disabledAt?: number | null
    lastActiveAt?: number
    secondFactorAt?: number | null
  },
): Promise<void> {
  await db.updateTable('users').set(change).where('id', '=', id).execute()
}

/**
 * Lists administrators who can still act. Locks them, so that two cannot concurrently remove each other as the last.
 */
export async function listActiveAdmins(db: Db): Promise<number[]> {
  const rows = await db
    .updateTable('users')
    .set({ isPlatformAdmin: 1 })
    .where('isPlatformAdmin', '=', 1)
    .where('disabledAt', 'is', null)
    .returning('id')
    .execute()
  return rows.map((row) => row.id)
}

export interface ProjectSummary {
  id: number
  name: string
  status: 'active' | 'deleting'
  environmentLimit: number
  createdAt: number
  organizationId: number
  organizationName: string
}

export const listAllProjects = (db: Db, page: Page): Promise<ProjectSummary[]> =>
  db
    .selectFrom('projects')
    .innerJoin('organizations', 'organizations.id', 'projects.organizationId')
    .select([
      'projects.id',
      'projects.name',
      'projects.status',
      'projects.environmentLimit',
      'projects.createdAt',
      'projects.organizationId',
      'organizations.name as organizationName',
    ])
    .where('projects.removedAt', 'is', null)
    .where('projects.id', '>', page.after ?? 0)
    .orderBy('projects.id')
    .limit(page.limit)
    .execute()

/** They receive the alerts of the installation itself. */
export const listPlatformAdmins = (db: Db): Promise<{ email: string }[]> =>
  db
    .selectFrom('users')
    .select('email')
    .where('isPlatformAdmin', '=', 1)
    .where('disabledAt', 'is', null)
    .orderBy('id')
    .execute()
