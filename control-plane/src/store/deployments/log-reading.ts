// Reads byte ranges, records and lines from the two files of a log. Each stream opens its own handle and holds one
// buffer, so a slow reader costs 64 KiB and never blocks a writer.
import { createHash } from 'node:crypto'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { codeOf } from '../engine/faults.ts'

/** The files do not hold what the rows say: they were deleted, or the database was restored without them. */
export class LogGone extends Error {}

export const ENTRY_BYTES = 24
const BUFFER = 64 * 1_024
const BATCH = 2_048 // entries per read
const NO_STEP = 0xffff
const REPLACES = 1

export interface StoredRecord {
  timeUs: number
  line: number
  /** Index in the plan; undefined if the record belongs to no step. */
  step: number | undefined
  source: number
  replacesPrevious: boolean
  data: Buffer
}

export interface RecordQuery {
  /** Records [from, to), from 0; `bytes` is the length of the log up to `to`. */
  from: number
  to: number
  bytes: number
  fromLine?: number
  untilLine?: number
  /** Only records of these steps. */
  steps?: ReadonlySet<number> | undefined
}

export function writeEntry(
  target: Buffer,
  at: number,
  timeUs: number,
  offset: number,
  line: number,
  step: number | undefined,
  source: number,
  replaces: boolean,
): void {
  target.writeDoubleLE(timeUs, at)
  target.writeDoubleLE(offset, at + 8)
  target.writeUInt32LE(line >>> 0, at + 16)
  target.writeUInt16LE(step === undefined || step >= NO_STEP ? NO_STEP : step, at + 20)
  target.writeUInt8(source & 0xff, at + 22)
  target.writeUInt8(replaces ? REPLACES : 0, at + 23)
}

const offsetAt = (entries: Buffer, n: number): number => entries.readDoubleLE(n * ENTRY_BYTES + 8)
const lineAt = (entries: Buffer, n: number): number => entries.readUInt32LE(n * ENTRY_BYTES + 16)
const stepAt = (entries: Buffer, n: number): number => entries.readUInt16LE(n * ENTRY_BYTES + 20)

const openLog = (path: string): Promise<FileHandle> =>
  open(path, 'r').catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
    throw new LogGone('a log file is not there')
  })

async function openBoth(
  idxPath: string,
  logPath: string,
): Promise<{ idx: FileHandle; log: FileHandle }> {
  const idx = await openLog(idxPath)
  try {
    return { idx, log: await openLog(logPath) }
  } catch (error) {
    await idx.close()
    throw error
  }
}

/** Returns whether the file has at least as many bytes as the rows say; the rest is not durable yet. */
export async function hasBytes(path: string, bytes: number): Promise<boolean> {
  if (bytes === 0) return true
  const found = await stat(path).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
  })
  return found !== undefined && found.size >= bytes
}

async function fill(file: FileHandle, target: Buffer, at: number): Promise<void> {
  for (let done = 0; done < target.length; ) {
    const { bytesRead } = await file.read(target, done, target.length - done, at + done)
    if (bytesRead === 0) throw new LogGone('a log file is shorter than its rows say')
    done += bytesRead
  }
}

export async function* readBytes(path: string, from: number, to: number): AsyncGenerator<Buffer> {
  if (to <= from) return
  const file = await openLog(path)
  try {
    yield* slices(file, from, to)
  } finally {
    await file.close()
  }
}

async function* slices(file: FileHandle, from: number, to: number): AsyncGenerator<Buffer> {
  for (let at = from; at < to; ) {
    const piece = Buffer.allocUnsafe(Math.min(BUFFER, to - at)) // allocated per chunk, because the consumer keeps it
    await fill(file, piece, at)
    yield piece
    at += piece.length
  }
}

/** Yields entries [from, to) in batches, each with one more entry (or the end) so that every length is known. */
async function* entryBatches(
  idx: FileHandle,
  query: RecordQuery,
): AsyncGenerator<{ entries: Buffer; count: number; end: number }> {
  for (let at = query.from; at < query.to; at += BATCH) {
    const count = Math.min(BATCH, query.to - at)
    const more = at + count < query.to ? 1 : 0
    const entries = Buffer.allocUnsafe((count + more) * ENTRY_BYTES)
    await fill(idx, entries, at * ENTRY_BYTES)
    yield { entries, count, end: more ? offsetAt(entries, count) : query.bytes }
  }
}

