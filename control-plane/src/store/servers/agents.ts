// Stores agents, their certificates and their sessions. Every write on behalf of a session is conditional on its epoch,
// so a superseded session changes nothing.
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { AgentCertificatesTable, AgentsTable } from '../schema.ts'

export interface Agent extends Omit<Selectable<AgentsTable>, 'capabilities'> {
  capabilities: string[]
}
export type AgentCertificate = Selectable<AgentCertificatesTable>

const toAgent = (row: Selectable<AgentsTable>): Agent => ({
  ...row,
  capabilities: JSON.parse(row.capabilities) as string[],
})

export async function insertAgent(db: Db, row: Insertable<AgentsTable>): Promise<void> {
  await db.insertInto('agents').values(row).execute()
}

export async function findAgent(db: Db, id: string): Promise<Agent | undefined> {
  const [row] = await runCompiled(db, 'agent by id', [id], () =>
    db.selectFrom('agents').selectAll().where('id', '=', id),
  )
  return row && toAgent(row)
}

/** Finds the current agent of a server; revoked ones are history. */
export async function findServerAgent(db: Db, serverId: number): Promise<Agent | undefined> {
  const [row] = await runCompiled(db, 'agent of a server', [serverId], () =>
    db
      .selectFrom('agents')
      .selectAll()
      .where('serverId', '=', serverId)
      .where('revokedAt', 'is', null),
  )
  return row && toAgent(row)
}

/** The sessions of those agents that have one now. */
export async function listSessionEpochs(db: Db, ids: string[]): Promise<Map<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('agents')
    .select(['id', 'sessionEpoch'])
    .where('id', 'in', ids)
    .where('sessionId', 'is not', null)
    .execute()
  return new Map(rows.map(({ id, sessionEpoch }) => [id, sessionEpoch]))
}

export async function listServerAgents(db: Db, serverIds: number[]): Promise<Map<number, Agent>> {
  if (serverIds.length === 0) return new Map()
  const rows = await runCompiled(db, `agents of ${serverIds.length} servers`, serverIds, () =>
    db
      .selectFrom('agents')
      .selectAll()
      .where('serverId', 'in', serverIds)
      .where('revokedAt', 'is', null),
  )
  return new Map(rows.map((row) => [row.serverId, toAgent(row)]))
}

/** Lists earlier identities of the agent's server. */
export async function listFormerAgents(
  db: Db,
  { id, serverId }: Pick<Agent, 'id' | 'serverId'>,
): Promise<string[]> {
  const rows = await db
    .selectFrom('agents')
    .select('id')
    .where('serverId', '=', serverId)
    .where('id', '!=', id)
    .where('revokedAt', 'is not', null)
    .execute()
  return rows.map((row) => row.id)
}

export async function updateAgentTrust(
  db: Db,
  id: string,
  change: Pick<
    Updateable<AgentsTable>,
    'trustGeneration' | 'trustDigest' | 'trustApplied' | 'trustError'
  >,
): Promise<void> {
  await db.updateTable('agents').set(change).where('id', '=', id).execute()
}

