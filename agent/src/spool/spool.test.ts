// The spool as a whole: the reader returns what the writer was given, also after accidents.
import { createHash } from 'node:crypto'
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import { forEachRecord, GapReason, LogSource } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { blocksOf, segmentPath } from './format.ts'
import { SpoolReader } from './reader.ts'
import {
  fill,
  line,
  lines,
  makeFolder,
  put,
  readAll,
  removeFolder,
  type Seen,
  textOf,
} from './spool.testing.ts'
import { appendTailAfterDeath } from './tail.ts'
import { type SpoolLimits, SpoolWriter } from './writer.ts'

let folder = ''
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => removeFolder(folder))

describe('whole', () => {
  test('what was written is read, with one number per record and the digest of all data', () => {
    const writer = SpoolWriter.create(folder)
    const all = lines(1, 5_000)
    for (const [i, text] of all.entries()) expect(put(writer, text)).toBe(i + 1)
    const end = writer.finish()
    const reader = SpoolReader.open(folder)
    const seen = readAll(reader)
    expect(seen.map((s) => s.text)).toEqual(all)
    expect(end).toMatchObject({
      finalSeq: 5_000,
      bytesTotal: Buffer.byteLength(all.join('')),
      bytesDropped: 0,
    })
    expect(Buffer.from(end.sha256).toString('hex')).toBe(
      createHash('sha256').update(all.join('')).digest('hex'),
    )
    expect([reader.firstSeq, reader.lastSeq]).toEqual([1, 5_000])
    reader.close()
  })

  test('fields of a record survive', () => {
    const writer = SpoolWriter.create(folder)
    writer.append(123_456, LogSource.PTY, 7, Buffer.from('__57 %__'), 2, 6, true)
    writer.finish()
    const batch = SpoolReader.open(folder).read()
    const fields: unknown[] = []
    forEachRecord(batch?.records ?? Buffer.alloc(0), (time, source, step, start, end, replaces) => {
      fields.push(time, source, step, batch?.records.toString('utf8', start, end), replaces)
    })
    expect(fields).toEqual([123_456, LogSource.PTY, 7, '57 %', true])
  })

  test('the reader follows the writer, over the borders of segments', () => {
    const writer = SpoolWriter.create(folder, { segmentBytes: 2_048 })
    const reader = SpoolReader.open(folder)
    const seen: Seen[] = []
    for (let n = 1; n <= 300; n++) {
      expect(reader.read()).toBeUndefined()
      put(writer, line(n))
      expect(reader.read()).toBeUndefined() // taken, not written
      writer.flush()
      seen.push(...readAll(reader))
    }
    expect(seen.map((s) => s.text)).toEqual(lines(1, 300))
    expect(readdirSync(folder).length).toBeGreaterThan(5)
    writer.finish()
    reader.close()
  })

  test('reading begins at any record, in batches of any size', () => {
    fill(folder, 500).finish()
    for (const after of [0, 1, 9, 10, 11, 250, 499, 500]) {
      for (const maxBytes of [100, 1_000, LOGS.chunkBytes]) {
        const reader = SpoolReader.open(folder, after)
        const seen = readAll(reader, maxBytes)
        expect(seen.map((s) => s.seq)).toEqual(lines(after + 1, 500).map((_, i) => after + 1 + i))
        expect(textOf(seen)).toBe(lines(after + 1, 500).join(''))
        reader.close()
      }
    }
    const reader = SpoolReader.open(folder)
    readAll(reader)
    reader.seek(123)
    expect(readAll(reader)[0]).toMatchObject({ seq: 124, text: line(124) })
    reader.close()
  })

  test('small blocks are sent together, large ones as they are', () => {
    fill(folder, 100, { segmentBytes: LOGS.segmentBytes }, 1).finish()
    const reader = SpoolReader.open(folder)
    expect(reader.read()?.count).toBe(100)
    reader.close()
  })

  test('a record as long as they come fits, and one too long is refused', () => {
    const writer = SpoolWriter.create(folder)
    for (let n = 0; n < 5; n++) put(writer, 'x'.repeat(LOGS.recordBytes))
    expect(() => put(writer, 'x'.repeat(LOGS.blockBytes))).toThrow(RangeError)
    writer.finish()
    const reader = SpoolReader.open(folder)
    expect(readAll(reader).length).toBe(5)
    reader.close()
  })

  test('what was read can be synced while more is read, and after closing', async () => {
    const writer = fill(folder, 400)
    const reader = SpoolReader.open(folder)
    reader.read(3_000)
    const first = reader.syncRead()
    readAll(reader)
    const second = reader.syncRead()
    await Promise.all([first, second, writer.sync(), writer.sync()])
    void writer.sync()
    writer.finish()
    const third = reader.syncRead()
    reader.close()
    await third
  })
})

