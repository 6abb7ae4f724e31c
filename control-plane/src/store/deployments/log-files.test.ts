import { createHash, randomUUID } from 'node:crypto'
import { appendFileSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodeRecord, LogSource, recordSize } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { LogFiles } from './log-files.ts'
import { LogGone, type LogPosition, type RecordQuery } from './log-index.ts'

const START: LogPosition = { records: 0, bytes: 0, lines: 0 }

function region(lines: { text: string; step?: number; source?: LogSource }[]): Buffer {
  const parts = lines.map(({ text, step = 0, source = LogSource.PTY }, i) => {
    const data = Buffer.from(text)
    const args = [1_000_000 + i, source, step] as const
    const target = Buffer.alloc(recordSize(...args, data.length, false, 0, 0))
    encodeRecord(target, 0, ...args, data, 0, data.length, false, 0, 0)
    return target
  })
  return Buffer.concat(parts)
}

const collect = async (pieces: AsyncIterable<Buffer>): Promise<string> => {
  const all: Buffer[] = []
  for await (const piece of pieces) all.push(piece)
  return Buffer.concat(all).toString()
}

describe('log files', () => {
  let dir: string
  let files: LogFiles
  const id = randomUUID()
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'berth-logs-'))
    files = new LogFiles(dir)
  })
  afterEach(() => {
    files.close()
    rmSync(dir, { recursive: true, force: true })
  })
  const whole = (at: LogPosition, over: Partial<RecordQuery> = {}): RecordQuery => ({
    from: 0,
    to: at.records,
    bytes: at.bytes,
    ...over,
  })

  test('records come back as bytes, by line and by step', async () => {
    const first = region([{ text: 'one\n' }, { text: 'tw' }, { text: 'o\n', step: 1 }])
    const second = region([{ text: 'three\nfour\n', step: 1 }, { text: 'five' }])
    const middle = files.append(id, START, first)
    const end = files.append(id, middle, second)
    expect(end).toEqual({ records: 5, bytes: 23, lines: 5 })
    expect(await collect(files.read(id, 0, end.bytes))).toBe('one\ntwo\nthree\nfour\nfive')
    expect(await collect(files.read(id, 4, 8))).toBe('two\n')
    expect(await files.linesOf(id, [1, 2, 3, 4, 5])).toEqual([1, 2, 2, 3, 5])
    expect(await collect(files.runs(id, whole(end, { steps: new Set([1]) })))).toBe(
      'o\nthree\nfour\n',
    )
    expect(await collect(files.runs(id, whole(end, { fromLine: 2, untilLine: 3 })))).toBe('two\n')
    expect(await files.findLine(id, 3, end.records)).toBe(3)
    expect(await files.findLine(id, 99, end.records)).toBe(5)
    const digest = createHash('sha256').update('one\ntwo\nthree\nfour\nfive').digest('hex')
    expect(await files.hash(id, end.bytes)).toBe(digest)
  })

  test('what lies beyond the rows is cut off, and the log goes on as if it had never been there', async () => {
    const kept = files.append(id, START, region([{ text: 'kept\n' }, { text: 'half' }]))
    files.append(id, kept, region([{ text: ' never acknowledged\n' }]))
    appendFileSync(join(dir, `${id}.log`), 'torn')
    appendFileSync(join(dir, `${id}.idx`), 'torn')
    files.close()
    files = new LogFiles(dir)
    files.truncate(id, kept)
    expect(statSync(join(dir, `${id}.log`)).size).toBe(kept.bytes)
    expect(statSync(join(dir, `${id}.idx`)).size).toBe(kept.records * 24)
    const end = files.append(id, kept, region([{ text: ' again\n' }, { text: 'next\n' }]))
    expect(await collect(files.read(id, 0, end.bytes))).toBe('kept\nhalf again\nnext\n')
    expect(end.lines).toBe(3)
    expect(await files.linesOf(id, [3])).toEqual([2])
  })

  test('records keep source, time and step; characters split over records are kept as bytes', async () => {
    const snow = Buffer.from('❄\n')
    const parts = region([{ text: 'x', source: LogSource.STDERR, step: 3 }])
    const end = files.append(id, START, Buffer.concat([parts, region([{ text: snow.toString() }])]))
    const seen = []
    for await (const record of files.records(id, whole(end))) seen.push(record)
    expect(seen[0]).toMatchObject({ timeUs: 1_000_000, line: 1, step: 3, source: LogSource.STDERR })
    expect(seen[1]?.data.equals(snow)).toBe(true)
  })

  test('a million records: lines are found, memory is not kept', async () => {
    const lines = Array.from({ length: 1_000 }, (_, i) => ({
      text: `${String(i).padStart(70, '0')}\n`,
    }))
    const chunk = region(lines)
    let at = START
    for (let i = 0; i < 1_000; i++) at = files.append(id, at, chunk)
    await files.sync([id])
    expect(at).toEqual({ records: 1_000_000, bytes: 71_000_000, lines: 1_000_000 })
    const from = await files.findLine(id, 765_432, at.records)
    expect(from).toBe(765_431)
    const text = await collect(
      files.runs(id, whole(at, { from, fromLine: 765_432, untilLine: 765_433 })),
    )
    expect(text).toBe(lines[431]?.text)
  })

  test('an id that is none never becomes a path', async () => {
    expect(() => files.append('../../etc/passwd', START, region([{ text: 'x' }]))).toThrow(
      /not the id/,
    )
    expect(() => files.read('..', 0, 1)).toThrow(/not the id/)
  })

  test('a log that is gone is gone', async () => {
    const at = files.append(id, START, region([{ text: 'x\n' }]))
    await files.remove(id)
    await expect(collect(files.read(id, 0, at.bytes))).rejects.toThrow(LogGone)
  })

  test('an unfinished line goes on after its files were closed for others, and is made durable', async () => {
    const half = files.append(id, START, region([{ text: 'ha' }]))
    for (let n = 0; n < 256; n++) files.append(randomUUID(), START, region([{ text: 'x\n' }]))
    const done = files.append(id, half, region([{ text: 'lf\n' }]))
    expect(done.lines).toBe(1)
    for (let n = 0; n < 256; n++) files.append(randomUUID(), START, region([{ text: 'x\n' }]))
    rmSync(join(dir, `${id}.log`))
    // sync opens the file again instead of reporting unsynced bytes as durable
    await files.sync([id])
    expect(statSync(join(dir, `${id}.log`)).size).toBe(0)
  })
})
