// Reads and writes the audit log. Rows are appended to a hash chain and deleted from its oldest end, never updated. The
// single head row is the chain's lock on both engines: the transaction that advances it writes next.
import type { Insertable, Selectable } from 'kysely'
import { insertCompiled, runCompiled, updateCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { AuditHeadTable, AuditTable } from '../schema.ts'

export type AuditHead = Selectable<AuditHeadTable>
export type AuditRow = Selectable<AuditTable>

/** Reserves the next `count` sequence numbers; concurrent transactions wait here for each other's commit. */
export const advanceAuditHead = (db: Db, count: number): Promise<AuditHead> =>
  firstOf(
    runCompiled(db, 'advance audit head', [count, 1], () =>
      db
        .updateTable('auditHead')
        .set((e) => ({ seq: e('seq', '+', count) }))
        .where('id', '=', 1)
        .returningAll(),
    ),
  )

async function firstOf<T>(found: Promise<T[]>): Promise<T> {
  const [row] = await found
  if (!row) throw new Error('the audit log has no head')
  return row
}

export async function updateAuditHead(db: Db, head: AuditHead): Promise<void> {
  await updateCompiled(db, 'audit head', head, [1], () =>
    db.updateTable('auditHead').set(head).where('id', '=', 1),
  )
}

export const getAuditHead = (db: Db): Promise<AuditHead> =>
  db.selectFrom('auditHead').selectAll().where('id', '=', 1).executeTakeFirstOrThrow()

export async function insertAudits(db: Db, rows: Insertable<AuditTable>[]): Promise<void> {
  for (const row of rows) {
    await insertCompiled(db, 'audit', row, () => db.insertInto('audit').values(row))
  }
}

/** Returns a range of the chain in chain order. */
export const listAuditChain = (db: Db, afterSeq: number, limit: number): Promise<AuditRow[]> =>
  db
    .selectFrom('audit')
    .selectAll()
    .where('seq', '>', afterSeq)
    .orderBy('seq')
    .limit(limit)
    .execute()

/** Counts rows outside the chain, from before and after it began. */
export async function countUnchained(
  db: Db,
  legacyId: number,
): Promise<{ before: number; after: number }> {
  const rows = await db.selectFrom('audit').select('id').where('seq', 'is', null).execute()
  const after = rows.filter((row) => row.id > legacyId).length
  return { before: rows.length - after, after }
}

/** Finds the oldest row to keep; retention may delete the rows before it. */
export const findOldestAuditSince = (db: Db, since: number): Promise<AuditRow | undefined> =>
  db
    .selectFrom('audit')
    .selectAll()
    .where('seq', 'is not', null)
    .where('at', '>=', since)
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst()

export async function deleteAuditBefore(db: Db, seq: number, at: number): Promise<void> {
  await db.deleteFrom('audit').where('seq', '<', seq).execute()
  await db.deleteFrom('audit').where('seq', 'is', null).where('at', '<', at).execute()
}

/** Returns the subjects that already have an entry with this verb. */
export async function listAuditedSubjects(
  db: Db,
  verb: string,
  subjectType: string,
  ids: string[],
): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('audit')
    .select('subjectId')
    .where('verb', '=', verb)
    .where('subjectType', '=', subjectType)
    .where('subjectId', 'in', ids)
    .execute()
  return new Set(rows.flatMap((row) => row.subjectId ?? []))
}

const NAMES = {
  project: ['projects', 'name'],
  environment: ['environments', 'identifier'],
  server: ['servers', 'name'],
  organization: ['organizations', 'name'],
  user: ['users', 'name'],
} as const

/** Finds the display name of a subject, or null if it has none. */
export async function findSubjectName(db: Db, type: string, id: string): Promise<string | null> {
  const place = Object.hasOwn(NAMES, type) ? NAMES[type as keyof typeof NAMES] : undefined
  if (!place || !/^\d{1,9}$/.test(id)) return null
  const [table, column] = place
  const row = await db
    .selectFrom(table)
    .select(column as 'name')
    .where('id', '=', Number(id))
    .executeTakeFirst()
  return (row as Record<string, string> | undefined)?.[column] ?? null
}
