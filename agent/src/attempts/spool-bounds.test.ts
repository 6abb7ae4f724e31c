// Logs that the control plane does not fetch: which of them are shortened, and what is left of one.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AttemptState, Desired, forEachRecord, LogSource } from '@berth/shared/wire'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../clock.ts'
import { Journal } from '../journal/journal.ts'
import { silentLog } from '../log.ts'
import { type AgentSettings, readSettings } from '../settings.ts'
import { SpoolWriter } from '../spool/writer.ts'
import { insertAttempt } from './records.ts'
import { decideEvictions, keepSpoolBounds } from './spool-bounds.ts'
import { Spools } from './spools.ts'

const log = (attemptId: string, bytes: number, ageMs: number) => ({ attemptId, bytes, ageMs })
const LIMITS = { bytes: 100, ageMs: 1_000 }

test.each([
  ['within both bounds', [log('a', 60, 5), log('b', 40, 9)], []],
  ['over the bound: the oldest', [log('a', 60, 5), log('b', 41, 9)], ['b']],
  ['as many as it takes', [log('a', 90, 5), log('b', 20, 9), log('c', 20, 7)], ['b', 'c']],
  ['too old, whatever the size', [log('a', 1, 1_001), log('b', 1, 5)], ['a']],
])('%s', (_name, logs, expected) => {
  expect(decideEvictions(logs, LIMITS)).toEqual(expected)
})

let settings: AgentSettings
let journal: Journal
let spools: Spools
beforeEach(() => {
  settings = readSettings({ BERTH_STATE_DIR: mkdtempSync(join(tmpdir(), 'berth-bounds-')) })
  const fatal = (error: Error): void => {
    throw error
  }
  journal = Journal.open(settings.stateDir, { bootId: 'b', fatal })
  spools = new Spools(settings, journal)
})
afterEach(() => {
  spools.close()
  journal.close()
  rmSync(settings.stateDir, { recursive: true, force: true })
})

test('beginning and end of a shortened log stay, and the numbers keep their meaning', () => {
  const id = '01980000-0000-7000-8000-000000000001' // 2025
  const row = {
    id,
    environmentId: 1,
    fence: 1n,
    desired: Desired.RUNNING,
    assignment: Buffer.alloc(0),
    startWithinMs: 1,
    receivedMonoMs: 1,
    receivedBootId: 'b',
    waitingFor: '',
    pid: 1,
    startTicks: '',
    importedOrdinal: 0,
  }
  const clock = systemClock
  journal.transact(() => insertAttempt({ journal, clock }, row, { state: AttemptState.STARTING }))
  const writer = SpoolWriter.create(spools.folder(id), { segmentBytes: 40_000 })
  for (let n = 1; n <= 3_000; n++) {
    writer.append(n, LogSource.STDOUT, 0, Buffer.from(`line ${n} ${'x'.repeat(60)}\n`))
  }
  writer.finish()
  const before = spools.find(id)?.bytes ?? 0
  keepSpoolBounds({ journal, spools, clock, log: silentLog })
  const reader = spools.find(id)
  expect(reader?.bytes).toBeLessThan(before / 2)
  const texts: string[] = []
  for (let batch = reader?.read(); batch; batch = reader?.read()) {
    const { records } = batch
    forEachRecord(records, (_t, source, _s, start, end) => {
      texts.push(source === LogSource.GAP ? 'gap' : records.toString('utf8', start, end))
    })
  }
  expect(texts).toHaveLength(3_000)
  expect(texts[0]).toMatch(/^line 1 /)
  expect(texts[2_999]).toMatch(/^line 3000 /)
  expect(texts).toContain('gap')
})