describe('head and tail', () => {
  const limits = { headBytes: 10_000, tailBytes: 4_096, segmentBytes: 8_192 }

  test('past the head the end is kept, behind a record that says how much is missing', () => {
    const writer = fill(folder, 2_000, limits)
    const end = writer.finish()
    const all = lines(1, 2_000).join('')
    const reader = SpoolReader.open(folder)
    const seen = readAll(reader)
    const gap = seen.findIndex((s) => s.source === LogSource.GAP)
    const head = textOf(seen.slice(0, gap))
    const tail = textOf(seen.slice(gap + 1))
    expect(seen.map((s) => s.seq)).toEqual(seen.map((_, i) => i + 1))
    expect(all.startsWith(head)).toBe(true)
    expect(all.endsWith(tail)).toBe(true)
    expect(head.length).toBeGreaterThan(9_000)
    expect(tail.length).toBeGreaterThanOrEqual(limits.tailBytes / 2)
    const missing = all.length - head.length - tail.length
    expect(seen[gap]).toMatchObject({ gapBytes: missing, gapReason: GapReason.LIMIT })
    expect(seen[gap]?.text).toBe(
      `[… ${missing} bytes were not kept: the log passed 10000 bytes …]\n`,
    )
    expect(end).toMatchObject({
      finalSeq: seen.length,
      bytesTotal: all.length,
      bytesDropped: missing,
    })
    expect(createHash('sha256').update(textOf(seen)).digest().equals(end.sha256)).toBe(true)
    expect(readdirSync(folder).filter((name) => name.startsWith('tail'))).toEqual([])
    reader.close()
  })

  test('a tail that lost nothing comes back without a gap', () => {
    const writer = fill(folder, 230, limits)
    const end = writer.finish()
    expect(end.bytesDropped).toBe(0)
    const reader = SpoolReader.open(folder)
    expect(textOf(readAll(reader))).toBe(lines(1, 230).join(''))
    reader.close()
  })

  test('the daemon appends the tail of a dead runner, once, also when it dies over it', () => {
    fill(folder, 2_000, limits)
    const whole = appendTailAfterDeath(folder, limits)
    const reader = SpoolReader.open(folder)
    const seen = readAll(reader)
    reader.close()
    const all = lines(1, 2_000).join('')
    const gap = seen.findIndex((s) => s.source === LogSource.GAP)
    expect(all.startsWith(textOf(seen.slice(0, gap)))).toBe(true)
    expect(all.endsWith(textOf(seen.slice(gap + 1)))).toBe(true)
    expect(whole).toMatchObject({ finalSeq: seen.length, bytesTotal: all.length })
    expect(whole.bytesDropped).toBe(seen[gap]?.gapBytes)
    expect(whole.sha256.length).toBe(0)
    expect(appendTailAfterDeath(folder, limits)).toEqual(whole)

    // Interrupt after each appended block: truncate the segments, restore the tail files, repeat.
    rmSync(folder, { recursive: true })
    fill(folder, 2_000, limits)
    const tails = ['tail-a', 'tail-b'].map(
      (name) => [name, readFileSync(join(folder, name))] as const,
    )
    for (const allowed of [0, 1, 1, 1]) {
      let writes = 0
      const write: SpoolLimits['write'] = (fd, bytes, from, length, position) => {
        if (writes++ >= allowed) throw new Error('power loss')
        return writeSync(fd, bytes, from, length, position)
      }
      expect(() => appendTailAfterDeath(folder, { ...limits, write })).toThrow('power loss')
      for (const [name, bytes] of tails) writeFileSync(join(folder, name), bytes)
    }
    expect(appendTailAfterDeath(folder, limits)).toEqual(whole)
    const again = SpoolReader.open(folder)
    expect(readAll(again)).toEqual(seen)
    again.close()
  })

  test('a dead runner’s torn block is cut off', () => {
    fill(folder, 95, {}, 10)
    const file = segmentPath(folder, 1)
    const blocks = [...blocksOf(readFileSync(file))]
    truncateSync(file, (blocks.at(-1)?.at ?? 0) + 40)
    const end = appendTailAfterDeath(folder)
    expect(end.finalSeq).toBe(90)
    expect(readFileSync(file).length).toBe(blocks.at(-1)?.at)
    expect(appendTailAfterDeath(folder).finalSeq).toBe(90)
    const reader = SpoolReader.open(folder)
    expect(readAll(reader).length).toBe(90)
    reader.close()
  })

  test('a runner that died before its first block', () => {
    mkdirSync(folder)
    expect(appendTailAfterDeath(folder)).toMatchObject({ finalSeq: 0, bytesTotal: 0 })
    SpoolWriter.create(folder)
    expect(appendTailAfterDeath(folder).finalSeq).toBe(0)
  })
})

