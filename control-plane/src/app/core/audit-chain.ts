// The chain of the audit log. Each row holds the previous row's hash and its own keyed hash over all fields, typed and
// length-prefixed. A transaction appends its rows last: the head's lock is the last one taken, so it cannot cause a
// deadlock, and a row is in the chain exactly when its change is committed.
import { createHmac, type KeyObject } from 'node:crypto'
import type { Context } from '../../context.ts'
import {
  type AuditHead,
  type AuditRow,
  advanceAuditHead,
  findSubjectName,
  insertAudits,
  updateAuditHead,
} from '../../store/core/audit.ts'
import type { Change } from './change.ts'

type Field = string | number | null

/** Encodes kind, length and bytes, so two different lists of fields never give the same bytes. */
export function encodeFields(fields: readonly Field[]): Buffer {
  return Buffer.concat(
    fields.flatMap((field) => {
      const bytes = Buffer.from(field === null ? '' : String(field), 'utf8')
      const head = Buffer.alloc(5)
      head.writeUInt8(field === null ? 0 : typeof field === 'number' ? 1 : 2)
      head.writeUInt32BE(bytes.length, 1)
      return [head, bytes]
    }),
  )
}

const sign = (key: KeyObject, fields: readonly Field[]): string =>
  createHmac('sha256', key).update(encodeFields(fields)).digest('hex')

type Chained = Omit<AuditRow, 'id' | 'hash'>

export const hashOfRow = (key: KeyObject, row: Chained): string =>
  sign(key, [
    'berth audit 1',
    row.previousHash,
    row.seq,
    row.at,
    row.organizationId,
    row.actorType,
    row.actorId,
    row.actorName,
    row.tokenId,
    row.address,
    row.requestId,
    row.verb,
    row.subjectType,
    row.subjectId,
    row.subjectName,
    row.details,
  ])

export const macOfHead = (key: KeyObject, head: Omit<AuditHead, 'mac' | 'id'>): string =>
  sign(key, [
    'berth audit head 1',
    head.seq,
    head.hash,
    head.firstSeq,
    head.firstPrevious,
    head.legacyId,
  ])

const keys = new WeakMap<object, KeyObject[]>()

/** The present key comes first; former keys still check the rows they signed. */
export function auditKeys(ctx: Pick<Context, 'secretStore'>): [KeyObject, ...KeyObject[]] {
  const known = keys.get(ctx.secretStore) ?? ctx.secretStore.deriveKeys('sign audit')
  keys.set(ctx.secretStore, known)
  return known as [KeyObject, ...KeyObject[]]
}

/** `change` calls this after the work, right before the commit. */
export async function appendAudits(ctx: Pick<Context, 'secretStore'>, c: Change): Promise<void> {
  if (c.audits.length === 0) return
  for (const entry of c.audits) {
    entry.subjectName ??= await findSubjectName(c.db, entry.subjectType, entry.subjectId)
  }
  const [key] = auditKeys(ctx)
  const head = await advanceAuditHead(c.db, c.audits.length)
  let seq = head.seq - c.audits.length
  let previousHash = head.hash
  const rows = c.audits.map(({ details, ...entry }) => {
    seq += 1
    const row: Chained = { ...entry, details: JSON.stringify(details), seq, previousHash }
    previousHash = hashOfRow(key, row)
    return { ...row, hash: previousHash }
  })
  await insertAudits(c.db, rows)
  const next = { ...head, hash: previousHash }
  await updateAuditHead(c.db, { ...next, mac: macOfHead(key, next) })
}
