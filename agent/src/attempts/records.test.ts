// What a runner's file may say: each event once, states only forward, nothing after the end, and nothing in another
// attempt's name.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AttemptState, Desired, EventSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../clock.ts'
import type { AttemptRow } from '../journal/attempt-table.ts'
import { Journal } from '../journal/journal.ts'
import { decodeEvent } from '../journal/outbox.ts'
import { importEvents, insertAttempt, type RunnerEvent, readReport } from './records.ts'

let dir: string
let journal: Journal
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-records-'))
  const fatal = (error: Error): void => {
    throw error
  }
  journal = Journal.open(dir, { bootId: 'boot', fatal })
  const row = {
    id: 'attempt-1',
    environmentId: 1,
    fence: 3n,
    desired: Desired.RUNNING,
    assignment: Buffer.alloc(0),
    startWithinMs: 1,
    receivedMonoMs: 1,
    receivedBootId: 'boot',
    waitingFor: '',
    pid: 1,
    startTicks: '1',
    importedOrdinal: 0,
  }
  const records = { journal, clock: systemClock }
  journal.transact(() => insertAttempt(records, row, { state: AttemptState.STARTING }))
})
afterEach(() => {
  journal.close()
  rmSync(dir, { recursive: true, force: true })
})

const state = (ordinal: number, value: AttemptState): RunnerEvent => ({
  ordinal,
  event: create(EventSchema, {
    seq: 77n,
    attemptId: 'another',
    fence: 99n,
    body: { case: 'attempt', value: { state: value } },
  }),
})
const take = (...events: RunnerEvent[]) =>
  importEvents({ journal, clock: systemClock }, 'attempt-1', events)
const reported = (): number[] =>
  journal.outbox
    .read(0n, 99)
    .map(decodeEvent)
    .map((e) => (e.body.case === 'attempt' ? e.body.value.state : 0))

const note = (ordinal: number): RunnerEvent => {
  const body = { case: 'warning' as const, value: { code: 'c' } }
  return { ordinal, event: create(EventSchema, { body }) }
}

test('the same events twice are taken once, also after they left the outbox', () => {
  take(state(1, AttemptState.RUNNING), note(2))
  take(state(1, AttemptState.RUNNING), note(2))
  expect(reported()).toEqual([30, 40, 0])
  journal.transact(() => journal.outbox.drop(99n))
  take(note(2), state(3, AttemptState.CANCELED))
  expect(reported()).toEqual([120])
})

test('number, attempt and fence come from the journal, not from the file', () => {
  take(state(1, AttemptState.RUNNING))
  const [, event] = journal.outbox.read(0n, 9).map(decodeEvent)
  expect(event).toMatchObject({ seq: 2n, attemptId: 'attempt-1', fence: 3n })
})

test.each([
  ['backwards', AttemptState.STARTING],
  ['refused: only the daemon can prove that', AttemptState.REFUSED],
  ['lost: only the control plane says that', AttemptState.LOST],
  ['unknown', 77 as AttemptState],
])('a state that a runner cannot report is left out: %s', (_name, bad) => {
  const row = take(state(1, AttemptState.RUNNING), state(2, bad), state(3, AttemptState.FAILED))
  expect(reported()).toEqual([30, 40, 110])
  expect(row).toMatchObject({ state: AttemptState.FAILED, importedOrdinal: 3 })
})

test('nothing follows the end', () => {
  take(state(1, AttemptState.SUCCEEDED), state(2, AttemptState.FAILED))
  expect(reported()).toEqual([30, 100])
})

test('a wait for a build slot is reported and ended without a new state', () => {
  const wait = (ordinal: number, place: number): RunnerEvent => {
    const waitingFor = place > 0 ? 'build' : ''
    const value = { state: AttemptState.RUNNING, waitingFor, waitingPlace: place }
    return { ordinal, event: create(EventSchema, { body: { case: 'attempt', value } }) }
  }
  take(state(1, AttemptState.RUNNING))
  const begun = readReport(journal.attempts.find('attempt-1') as AttemptRow).since
  expect(take(wait(2, 2), wait(3, 1))).toMatchObject({ state: 40, waitingFor: 'build' })
  expect(take(wait(4, 0))).toMatchObject({ state: 40, waitingFor: '' })
  const places = journal.outbox
    .read(0n, 99)
    .map(decodeEvent)
    .map((e) => (e.body.case === 'attempt' ? e.body.value.waitingPlace : -1))
  expect(places).toEqual([0, 0, 2, 1, 0])
  expect(readReport(journal.attempts.find('attempt-1') as AttemptRow).since).toEqual(begun)
  take(state(5, AttemptState.CANCELING))
  expect(take(wait(6, 1))).toMatchObject({ state: 50, waitingFor: '' }) // too late
})
