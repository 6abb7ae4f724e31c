// Stores outgoing mail: written in the transaction of its cause, sent afterwards; its text is deleted once it was sent
// or given up. A row is leased to one sender at a time, across processes.
import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { MailsTable } from '../schema.ts'

export type MailRow = Selectable<MailsTable>

export async function insertMail(db: Db, row: Insertable<MailsTable>): Promise<number> {
  const { id } = await db.insertInto('mails').values(row).returning('id').executeTakeFirstOrThrow()
  return id
}

/** The text is encrypted for the row's id, which exists only after the insert. */
export async function updateMailText(db: Db, id: number, sealed: string): Promise<void> {
  await db.updateTable('mails').set({ sealed }).where('id', '=', id).execute()
}

export async function listDueMails(db: Db, now: number, limit: number): Promise<number[]> {
  const rows = await db
    .selectFrom('mails')
    .select('id')
    .where('nextAt', '<=', now)
    .where((e) => e.or([e('leaseUntil', 'is', null), e('leaseUntil', '<=', now)]))
    .orderBy('nextAt')
    .limit(limit)
    .execute()
  return rows.map((row) => row.id)
}

/** Undefined if another sender holds the lease, or it is already sent. */
export const takeMail = (
  db: Db,
  id: number,
  now: number,
  leaseUntil: number,
): Promise<MailRow | undefined> =>
  db
    .updateTable('mails')
    .set({ leaseUntil })
    .where('id', '=', id)
    .where('nextAt', '<=', now)
    .where((e) => e.or([e('leaseUntil', 'is', null), e('leaseUntil', '<=', now)]))
    .returningAll()
    .executeTakeFirst()

export async function updateMailSent(db: Db, id: number, now: number): Promise<void> {
  const done = { sentAt: now, nextAt: null, leaseUntil: null, sealed: '', error: null }
  await db.updateTable('mails').set(done).where('id', '=', id).execute()
}

/** `nextAt` null: given up. */
export async function updateMailFailed(
  db: Db,
  id: number,
  failed: { tries: number; nextAt: number | null; error: string; now: number },
): Promise<void> {
  const { tries, nextAt, error, now } = failed
  const over = nextAt === null ? { sealed: '', givenUpAt: now } : {}
  await db
    .updateTable('mails')
    .set({ tries, nextAt, error, leaseUntil: null, ...over })
    .where('id', '=', id)
    .execute()
}

export async function deleteOldMails(db: Db, before: number): Promise<void> {
  await db.deleteFrom('mails').where('createdAt', '<', before).where('nextAt', 'is', null).execute()
}
