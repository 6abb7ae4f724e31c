// What is known of a project's repository and host, and when it is looked at next. A due round is claimed by one
// conditional update, so that two replicas do not make the same round.
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

/** The repository's own, where nobody named one. False: somebody did. */
export async function learnDefaultBranch(db: Db, id: number, branch: string): Promise<boolean> {
  const result = await db
    .updateTable('projects')
    .set({ defaultBranch: branch })
    .where('id', '=', id)
    .where('defaultBranch', '=', '')
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Projects whose round is due, or that never had one. */
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

/** True: the round is ours. */
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

/** Sooner, never later. */
export async function hastenRound(db: Db, id: number, at: number): Promise<void> {
  await db
    .updateTable('projects')
    .set({ reconcileAt: at })
    .where('id', '=', id)
    .where((e) => e.or([e('reconcileAt', 'is', null), e('reconcileAt', '>', at)]))
    .execute()
}

/** Every project with an environment on this server. */
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

/** After a start everybody is looked at soon, but not all at once: a project's number says when. */
export async function spreadRounds(db: Db, from: number, withinMs: number): Promise<void> {
  const spread = sql<number>`cast(${from} as bigint) + (id * 7919) % cast(${withinMs} as integer)`
  await db
    .updateTable('projects')
    .set({ reconcileAt: spread })
    .where('removedAt', 'is', null)
    .where((e) => e.or([e('reconcileAt', 'is', null), e('reconcileAt', '>', from + withinMs)]))
    .execute()
}

/** False: somebody asked since `notSince`. */
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
