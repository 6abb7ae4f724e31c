// Shared by the tests of the spool: a temporary folder, a log of numbered lines, and a reader that checks the
// guarantees of every batch.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import { forEachRecord, type GapReason, LogSource, sumData } from '@berth/shared/wire'
import { expect } from 'vitest'
import type { SpoolReader } from './reader.ts'
import { type SpoolLimits, SpoolWriter } from './writer.ts'

export const makeFolder = (): string => join(mkdtempSync(join(tmpdir(), 'berth-spool-')), 'log')
export const removeFolder = (folder: string): void =>
  rmSync(join(folder, '..'), { recursive: true, force: true })

export interface Seen {
  seq: number
  text: string
  source: LogSource
  gapBytes: number
  gapReason: GapReason
}

export const put = (writer: SpoolWriter, text: string): number =>
  writer.append(1_780_000_000_000_000, LogSource.STDOUT, 1, Buffer.from(text))

/** Reads to the end and checks the guarantees of every batch. */
export function readAll(reader: SpoolReader, maxBytes?: number): Seen[] {
  const seen: Seen[] = []
  let expected = reader.nextSeq
  for (let batch = reader.read(maxBytes); batch !== undefined; batch = reader.read(maxBytes)) {
    const { records } = batch
    expect(batch.firstSeq).toBe(expected)
    expect(batch.lastSeq - batch.firstSeq + 1).toBe(batch.count)
    const { crc32c, dataBytes, count } = sumData(records)
    expect({ crc32c, dataBytes, count }).toEqual({
      crc32c: batch.crc32c,
      dataBytes: batch.dataBytes,
      count: batch.count,
    })
    // At least one block, and blocks of `fill` have up to 1,500 bytes.
    expect(records.length).toBeLessThanOrEqual(Math.max(maxBytes ?? LOGS.chunkBytes, 1_500))
    let seq = batch.firstSeq
    forEachRecord(records, (_time, source, _step, start, end, _replaces, gapBytes, gapReason) => {
      seen.push({ seq, text: records.toString('utf8', start, end), source, gapBytes, gapReason })
      seq++
    })
    expected = batch.lastSeq + 1
  }
  return seen
}

export const textOf = (seen: Seen[]): string => seen.map((s) => s.text).join('')
export const line = (n: number): string => `line ${n} ${'.'.repeat(n % 90)}\n`
export const lines = (from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, i) => line(from + i))

/** A spool of small segments that holds lines 1…count; one block per `flushEvery` lines. */
export function fill(
  folder: string,
  count: number,
  limits: Partial<SpoolLimits> = {},
  flushEvery = 10,
): SpoolWriter {
  const writer = SpoolWriter.create(folder, { segmentBytes: 8 * 1_024, ...limits })
  for (let n = 1; n <= count; n++) {
    put(writer, line(n))
    if (n % flushEvery === 0) writer.flush()
  }
  writer.flush()
  return writer
}
