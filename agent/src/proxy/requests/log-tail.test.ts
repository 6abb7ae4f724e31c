import {
  appendFileSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { REQUEST_LOG } from '../../limits/proxy.ts'
import { LogTail } from './log-tail.ts'

let dir: string
let file: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-tail-'))
  file = join(dir, 'access.log')
})
afterEach(() => rmSync(dir, { recursive: true }))

async function linesOf(tail: LogTail): Promise<string[]> {
  const lines: string[] = []
  await tail.read((line) => lines.push(line.toString()))
  return lines
}

test('reads what was added, and a line when its end is there', async () => {
  const tail = new LogTail(file)
  expect(await linesOf(tail)).toEqual([])
  expect(tail.position).toBeUndefined()
  writeFileSync(file, 'one\ntw')
  expect(await linesOf(tail)).toEqual(['one'])
  appendFileSync(file, 'o\nthree\n')
  expect(await linesOf(tail)).toEqual(['two', 'three'])
  expect(await linesOf(tail)).toEqual([])
  await tail.close()
})

test('a rotation loses no line, whether it was read up to there or not', async () => {
  const tail = new LogTail(file)
  writeFileSync(file, 'one\n')
  expect(await linesOf(tail)).toEqual(['one'])
  appendFileSync(file, 'two\n')
  renameSync(file, `${file}.1`)
  expect(await linesOf(tail)).toEqual(['two'])
  writeFileSync(file, 'three\n')
  // the rotated file is compressed and removed; the open one is still read
  rmSync(`${file}.1`)
  expect(await linesOf(tail)).toEqual(['three'])
  await tail.close()
})

test('goes on where it was, after a restart, in the middle of a line too', async () => {
  const first = new LogTail(file)
  writeFileSync(file, 'one\ntwo\nthr')
  expect(await linesOf(first)).toEqual(['one', 'two'])
  const { position } = first
  await first.close()
  appendFileSync(file, 'ee\n')
  const second = new LogTail(file, position)
  expect(await linesOf(second)).toEqual(['three'])
  await second.close()
  writeFileSync(join(dir, 'other'), 'new one\n')
  renameSync(join(dir, 'other'), file)
  const third = new LogTail(file, position)
  expect(await linesOf(third)).toEqual(['new one'])
  await third.close()
})

test('starts again with a file that was cut', async () => {
  const tail = new LogTail(file)
  writeFileSync(file, 'a long first line\n')
  await linesOf(tail)
  truncateSync(file, 0)
  appendFileSync(file, 'two\n')
  expect(await linesOf(tail)).toEqual(['two'])
  await tail.close()
})

test('a line that is too long is passed over, in one read and in many', async () => {
  const long = 'x'.repeat(REQUEST_LOG.lineBytes + 1)
  const tail = new LogTail(file)
  writeFileSync(file, `one\n${long}\ntwo\n${long}`)
  expect(await linesOf(tail)).toEqual(['one', 'two'])
  for (let i = 0; i < 10; i++) appendFileSync(file, long)
  expect(await linesOf(tail)).toEqual([])
  const { position } = tail
  appendFileSync(file, '\nthree\n')
  expect(await linesOf(tail)).toEqual(['three'])
  await tail.close()
  // the position of before is the start of the long line
  const again = new LogTail(file, position)
  expect(await linesOf(again)).toEqual(['three'])
  await again.close()
})

test('a round is bounded; the next one goes on', async () => {
  const line = `${'y'.repeat(1_023)}\n`
  const lines = REQUEST_LOG.bytesPerRound / line.length + 100
  writeFileSync(file, line.repeat(lines))
  const tail = new LogTail(file)
  let seen = 0
  const count = (): void => {
    seen++
  }
  expect(await tail.read(count)).toBe(false)
  expect(seen).toBeLessThan(lines)
  expect(await tail.read(count)).toBe(true)
  expect(seen).toBe(lines)
  await tail.close()
})

test('refuses what is not a file', async () => {
  const link = join(dir, 'link')
  writeFileSync(file, 'one\n')
  symlinkSync(file, link)
  await expect(linesOf(new LogTail(link))).rejects.toThrow()
  await expect(linesOf(new LogTail(dir))).rejects.toThrow()
})