function wanted(entries: Buffer, n: number, query: RecordQuery): boolean {
  const line = lineAt(entries, n)
  if (line < (query.fromLine ?? 0) || line >= (query.untilLine ?? Number.POSITIVE_INFINITY)) {
    return false
  }
  return query.steps === undefined || query.steps.has(stepAt(entries, n))
}

const isPast = (entries: Buffer, query: RecordQuery): boolean =>
  query.untilLine !== undefined && lineAt(entries, 0) >= query.untilLine

export async function* readRecords(
  logPath: string,
  idxPath: string,
  query: RecordQuery,
): AsyncGenerator<StoredRecord> {
  if (query.to <= query.from) return
  const { idx, log } = await openBoth(idxPath, logPath)
  let part = { from: 0, bytes: Buffer.alloc(0) }
  try {
    for await (const { entries, count, end } of entryBatches(idx, query)) {
      if (isPast(entries, query)) return
      for (let n = 0; n < count; n++) {
        if (!wanted(entries, n, query)) continue
        const from = offsetAt(entries, n)
        const to = n + 1 < count ? offsetAt(entries, n + 1) : end
        if (from < part.from || to > part.from + part.bytes.length) {
          // reads many records together, because most have a few dozen bytes
          const bytes = Buffer.allocUnsafe(Math.max(to - from, Math.min(BUFFER, end - from)))
          await fill(log, bytes, from)
          part = { from, bytes }
        }
        const data = part.bytes.subarray(from - part.from, to - part.from)
        const step = stepAt(entries, n)
        yield {
          timeUs: entries.readDoubleLE(n * ENTRY_BYTES),
          line: lineAt(entries, n),
          step: step === NO_STEP ? undefined : step,
          source: entries.readUInt8(n * ENTRY_BYTES + 22),
          replacesPrevious: (entries.readUInt8(n * ENTRY_BYTES + 23) & REPLACES) !== 0,
          data,
        }
      }
    }
  } finally {
    await idx.close()
    await log.close()
  }
}

export async function* readRuns(
  logPath: string,
  idxPath: string,
  query: RecordQuery,
): AsyncGenerator<Buffer> {
  if (query.to <= query.from) return
  const { idx, log } = await openBoth(idxPath, logPath)
  let run: { from: number; to: number } | undefined
  try {
    for await (const { entries, count, end } of entryBatches(idx, query)) {
      if (isPast(entries, query)) break
      for (let n = 0; n < count; n++) {
        if (!wanted(entries, n, query)) continue
        const from = offsetAt(entries, n)
        const to = n + 1 < count ? offsetAt(entries, n + 1) : end
        if (run && run.to === from) {
          run.to = to
          continue
        }
        if (run) yield* slices(log, run.from, run.to)
        run = { from, to }
      }
    }
    if (run) yield* slices(log, run.from, run.to)
  } finally {
    await idx.close()
    await log.close()
  }
}

async function readEntry(idx: FileHandle, n: number): Promise<Buffer> {
  const entry = Buffer.allocUnsafe(ENTRY_BYTES)
  await fill(idx, entry, n * ENTRY_BYTES)
  return entry
}

/** Binary search: line numbers never decrease from record to record. */
export async function findLine(idxPath: string, line: number, records: number): Promise<number> {
  if (records === 0) return 0
  const idx = await openLog(idxPath)
  try {
    let low = 0
    let high = records
    while (low < high) {
      const middle = (low + high) >>> 1
      if (lineAt(await readEntry(idx, middle), 0) < line) low = middle + 1
      else high = middle
    }
    return low
  } finally {
    await idx.close()
  }
}

export async function readLine(idxPath: string, seq: number): Promise<number> {
  const idx = await openLog(idxPath)
  try {
    return lineAt(await readEntry(idx, seq - 1), 0)
  } finally {
    await idx.close()
  }
}

export async function hashBytes(path: string, bytes: number): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of readBytes(path, 0, bytes)) hash.update(piece)
  return hash.digest('hex')
}
