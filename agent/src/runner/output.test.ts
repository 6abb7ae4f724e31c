import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import { forEachRecord, LogSource, NO_STEP } from '@berth/shared/wire'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { SpoolReader } from '../spool/reader.ts'
import { SpoolWriter } from '../spool/writer.ts'
import { Output } from './output.ts'

const { STDOUT, STDERR, PTY, SYSTEM } = LogSource
let folder = ''
let now = 0
let output: Output

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-output-'))
  now = 0
  const spool = SpoolWriter.create(join(folder, 'log'))
  output = new Output({ spool, now: () => now, nowUs: () => 1_000 * now + 7 })
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

interface Seen {
  source: LogSource
  step: number
  text: string
  timeUs: number
}

/** The current content of the file, whether or not the writer continues. */
function stored(): Seen[] {
  const reader = SpoolReader.open(join(folder, 'log'))
  const seen: Seen[] = []
  for (let batch = reader.read(); batch !== undefined; batch = reader.read()) {
    const { records } = batch
    forEachRecord(records, (timeUs, source, step, start, end) => {
      seen.push({ source, step, text: records.toString('utf8', start, end), timeUs })
    })
  }
  reader.close()
  return seen
}

const pass = (ms: number): void => {
  now += ms
  output.tick()
}
const write = (source: LogSource, text: string): void => output.write(source, Buffer.from(text))

test('a line is in the file after one beat', () => {
  now = 5
  write(STDOUT, 'hello\n')
  expect(stored()).toEqual([])
  pass(LOGS.tickMs)
  expect(stored()).toEqual([{ source: STDOUT, step: NO_STEP, text: 'hello\n', timeUs: 5_007 }])
})

test('an unfinished line follows after a silence, and its end with the step', () => {
  output.setStep(3)
  write(STDOUT, 'Password: ')
  for (let ms = LOGS.tickMs; ms < LOGS.unfinishedMs; ms += LOGS.tickMs) pass(LOGS.tickMs)
  expect(stored()).toEqual([])
  pass(LOGS.tickMs)
  expect(stored().map((s) => s.text)).toEqual(['Password: '])
  write(STDOUT, 'no')
  output.endStep()
  output.setStep(4)
  output.say('Step 4')
  pass(1)
  expect(stored().map((s) => [s.step, s.text])).toEqual([
    [3, 'Password: '],
    [3, 'no'],
    [4, 'Step 4\n'],
  ])
})

test('values are masked in every source and message, whatever the cuts, and never by time', () => {
  output.setValues(['hunter2-hunter2'])
  for (const piece of ['a hun', 'ter2-hu', 'nter2 b\n']) {
    write(STDOUT, piece)
    pass(10_000)
  }
  expect(stored().map((s) => s.text)).toEqual(['a ', '*** b\n'])
  write(PTY, 'x hunter2-\u001b[1mhunter2\r\n')
  write(STDERR, 'hunter2-h')
  write(STDOUT, 'unter2 is not the rest\n')
  output.say('using hunter2-hunter2')
  output.endStep()
  pass(1)
  expect(stored().slice(2)).toMatchObject([
    { source: PTY, text: 'x ***\n' },
    { source: STDOUT, text: 'unter2 is not the rest\n' },
    { source: SYSTEM, text: 'using ***\n' },
    { source: STDERR, text: '***' },
  ])
  expect(output.maskText('failed with hunter2-hunter2.')).toBe('failed with ***.')
})

test('a message of several lines becomes several records, without an empty one at its end', () => {
  output.say('one\ntwo\n\n')
  output.say('three')
  pass(1)
  expect(stored().map((s) => s.text)).toEqual(['one\n', 'two\n', 'three\n'])
})

test('the end counts what was kept and brings all of it to the file', async () => {
  write(STDOUT, 'one\ntwo')
  expect(output.lastSeq).toBe(1)
  pass(LOGS.spoolSyncMs) // a sync is under way when the files are closed
  write(STDOUT, ' and more')
  const end = output.finish()
  expect(end).toMatchObject({ finalSeq: 3, bytesTotal: 16, bytesDropped: 0 })
  expect(stored().map((s) => s.text)).toEqual(['one\n', 'two', ' and more'])
})
