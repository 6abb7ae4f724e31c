// Disk space: segments that are removed because they are stored elsewhere or given up, and full disks.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { GapReason, LogSource } from '@berth/shared/wire'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { blockBytes, blocksOf, segmentPath } from './format.ts'
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
import { type SpoolLimits, SpoolWriter } from './writer.ts'

let folder = ''
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => removeFolder(folder))

test('acknowledged segments go, the newest never', () => {
  fill(folder, 500).finish()
  const reader = SpoolReader.open(folder)
  readAll(reader)
  const before = reader.bytes
  const second = [...blocksOf(readFileSync(segmentPath(folder, 2)))][0]?.header.firstSeq ?? 0
  expect(reader.dropThrough(second - 2)).toBe(0)
  expect(reader.dropThrough(second - 1)).toBeGreaterThan(0)
  expect(reader.firstSeq).toBe(second)
  expect(reader.bytes).toBeLessThan(before)
  reader.dropThrough(500)
  expect(readdirSync(folder).length).toBe(1)
  expect(reader.lastSeq).toBe(500)
  reader.close()
})

test('evicted records are read as GAP records, from the oldest or from the middle', () => {
  for (const from of [0, 60]) {
    rmSync(folder, { recursive: true, force: true })
    fill(folder, 500).finish()
    const reader = SpoolReader.open(folder)
    const freed = reader.evictThrough(300, from)
    expect(freed).toBeGreaterThan(0)
    const seen = readAll(reader)
    expect(seen.map((s) => s.seq)).toEqual(lines(1, 500).map((_, i) => i + 1))
    const gaps = seen.filter((s) => s.source === LogSource.GAP)
    expect(gaps.length).toBeGreaterThan(50)
    expect(gaps[0]).toMatchObject({
      gapReason: GapReason.EVICTED,
      gapBytes: gaps.map((s) => line(s.seq)).join('').length,
    })
    expect(gaps.slice(1).every((s) => s.text === '')).toBe(true)
    for (const s of seen) if (s.source !== LogSource.GAP) expect(s.text).toBe(line(s.seq))
    if (from > 0) expect(seen[from]?.text).toBe(line(from + 1))
    reader.close()
  }
})

test('evicting what is being read', () => {
  fill(folder, 500).finish()
  const reader = SpoolReader.open(folder)
  const first = reader.read(200)
  expect(first?.lastSeq).toBeLessThan(50)
  reader.evictThrough(300)
  const seen = readAll(reader)
  expect(seen[0]).toMatchObject({ seq: (first?.lastSeq ?? 0) + 1, gapReason: GapReason.EVICTED })
  expect(seen.at(-1)).toMatchObject({ seq: 500, text: line(500) })
  reader.close()
})

/** A disk that takes `room` bytes; the last write is partial, like on a real system. */
function disk(room: number) {
  const state = { room }
  const write: SpoolLimits['write'] = (fd, bytes, from, length, position) => {
    const taken = Math.min(length, state.room)
    if (taken === 0) throw Object.assign(new Error('no room'), { code: 'ENOSPC' })
    state.room -= taken
    return writeSync(fd, bytes, from, taken, position)
  }
  return { state, write }
}

test('a full disk costs output and nothing else, and is told', () => {
  const { state, write } = disk(3_000)
  const writer = SpoolWriter.create(folder, { write, segmentBytes: 4_096 })
  for (let n = 1; n <= 3_000; n++) {
    put(writer, line(n))
    if (n % 10 === 0) writer.flush()
    if (n === 2_500) state.room = 1_000_000
  }
  const end = writer.finish()
  const reader = SpoolReader.open(folder)
  const seen = readAll(reader)
  reader.close()
  expect(seen.map((s) => s.seq)).toEqual(seen.map((_, i) => i + 1))
  const gaps = seen.filter((s) => s.source === LogSource.GAP)
  expect(gaps).toMatchObject([{ gapReason: GapReason.DISK }])
  const at = seen.indexOf(gaps[0] as Seen)
  const all = lines(1, 3_000).join('')
  const before = textOf(seen.slice(0, at))
  const after = textOf(seen.slice(at + 1))
  expect(all.startsWith(before)).toBe(true)
  expect(all.endsWith(after)).toBe(true)
  expect(after.length).toBeGreaterThan(10_000)
  expect(gaps[0]?.gapBytes).toBe(all.length - before.length - after.length)
  expect(end).toMatchObject({ bytesTotal: all.length, bytesDropped: gaps[0]?.gapBytes })
  expect(end.finalSeq).toBe(seen.length)
  expect(createHash('sha256').update(textOf(seen)).digest().equals(end.sha256)).toBe(true)
})

test('a disk that stays full: the log ends with its last whole block', () => {
  const { write } = disk(3_000)
  const writer = SpoolWriter.create(folder, { write })
  for (let n = 1; n <= 2_000; n++) {
    put(writer, line(n))
    if (n % 10 === 0) writer.flush()
  }
  const end = writer.finish()
  const reader = SpoolReader.open(folder)
  const seen = readAll(reader)
  reader.close()
  expect(textOf(seen)).toBe(lines(1, seen.length).join(''))
  expect(end.finalSeq).toBe(seen.length)
  expect(end.bytesDropped).toBe(end.bytesTotal - textOf(seen).length)
  expect([...blocksOf(readFileSync(segmentPath(folder, 1)))].at(-1)).toSatisfy(
    (last: { at: number; header: Parameters<typeof blockBytes>[0] }) =>
      last.at + blockBytes(last.header) === readFileSync(segmentPath(folder, 1)).length,
  )
})

test('a disk that is full while the tail is written', () => {
  const { state, write } = disk(25_000)
  const limits = { headBytes: 10_000, tailBytes: 4_096, write }
  const writer = SpoolWriter.create(folder, limits)
  for (let n = 1; n <= 1_000; n++) {
    put(writer, line(n))
    if (n % 10 === 0) writer.flush()
    if (n === 980) state.room = 1_000_000
  }
  const end = writer.finish()
  const reader = SpoolReader.open(folder)
  const seen = readAll(reader)
  reader.close()
  const all = lines(1, 1_000).join('')
  const kept = seen.filter((s) => s.source !== LogSource.GAP)
  expect(all.endsWith(kept.at(-1)?.text ?? '')).toBe(true)
  expect(end).toMatchObject({
    finalSeq: seen.length,
    bytesTotal: all.length,
    bytesDropped: all.length - textOf(kept).length,
  })
  const reported = seen.reduce((sum, s) => sum + s.gapBytes, 0)
  expect(reported).toBe(end.bytesDropped)
})

test('a real full file system', ({ skip }) => {
  const mount = join(folder, '..', 'small')
  mkdirSync(mount)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', mount], { stdio: 'ignore' })
  } catch {
    skip('mounting a small file system is not allowed here')
  }
  try {
    const log = join(mount, 'log')
    const writer = SpoolWriter.create(log)
    const ballast = join(mount, 'ballast')
    writeFileSync(ballast, Buffer.alloc(100_000))
    for (let n = 1; n <= 5_000; n++) put(writer, line(n))
    writer.flush()
    rmSync(ballast)
    writer.flush()
    for (let n = 5_001; n <= 5_100; n++) put(writer, line(n))
    const end = writer.finish()
    const reader = SpoolReader.open(log)
    const seen = readAll(reader)
    reader.close()
    expect(end.finalSeq).toBe(seen.length)
    expect(seen.filter((s) => s.gapReason === GapReason.DISK).length).toBe(1)
    expect(seen.at(-1)?.text).toBe(line(5_100))
  } finally {
    execFileSync('umount', [mount])
  }
})