describe('damage', () => {
  function damage(segment: number, block: number): void {
    const file = segmentPath(folder, segment)
    const bytes = readFileSync(file)
    const at = [...blocksOf(bytes)][block]?.at ?? 0
    bytes.writeUInt8(bytes.readUInt8(at + 100) ^ 1, at + 100)
    writeFileSync(file, bytes)
  }

  test('a damaged block becomes as many GAP records, with the bytes that are missing', () => {
    fill(folder, 100, { segmentBytes: LOGS.segmentBytes }).finish()
    damage(1, 3) // lines 31…40
    const reader = SpoolReader.open(folder)
    const seen = readAll(reader)
    expect(seen.map((s) => s.seq)).toEqual(lines(1, 100).map((_, i) => i + 1))
    expect(textOf(seen.slice(0, 30)) + textOf(seen.slice(40))).toBe(
      lines(1, 30).join('') + lines(41, 100).join(''),
    )
    expect(seen[30]).toMatchObject({
      source: LogSource.GAP,
      gapReason: GapReason.DAMAGED,
      gapBytes: lines(31, 40).join('').length,
    })
    expect(seen.slice(31, 40).every((s) => s.source === LogSource.GAP && s.text === '')).toBe(true)
    // also when reading begins inside it
    reader.seek(34)
    expect(readAll(reader)[0]).toMatchObject({ seq: 35, gapReason: GapReason.DAMAGED })
    reader.close()
  })

  test('the first and the last block of a full segment, and a whole segment', () => {
    fill(folder, 1_000).finish()
    damage(2, 0)
    const second = [...blocksOf(readFileSync(segmentPath(folder, 2)))]
    damage(2, second.length - 1)
    writeFileSync(segmentPath(folder, 4), Buffer.alloc(5_000, 'BLK1'))
    const reader = SpoolReader.open(folder)
    const seen = readAll(reader)
    expect(seen.map((s) => s.seq)).toEqual(lines(1, 1_000).map((_, i) => i + 1))
    for (const s of seen) if (s.source !== LogSource.GAP) expect(s.text).toBe(line(s.seq))
    expect(seen.filter((s) => s.text !== '' && s.source === LogSource.GAP).length).toBe(3)
    reader.close()
  })

  test('an unreadable end is "not yet", and a gap when the log has ended', () => {
    const writer = fill(folder, 95)
    const reader = SpoolReader.open(folder)
    appendFileSync(segmentPath(folder, 1), Buffer.alloc(500))
    expect(readAll(reader).length).toBe(95)
    expect(reader.read()).toBeUndefined()
    writer.finish()
    reader.end(97)
    expect(readAll(reader)).toMatchObject([
      { seq: 96, gapReason: GapReason.DAMAGED },
      { seq: 97, text: '' },
    ])
    expect(reader.read()).toBeUndefined()
    reader.close()
  })

  test('a block that is half there is "not yet", even with a block inside its text', () => {
    const writer = fill(folder, 10)
    const file = segmentPath(folder, 1)
    const decoy = readFileSync(file)
    writer.append(1, LogSource.STDOUT, 0, Buffer.concat([decoy, Buffer.alloc(500, 'z')]))
    writer.flush()
    const whole = readFileSync(file)
    truncateSync(file, whole.length - 100)
    const reader = SpoolReader.open(folder)
    expect(readAll(reader).length).toBe(10)
    writeFileSync(file, whole)
    expect(readAll(reader).length).toBe(1)
    reader.close()
  })
})
