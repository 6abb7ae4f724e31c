// Reads byte ranges, records and lines from the two files of a log. Each stream opens its own handle and holds one
// buffer, so a slow reader costs 64 KiB and never blocks a writer.
import { createHash } from 'node:crypto'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { codeOf } from '../engine/faults.ts'
import {
  ENTRY_BYTES,
  isPast,
  isWanted,
  LogGone,
  lineAt,
  offsetAt,
  type RecordQuery,
  recordAt,
  type StoredRecord,
} from './log-index.ts'
import { BLOCK_BYTES, type Block } from './log-store.ts'

const BUFFER = 64 * 1_024
const BATCH = 2_048 // entries per read

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
        if (!isWanted(entries, n, query)) continue
        const from = offsetAt(entries, n)
        const to = n + 1 < count ? offsetAt(entries, n + 1) : end
        if (from < part.from || to > part.from + part.bytes.length) {
          // reads many records together, because most have a few dozen bytes
          const bytes = Buffer.allocUnsafe(Math.max(to - from, Math.min(BUFFER, end - from)))
          await fill(log, bytes, from)
          part = { from, bytes }
        }
        const data = part.bytes.subarray(from - part.from, to - part.from)
        yield recordAt(entries, n, data)
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
        if (!isWanted(entries, n, query)) continue
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

/** The log as blocks, one at a time: for a database that takes over its files. */
export async function* readBlocks(
  logPath: string,
  idxPath: string,
  length: { records: number; bytes: number },
): AsyncGenerator<Block> {
  const query = { from: 0, to: length.records, bytes: length.bytes }
  const { idx, log } = await openBoth(idxPath, logPath)
  let seq = 0
  try {
    for await (const { entries, count, end } of entryBatches(idx, query)) {
      const offset = (n: number): number => (n < count ? offsetAt(entries, n) : end)
      for (let first = 0; first < count; ) {
        let next = first + 1
        while (next < count && sizeOf(offset(first), offset(next), next - first) < BLOCK_BYTES)
          next++
        const data = Buffer.allocUnsafe(offset(next) - offset(first))
        await fill(log, data, offset(first))
        const part = entries.subarray(first * ENTRY_BYTES, next * ENTRY_BYTES)
        const records = next - first
        yield { seq, records, start: offset(first), line: lineAt(part, 0), entries: part, data }
        seq += records
        first = next
      }
    }
  } finally {
    await idx.close()
    await log.close()
  }
}

const sizeOf = (from: number, to: number, records: number): number =>
  to - from + records * ENTRY_BYTES

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

export async function readLines(idxPath: string, seqs: readonly number[]): Promise<number[]> {
  if (seqs.length === 0) return []
  const idx = await openLog(idxPath)
  try {
    const lines: number[] = []
    for (const seq of seqs) lines.push(lineAt(await readEntry(idx, seq - 1), 0))
    return lines
  } finally {
    await idx.close()
  }
}

export async function hashBytes(path: string, bytes: number): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of readBytes(path, 0, bytes)) hash.update(piece)
  return hash.digest('hex')
}
