// Checks the audit log: walks the chain from its oldest kept row to its head and reports what does not fit. Also trims
// it: only the oldest rows are deleted, and the head keeps the hash at which the rest begins.
import { REST } from '@berth/shared'
import type { Context } from '../../context.ts'
import {
  type AuditHead,
  type AuditRow,
  advanceAuditHead,
  countUnchained,
  deleteAuditBefore,
  findOldestAuditSince,
  getAuditHead,
  listAuditChain,
  updateAuditHead,
} from '../../store/core/audit.ts'
import { auditKeys, hashOfRow, macOfHead } from './audit-chain.ts'
import { change } from './transaction.ts'

/** The part of a context that the check needs; the command has only this part. */
type AuditContext = Pick<Context, 'db' | 'engine' | 'clock' | 'notifier' | 'secretStore'>

const BATCH = 1_000
const PROBLEMS = 20 // one proves the change; more help to find the place

export interface AuditVerdict {
  /** Rows that were checked. */
  rows: number
  /** Rows from before the chain began; the check covers none of them. */
  unchained: number
  /** The head. A copy kept elsewhere proves later that no rows were cut off. */
  seq: number
  hash: string
  problems: string[]
}

/** A new chain's head has no signature yet; the first start signs it. */
export async function openAuditChain(ctx: Context): Promise<void> {
  await change(ctx, async ({ db }) => {
    const head = await advanceAuditHead(db, 0)
    if (head.mac !== '' || head.seq !== 0) return
    await updateAuditHead(db, { ...head, mac: macOfHead(auditKeys(ctx)[0], head) })
  })
}

export async function verifyAudit(ctx: AuditContext): Promise<AuditVerdict> {
  const before = (await getAuditHead(ctx.db)).firstSeq
  const verdict = await walk(ctx)
  // retention deleted rows during the walk, so walk the remaining ones again
  return (await getAuditHead(ctx.db)).firstSeq === before ? verdict : walk(ctx)
}

function walk(ctx: AuditContext): Promise<AuditVerdict> {
  const keys = auditKeys(ctx)
  return change(ctx, async ({ db }) => {
    const head = await getAuditHead(db)
    const problems: string[] = []
    const note = (text: string): void => {
      if (problems.length < PROBLEMS) problems.push(text)
    }
    if (!keys.some((key) => macOfHead(key, head) === head.mac)) {
      note('The head of the chain was changed.')
    }
    let seq = head.firstSeq - 1
    let hash = head.firstPrevious
    let rows = 0
    for (;;) {
      const batch = await listAuditChain(db, seq, BATCH)
      const upTo = batch.filter((row) => (row.seq ?? 0) <= head.seq)
      for (const row of upTo) {
        judge(row, seq, hash, note)
        if (!keys.some((key) => hashOfRow(key, row) === row.hash)) {
          note(`Row ${row.id} (place ${row.seq}) was changed.`)
        }
        seq = row.seq ?? seq
        hash = row.hash ?? ''
        rows += 1
      }
      if (upTo.length < BATCH) break
    }
    if (seq !== head.seq || hash !== head.hash) {
      note(`The chain ends at place ${seq}, but its head is at ${head.seq}.`)
    }
    const unchained = await countUnchained(db, head.legacyId)
    if (unchained.after > 0) note(`${unchained.after} rows were put in beside the chain.`)
    return { rows, unchained: unchained.before, seq: head.seq, hash: head.hash, problems }
  })
}

function judge(row: AuditRow, seq: number, hash: string, note: (text: string) => void): void {
  if (row.seq !== seq + 1) {
    note(`Between places ${seq} and ${row.seq} rows are missing.`)
  } else if (row.previousHash !== hash) {
    note(`Row ${row.id} (place ${row.seq}) does not follow the one before it.`)
  }
}

/** Keeps 400 days; the head says where the remaining rows begin. */
export async function trimAudit(ctx: Context): Promise<void> {
  const before = ctx.clock.now() - REST.auditMs
  await change(ctx, async ({ db }) => {
    const head = await advanceAuditHead(db, 0)
    const first = await findOldestAuditSince(db, before)
    const next: AuditHead = first
      ? { ...head, firstSeq: first.seq ?? head.firstSeq, firstPrevious: first.previousHash ?? '' }
      : { ...head, firstSeq: head.seq + 1, firstPrevious: head.hash }
    await deleteAuditBefore(db, next.firstSeq, before)
    if (next.firstSeq === head.firstSeq) return
    await updateAuditHead(db, { ...next, mac: macOfHead(auditKeys(ctx)[0], next) })
  })
}
