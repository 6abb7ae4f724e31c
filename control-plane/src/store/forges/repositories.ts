// Stores what is known of a project's repository and forge, and when its next reconcile round is due. One conditional
// update claims a round, so that two replicas never perform the same one.
import { sql, type Updateable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { Project } from '../projects/projects.ts'
import type { ProjectsTable } from '../schema.ts'

type Facts = Pick<
  Updateable<ProjectsTable>,
  | 'reachable'
  | 'checkedAt'
  | 'repositoryError'
  | 'provider'
  | 'externalId'
  | 'hostTokenSealed'
  | 'hostTokenCheckedAt'
  | 'hostTokenError'
  | 'reconciledAt'
>

export async function updateRepositoryFacts(db: Db, id: number, facts: Facts): Promise<void> {
  await db.updateTable('projects').set(facts).where('id', '=', id).execute()
}

/** Stores the repository's default branch unless a user named one; returns false if one did. */
export async function learnDefaultBranch(db: Db, id: number, branch: string): Promise<boolean> {
  const result = await db
    .updateTable('projects')
    .set({ defaultBranch: branch })
    .where('id', '=', id)
    .where('defaultBranch', '=', '')
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Lists projects whose round is due, or that never had one. */
export const listDueRounds = (db: Db, now: number, limit: number): Promise<Project[]> =>
  db
    .selectFrom('projects')
    .selectAll()
    .where('removedAt', 'is', null)
    .where('status', '=', 'active')
    .where((e) => e.or([e('reconcileAt', 'is', null), e('reconcileAt', '<=', now)]))
    .orderBy('reconcileAt')
    .orderBy('id')
    .limit(limit)
    .execute()

/** Returns true if the caller claimed the round. */
export async function claimRound(
  db: Db,
  project: Pick<Project, 'id' | 'reconcileAt'>,
  next: number,
): Promise<boolean> {
  const result = await db
    .updateTable('projects')
    .set({ reconcileAt: next })
    .where('id', '=', project.id)
    .where('reconcileAt', project.reconcileAt === null ? 'is' : '=', project.reconcileAt)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Moves the round earlier, never later. */
export async function hastenRound(db: Db, id: number, at: number): Promise<void> {
  await db
    .updateTable('projects')
    .set({ reconcileAt: at })
    .where('id', '=', id)
    .where((e) => e.or([e('reconcileAt', 'is', null), e('reconcileAt', '>', at)]))
    .execute()
}

/** Moves the rounds of every project with an environment on this server earlier. */
export async function hastenRoundsOfServer(db: Db, serverId: number, at: number): Promise<void> {
  await db
    .updateTable('projects')
    .set({ reconcileAt: at })
    .where('removedAt', 'is', null)
    .where((e) => e.or([e('reconcileAt', 'is', null), e('reconcileAt', '>', at)]))
    .where((e) =>
      e(
        'id',
        'in',
        e
          .selectFrom('projectServers')
          .select('projectServers.projectId')
          .where('projectServers.serverId', '=', serverId),
      ),
    )
    .execute()
}

/** After a start, every project gets a round soon. Its number spreads them over time. */
export async function spreadRounds(db: Db, from: number, withinMs: number): Promise<void> {
  const spread = sql<number>`cast(${from} as bigint) + (id * 7919) % cast(${withinMs} as integer)`
  await db
    .updateTable('projects')
    .set({ reconcileAt: spread })
    .where('removedAt', 'is', null)
    .where((e) => e.or([e('reconcileAt', 'is', null), e('reconcileAt', '>', from + withinMs)]))
    .execute()
}

/** Returns false if a user already asked since `notSince`. */
export async function askForRound(
  db: Db,
  id: number,
  now: number,
  notSince: number,
): Promise<boolean> {
  const result = await db
    .updateTable('projects')
    .set({ reconcileAskedAt: now })
    .where('id', '=', id)
    .where((e) => e.or([e('reconcileAskedAt', 'is', null), e('reconcileAskedAt', '<=', notSince)]))
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}