/** How servers lost their last agent; servers that never had one are missing. */
export async function listLostAgents(
  db: Db,
  serverIds: number[],
): Promise<Map<number, 'revoked' | 'left'>> {
  if (serverIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('agents')
    .select(['serverId', 'leftAt'])
    .where('id', 'in', (e) =>
      e
        .selectFrom('servers')
        .select((one) =>
          one
            .selectFrom('agents as former')
            .select('former.id')
            .whereRef('former.serverId', '=', 'servers.id')
            .where('former.revokedAt', 'is not', null)
            .orderBy('former.revokedAt', 'desc')
            .orderBy('former.joinedAt', 'desc')
            .limit(1)
            .as('id'),
        )
        .where('servers.id', 'in', serverIds),
    )
    .execute()
  return new Map(rows.map((row) => [row.serverId, row.leftAt === null ? 'revoked' : 'left']))
}

/** Returns false if it was revoked before. */
export async function endAgent(db: Db, id: string, now: number): Promise<boolean> {
  const result = await db
    .updateTable('agents')
    .set({ revokedAt: now, leftAt: now, sessionId: null })
    .where('id', '=', id)
    .where('revokedAt', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function revokeServerAgents(db: Db, serverId: number, now: number): Promise<string[]> {
  const rows = await db
    .updateTable('agents')
    .set({ revokedAt: now, sessionId: null })
    .where('serverId', '=', serverId)
    .where('revokedAt', 'is', null)
    .returning('id')
    .execute()
  return rows.map((row) => row.id)
}

export async function lockAgent(db: Db, id: string, reason: string, now: number): Promise<void> {
  await db
    .updateTable('agents')
    .set({ lockedAt: now, lockReason: reason, sessionId: null })
    .where('id', '=', id)
    .where('lockedAt', 'is', null)
    .execute()
}

export async function updateTakeovers(db: Db, id: string, takeovers: string): Promise<void> {
  await db.updateTable('agents').set({ takeovers }).where('id', '=', id).execute()
}

/** Takes the session in one statement; the newest wins. Undefined if the agent is revoked or locked. */
export async function takeSession(
  db: Db,
  id: string,
  session: {
    sessionId: string
    replicaId: string
    instanceId: string
    version: string
    capabilities: string[]
    now: number
  },
): Promise<Agent | undefined> {
  const row = await db
    .updateTable('agents')
    .set((e) => ({
      sessionEpoch: e('sessionEpoch', '+', 1),
      sessionId: session.sessionId,
      replicaId: session.replicaId,
      instanceId: session.instanceId,
      version: session.version,
      capabilities: JSON.stringify(session.capabilities),
      connectedAt: session.now,
      lastSeenAt: session.now,
      drainingAt: null,
    }))
    .where('id', '=', id)
    .where('revokedAt', 'is', null)
    .where('lockedAt', 'is', null)
    .returningAll()
    .executeTakeFirst()
  return row && toAgent(row)
}

/** Returns false if a newer session took over, or the agent was revoked or locked. */
export async function updateUnderEpoch(
  db: Db,
  id: string,
  epoch: number,
  change: Updateable<AgentsTable>,
): Promise<boolean> {
  const result = await db
    .updateTable('agents')
    .set(change)
    .where('id', '=', id)
    .where('sessionEpoch', '=', epoch)
    .where('sessionId', 'is not', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Signs of life of many sessions in one statement. Returns the agents whose session is still the one that it names. */
export async function touchSessions(
  db: Db,
  beats: readonly { agentId: string; epoch: number; diskFreeBytes: number }[],
  now: number,
): Promise<Set<string>> {
  if (beats.length === 0) return new Set()
  const rows = beats.map(
    ({ agentId, epoch, diskFreeBytes }) =>
      sql`(cast(${agentId} as text), cast(${epoch} as bigint), cast(${diskFreeBytes} as bigint))`,
  )
  const { rows: touched } = await sql<{ id: string }>`
    with beats(id, epoch, disk_free_bytes) as (values ${sql.join(rows)})
    update agents set last_seen_at = ${now}, disk_free_bytes = beats.disk_free_bytes
    from beats where agents.id = beats.id and agents.session_epoch = beats.epoch
      and agents.session_id is not null
    returning agents.id as id`.execute(db)
  return new Set(touched.map(({ id }) => id))
}

export async function insertAgentCertificate(
  db: Db,
  row: Omit<Insertable<AgentCertificatesTable>, 'firstSeenAt'>,
): Promise<void> {
  await db.insertInto('agentCertificates').values(row).execute()
}

export const findAgentCertificate = (
  db: Db,
  fingerprint: string,
): Promise<AgentCertificate | undefined> =>
  db
    .selectFrom('agentCertificates')
    .selectAll()
    .where('fingerprint', '=', fingerprint)
    .executeTakeFirst()

/** Agents with their certificate of the highest generation; each takes one look-up, however many it had. */
export const newestCertificates = (db: Db) =>
  db.selectFrom('agents').innerJoin('agentCertificates', (join) =>
    join.onRef('agentCertificates.agentId', '=', 'agents.id').on((e) =>
      e(
        'agentCertificates.generation',
        '=',
        e
          .selectFrom('agentCertificates as newest')
          .select((one) => one.fn.max('newest.generation').as('generation'))
          .whereRef('newest.agentId', '=', 'agents.id'),
      ),
    ),
  )

/** Returns the highest generation issued, the highest ever used on a connection, and when the newest was created. */
export async function findGenerations(
  db: Db,
  agentId: string,
): Promise<{ issued: number; seen: number; newestAt: number }> {
  const [row] = await runCompiled(db, 'generations of an agent', [agentId, agentId, 1], () =>
    db
      .selectFrom('agentCertificates')
      .select(['generation', 'issuedAt'])
      .select((e) =>
        e
          .selectFrom('agentCertificates as used')
          .select((one) => one.fn.max('used.generation').as('generation'))
          .where('used.agentId', '=', agentId)
          .where('used.firstSeenAt', 'is not', null)
          .as('seen'),
      )
      .where('agentId', '=', agentId)
      .orderBy('generation', 'desc')
      .limit(1),
  )
  return { issued: row?.generation ?? 0, seen: row?.seen ?? 0, newestAt: row?.issuedAt ?? 0 }
}

export async function markCertificateSeen(db: Db, fingerprint: string, now: number): Promise<void> {
  await db
    .updateTable('agentCertificates')
    .set({ firstSeenAt: now })
    .where('fingerprint', '=', fingerprint)
    .where('firstSeenAt', 'is', null)
    .execute()
}

/** Ends sessions that an earlier process of the control plane left behind; `now` is their latest possible end. */
export async function endSessionsOfOthers(db: Db, replicaId: string, now: number): Promise<void> {
  await db
    .updateTable('agents')
    .set({ sessionId: null, disconnectedAt: now })
    .where('sessionId', 'is not', null)
    .where('replicaId', '!=', replicaId)
    .execute()
}

export interface StoredSession {
  /** The agent's. */
  id: string
  sessionId: string
}

/** Lists sessions of replicas that have no row any more. */
export const listOrphanSessions = (db: Db, limit: number): Promise<StoredSession[]> =>
  db
    .selectFrom('agents')
    .select(['id', 'sessionId'])
    .where('sessionId', 'is not', null)
    .$narrowType<{ sessionId: string }>()
    .where('replicaId', 'not in', db.selectFrom('replicas').select('id'))
    .orderBy('id')
    .limit(limit)
    .execute()

/** Returns those that were not ended or replaced before. */
export async function endSessions(
  db: Db,
  sessions: readonly StoredSession[],
  now: number,
): Promise<{ id: string; serverId: number }[]> {
  if (sessions.length === 0) return []
  const rows = sessions.map(
    ({ id, sessionId }) => sql`(cast(${id} as text), cast(${sessionId} as text))`,
  )
  const { rows: ended } = await sql<{ id: string; serverId: number }>`
    with ended(id, session_id) as (values ${sql.join(rows)})
    update agents set session_id = null, disconnected_at = ${now}
    from ended where agents.id = ended.id and agents.session_id = ended.session_id
    returning agents.id as id, agents.server_id as server_id`.execute(db)
  return ended
}
