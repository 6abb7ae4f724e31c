// Stores the event bus: one row per change, written in the transaction of the change. Subscribers read by sequence
// number. Also keeps what agents reported, for a limited time.
import { type Compilable, type Insertable, type Selectable, sql } from 'kysely'
import { runCompiled } from '../engine/compiled.ts'
import type { Db, Engine } from '../engine/db.ts'
import type { AgentEventsTable, EventsTable } from '../schema.ts'

export interface EventRow extends Omit<Selectable<EventsTable>, 'body'> {
  body: object
}

/** An event that has no number yet. */
export interface NewEvent extends Omit<Insertable<EventsTable>, 'body' | 'seq'> {
  body: object
}

const EVENTS_LOCK = 7_443_010 // arbitrary, the same for every replica
const ROWS_AT_ONCE = 500 // seven values per row, far below the engines' limit of parameters

/**
 * Must be the last statement of a transaction. PostgreSQL assigns numbers on insert but shows rows on commit; the lock
 * spans both, so a reader never sees a number before a lower one. SQLite has a single writer anyway.
 */
export async function insertEvents(db: Db, engine: Engine, events: NewEvent[]): Promise<void> {
  for (let at = 0; at < events.length; at += ROWS_AT_ONCE) {
    const rows = events.slice(at, at + ROWS_AT_ONCE).map(toRow)
    const values = rows.flatMap((event) => Object.values(event))
    await runCompiled(db, `insert ${rows.length} events`, values, () =>
      engine === 'postgres' ? insertLocked(db, rows) : db.insertInto('events').values(rows),
    )
  }
}

/** All transactions with events wait for this lock, so it is not held for a statement of its own. */
function insertLocked(db: Db, rows: ReturnType<typeof toRow>[]): Compilable<unknown> {
  const values = rows.map(
    (row) => sql`(
      cast(${row.organizationId} as integer), cast(${row.projectId} as integer),
      cast(${row.environmentId} as integer), cast(${row.taskId} as integer),
      cast(${row.kind} as text), cast(${row.body} as text), cast(${row.at} as bigint))`,
  )
  const insert = sql`
    with turn as materialized (select pg_advisory_xact_lock(${sql.lit(EVENTS_LOCK)}))
    insert into events (organization_id, project_id, environment_id, task_id, kind, body, at)
    select e.* from turn, (values ${sql.join(values)}) as e`
  return { compile: () => insert.compile(db) }
}

/** The columns always have the same order, so the statement is cached by the number of rows alone. */
const toRow = (event: NewEvent) => ({
  organizationId: event.organizationId,
  projectId: event.projectId ?? null,
  environmentId: event.environmentId ?? null,
  taskId: event.taskId ?? null,
  kind: event.kind,
  body: JSON.stringify(event.body),
  at: event.at,
})

const toEvent = (row: Selectable<EventsTable>): EventRow => ({
  ...row,
  body: JSON.parse(row.body) as object,
})

/** Lists events of all organizations, oldest first. */
export async function listEventsAfter(db: Db, seq: number, limit: number): Promise<EventRow[]> {
  const rows = await db
    .selectFrom('events')
    .selectAll()
    .where('seq', '>', seq)
    .orderBy('seq')
    .limit(limit)
    .execute()
  return rows.map(toEvent)
}

/** Selects the events of one subscriber. */
export interface EventFilter {
  organizationId: number
  projectId?: number | undefined
  environmentId?: number | undefined
  taskId?: number | undefined
}

function filtered(db: Db, filter: EventFilter) {
  let query = db
    .selectFrom('events')
    .selectAll()
    .where('organizationId', '=', filter.organizationId)
  if (filter.projectId !== undefined) query = query.where('projectId', '=', filter.projectId)
  if (filter.environmentId !== undefined) {
    query = query.where('environmentId', '=', filter.environmentId)
  }
  return filter.taskId === undefined ? query : query.where('taskId', '=', filter.taskId)
}

/** Lists a subscriber's events with after < seq ≤ until, oldest first. */
export async function listEventsBetween(
  db: Db,
  filter: EventFilter,
  after: number,
  until: number,
  limit: number,
): Promise<EventRow[]> {
  const rows = await filtered(db, filter)
    .where('seq', '>', after)
    .where('seq', '<=', until)
    .orderBy('seq')
    .limit(limit)
    .execute()
  return rows.map(toEvent)
}

/** Lists the newest events up to `until`, oldest first. */
export async function listNewestEvents(
  db: Db,
  filter: EventFilter,
  until: number,
  limit: number,
): Promise<EventRow[]> {
  const rows = await filtered(db, filter)
    .where('seq', '<=', until)
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
  return rows.map(toEvent).reverse()
}

/** Returns the range of stored numbers. The newest row is never deleted, because only it says how far they went. */
export async function findEventRange(db: Db): Promise<{ first: number; last: number }> {
  const end = (which: 'min' | 'max') =>
    db
      .selectFrom('events')
      .select((e) => e.fn[which]('seq').as('seq'))
      .executeTakeFirst()
  // two lookups by key: min and max in one statement would read the whole table
  return { first: (await end('min'))?.seq ?? 0, last: (await end('max'))?.seq ?? 0 }
}

export async function insertAgentEvents(
  db: Db,
  rows: Insertable<AgentEventsTable>[],
): Promise<void> {
  if (rows.length > 0) await db.insertInto('agentEvents').values(rows).execute()
}

/** Applies retention to both kinds of event rows. */
export async function deleteOldEvents(db: Db, before: number): Promise<void> {
  const { last } = await findEventRange(db)
  await db.deleteFrom('events').where('at', '<', before).where('seq', '<', last).execute()
  await db.deleteFrom('agentEvents').where('receivedAt', '<', before).execute()
}
