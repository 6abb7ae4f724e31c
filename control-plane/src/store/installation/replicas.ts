// Stores which control planes are alive, and which of them does what for all. Leases are judged by the database's clock
// alone, so that clocks of machines that differ decide nothing.
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { ReplicasTable } from '../schema.ts'

export type Replica = ReplicasTable

export type NewReplica = Pick<
  Replica,
  'id' | 'host' | 'pid' | 'address' | 'startedAt' | 'version' | 'peerAddress'
>

/** Milliseconds of the clock of PostgreSQL, also inside a long transaction. */
const databaseNow = sql<number>`floor(extract(epoch from clock_timestamp()) * 1000)::bigint`
const leaseEnd = (leaseMs: number): RawBuilder<number> =>
  sql<number>`${databaseNow} + ${leaseMs}::bigint`

/** Finds the last process that used the database. Undefined if there is none or the table does not exist yet. */
export async function findLastReplica(db: Db): Promise<Replica | undefined> {
  try {
    return await db
      .selectFrom('replicas')
      .selectAll()
      .orderBy('startedAt', 'desc')
      .limit(1)
      .executeTakeFirst()
  } catch {
    return undefined // the database is from before this table
  }
}

/** For a process that is alone with its database: any other row belongs to a process that died. */
export async function saveOnlyReplica(db: Db, replica: NewReplica): Promise<void> {
  await db.deleteFrom('replicas').where('id', '!=', replica.id).execute()
  await db
    .insertInto('replicas')
    .values(replica)
    .onConflict((c) => c.column('id').doUpdateSet({ address: replica.address }))
    .execute()
}

/** One of several: writes its row with a new lease. */
export async function saveReplica(db: Db, replica: NewReplica, leaseMs: number): Promise<void> {
  await db
    .insertInto('replicas')
    .values({ ...replica, leaseUntil: leaseEnd(leaseMs) })
    .onConflict((c) =>
      c.column('id').doUpdateSet({
        address: replica.address,
        peerAddress: replica.peerAddress,
        leaseUntil: leaseEnd(leaseMs),
      }),
    )
    .execute()
}

/** Returns false if its row is gone: the others declared it dead. */
export async function renewLease(db: Db, id: string, leaseMs: number): Promise<boolean> {
  const result = await db
    .updateTable('replicas')
    .set({ leaseUntil: leaseEnd(leaseMs) })
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/**
 * After a failover to a machine whose clock is behind, a lease would last longer than anyone takes one. `longestMs` is
 * the longest that is taken in the table of duties.
 */
export async function shortenLeases(db: Db, leaseMs: number, longestMs: number): Promise<void> {
  for (const [table, ms] of [
    ['replicas', leaseMs],
    ['duties', longestMs],
  ] as const) {
    const end = leaseEnd(ms)
    await db.updateTable(table).set({ leaseUntil: end }).where('leaseUntil', '>', end).execute()
  }
}

/** Deletes the rows whose lease is over. Rows without one are from an older release, which ran alone. */
export async function deleteDeadReplicas(db: Db): Promise<Replica[]> {
  return db
    .deleteFrom('replicas')
    .where((e) => e.or([e('leaseUntil', 'is', null), e('leaseUntil', '<', databaseNow)]))
    .returningAll()
    .execute()
}

export const listLiveReplicas = (db: Db): Promise<Replica[]> =>
  db
    .selectFrom('replicas')
    .selectAll()
    .where('leaseUntil', '>=', databaseNow)
    .orderBy('startedAt')
    .orderBy('id')
    .execute()

export const findLiveReplica = (db: Db, id: string): Promise<Replica | undefined> =>
  db
    .selectFrom('replicas')
    .selectAll()
    .where('id', '=', id)
    .where('leaseUntil', '>=', databaseNow)
    .executeTakeFirst()

export async function markReplicaDraining(db: Db, id: string): Promise<void> {
  await db.updateTable('replicas').set({ drainingAt: databaseNow }).where('id', '=', id).execute()
}

export async function deleteReplica(db: Db, id: string): Promise<void> {
  await db.deleteFrom('replicas').where('id', '=', id).execute()
}

/** Renews the duties that this replica has, and takes those that no one has. Returns the names it has now. */
export async function claimDuties(
  db: Db,
  replicaId: string,
  names: readonly string[],
  leaseMs: number,
): Promise<string[]> {
  const rows = await db
    .insertInto('duties')
    .values(names.map((name) => ({ name, replicaId, leaseUntil: leaseEnd(leaseMs) })))
    .onConflict((c) =>
      c
        .column('name')
        .doUpdateSet({ replicaId, leaseUntil: leaseEnd(leaseMs) })
        .where((e) =>
          e.or([e('duties.replicaId', '=', replicaId), e('duties.leaseUntil', '<', databaseNow)]),
        ),
    )
    .returning('name')
    .execute()
  return rows.map(({ name }) => name)
}

export async function releaseDuty(db: Db, replicaId: string, name: string): Promise<void> {
  await db
    .deleteFrom('duties')
    .where('name', '=', name)
    .where('replicaId', '=', replicaId)
    .execute()
}

export async function releaseDuties(db: Db, replicaId: string): Promise<void> {
  await db.deleteFrom('duties').where('replicaId', '=', replicaId).execute()
}

/** A later era outranks what servers know of an earlier one, as after a restore. Returns the era. */
export async function beginEra(db: Db): Promise<number> {
  const { era } = await db
    .updateTable('installation')
    .set({ era: sql<number>`greatest(era + 1, ${databaseNow})` })
    .returning('era')
    .executeTakeFirstOrThrow()
  return era
}

/** Begins an era after this one, unless it has begun already. */
export async function beginEraAfter(db: Db, known: number): Promise<void> {
  await db
    .updateTable('installation')
    .set({ era: sql<number>`greatest(${known}::bigint + 1, ${databaseNow})` })
    .where('era', '<=', known)
    .execute()
}

export const findEra = async (db: Db): Promise<number> =>
  (await db.selectFrom('installation').select('era').executeTakeFirstOrThrow()).era

export interface AgentWake {
  id: number
  agentId: string
  isTrust: boolean
}

/** Written in the transaction that changes something for an agent. */
export async function insertAgentWakes(
  db: Db,
  wakes: readonly Omit<AgentWake, 'id'>[],
): Promise<void> {
  if (wakes.length === 0) return
  await db
    .insertInto('agentWakes')
    .values(
      wakes.map(({ agentId, isTrust }) => ({
        agentId,
        isTrust: isTrust ? (1 as const) : (0 as const),
        at: databaseNow,
      })),
    )
    .execute()
}

/** Those of the last `withinMs`, which covers transactions that commit late. */
export async function listAgentWakes(db: Db, withinMs: number): Promise<AgentWake[]> {
  const rows = await db
    .selectFrom('agentWakes')
    .select(['id', 'agentId', 'isTrust'])
    .where('at', '>=', sql<number>`${databaseNow} - ${withinMs}::bigint`)
    .orderBy('id')
    .execute()
  return rows.map(({ id, agentId, isTrust }) => ({ id, agentId, isTrust: isTrust === 1 }))
}

export async function deleteOldAgentWakes(db: Db, afterMs: number): Promise<void> {
  await db
    .deleteFrom('agentWakes')
    .where('at', '<', sql<number>`${databaseNow} - ${afterMs}::bigint`)
    .execute()
}
