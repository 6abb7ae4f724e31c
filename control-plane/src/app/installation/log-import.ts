// Copies logs from files into the database: a control plane had them on its disk before it used PostgreSQL, or before
// logs moved there. Each log is copied in one transaction and compared, so an interrupted import goes on with the next
// one. Files stay for a day, so that an upgrade can be undone, and are removed after another comparison.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import type { Context } from '../../context.ts'
import { LOG_IMPORT } from '../../limits/installation.ts'
import { type Attempt, listAttemptsById, lockAttempt } from '../../store/deployments/attempts.ts'
import type { LogBlocks } from '../../store/deployments/log-blocks.ts'
import { LogFiles } from '../../store/deployments/log-files.ts'
import { change } from '../core/transaction.ts'

interface Import {
  logs: LogBlocks
  files: LogFiles
  ids: readonly string[]
}

const NAME = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.idx$/

function openImport({ logs, config }: Context): Import | undefined {
  const folder = join(config.dataDir, 'logs')
  if (logs.kind === 'files' || !existsSync(folder)) return undefined
  const ids = readdirSync(folder).flatMap((name) => NAME.exec(name)?.[1] ?? [])
  // newest first: ids are ordered by time, and people look for what happened last
  return ids.length > 0
    ? { logs, files: new LogFiles(folder), ids: ids.sort().reverse() }
    : undefined
}

/** Before agents connect, because they continue these logs. */
export async function importHeldLogs(ctx: Context): Promise<void> {
  const found = openImport(ctx)
  if (!found) return
  for await (const attempt of listAttempts(ctx, found.ids)) {
    if (attempt.releasedAt === null) await importLog(ctx, found, attempt)
  }
}

/** Returns a function that stops it; the next start goes on. */
export function startLogImport(ctx: Context): () => Promise<void> {
  const stop = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const run = (work: (ctx: Context, signal: AbortSignal) => Promise<void>): Promise<void> =>
    work(ctx, stop.signal).catch((error: unknown) =>
      ctx.log.error({ err: error }, 'logs on disk could not be moved into the database'),
    )
  let running = run(importLogs).then(() => {
    if (stop.signal.aborted) return
    timer = setTimeout(() => {
      running = run(removeImportedLogs)
    }, LOG_IMPORT.keptMs).unref()
  })
  return async () => {
    stop.abort()
    clearTimeout(timer)
    await running
  }
}

export async function importLogs(ctx: Context, signal: AbortSignal): Promise<void> {
  const found = openImport(ctx)
  if (!found) return
  let imported = 0
  for await (const attempt of listAttempts(ctx, found.ids)) {
    if (signal.aborted) return
    if (await importLog(ctx, found, attempt)) imported += 1
  }
  if (imported > 0) ctx.log.info({ imported }, 'logs on disk are in the database now')
}

/** Removes files whose log is equal in the database or past its retention. */
export async function removeImportedLogs(ctx: Context, signal: AbortSignal): Promise<void> {
  const found = openImport(ctx)
  if (!found) return
  const { logs, files } = found
  let removed = 0
  for await (const attempt of listAttempts(ctx, found.ids)) {
    if (signal.aborted) return
    const isOver = attempt.logExpiredAt !== null
    if (!isOver && !(await isStored(logs, attempt))) continue
    if (!isOver && !(await isEqual(found, attempt))) continue
    await files.remove(attempt.id)
    removed += 1
  }
  if (removed > 0) ctx.log.info({ removed }, 'log files that are in the database were removed')
}

async function* listAttempts(ctx: Context, ids: readonly string[]): AsyncGenerator<Attempt> {
  for (let from = 0; from < ids.length; from += LOG_IMPORT.batch) {
    const batch = ids.slice(from, from + LOG_IMPORT.batch)
    const rows = await listAttemptsById(ctx.db, batch)
    for (const id of batch) {
      const attempt = rows.get(id)
      if (attempt) yield attempt
    }
  }
}

const lengthOf = (a: Attempt) => ({ records: a.ackedLogSeq, bytes: a.logBytes })
const isStored = (logs: LogBlocks, a: Attempt): Promise<boolean> => logs.isWhole(a.id, lengthOf(a))

/** A log that went on in the database has more bytes than its file. */
async function isEqual({ logs, files }: Import, attempt: Attempt): Promise<boolean> {
  const bytes = Math.min(attempt.logBytes, files.bytesOf(attempt.id))
  return (await logs.hash(attempt.id, bytes)) === (await files.hash(attempt.id, bytes))
}

/** Returns whether it was copied now. */
async function importLog(ctx: Context, found: Import, { id }: Attempt): Promise<boolean> {
  const { logs, files } = found
  await logs.partitions.makeFor([id])
  const copied = await change(ctx, async ({ db, now }) => {
    const attempt = await lockAttempt(db, id) // another replica with the same disk waits here
    const isOver = !attempt || (attempt.finishedAt ?? now) < now - LOGS.retentionMs
    if (isOver || attempt.logExpiredAt !== null || attempt.ackedLogSeq === 0) return undefined
    if (await isStored(logs, attempt)) return undefined
    if (!(await files.isWhole(id, lengthOf(attempt)))) {
      ctx.log.warn({ attemptId: id }, 'a log on disk is shorter than its row says')
      return undefined
    }
    await logs.remove(db, id)
    for await (const block of files.blocks(id, lengthOf(attempt))) await logs.insert(db, id, block)
    return attempt
  })
  if (!copied) return false
  if (await isEqual(found, copied)) return true
  await change(ctx, ({ db }) => logs.remove(db, id))
  throw new Error(`the log ${id} is not equal in the database`)
}
