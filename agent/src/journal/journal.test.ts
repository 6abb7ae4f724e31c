// The journal: committed data is there after a reopen, event numbers have no holes, states never go back, a second
// daemon is refused, and a full disk still takes states.
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AttemptState, Desired, FailureCode } from '@berth/shared/wire'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttemptRow } from './attempt-table.ts'
import { Journal } from './journal.ts'
import { decodeEvent } from './outbox.ts'
import { DiskReserve } from './reserve.ts'

let dir: string
const open: Journal[] = []
const openJournal = (reserve = new DiskReserve(join(dir, 'reserve'), 65_536)): Journal => {
  const journal = Journal.open(dir, {
    bootId: 'boot-1',
    reserve,
    fatal: (error) => {
      throw error
    },
  })
  open.push(journal)
  return journal
}

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-journal-'))
})
afterEach(() => {
  for (const journal of open.splice(0)) if (journal.isOpen) journal.close()
  rmSync(dir, { recursive: true, force: true })
})

const attempt = (over: Partial<AttemptRow> = {}): AttemptRow => ({
  id: '0198c0de-0000-7000-8000-000000000001',
  environmentId: 101,
  fence: 7n,
  state: AttemptState.ACCEPTED,
  desired: Desired.RUNNING,
  assignment: Buffer.from('a'),
  startWithinMs: 60_000,
  receivedMonoMs: 1,
  receivedBootId: 'boot-1',
  waitingFor: '',
  pid: 0,
  startTicks: '',
  importedOrdinal: 0,
  report: Buffer.alloc(0),
  ...over,
})
const warning = (message: string, ordinal?: number) => ({
  attemptId: 'a',
  fence: 1n,
  atMs: 5,
  body: {
    case: 'warning' as const,
    value: {
      $typeName: 'berth.agent.v1.WarningRaised' as const,
      code: 'c',
      message,
      stepId: '',
    },
  },
  ...(ordinal === undefined ? {} : { ordinal }),
})

test('attempts, fences, tombstones, cursors and events survive a reopen', () => {
  const first = openJournal()
  first.transact(() => {
    first.attempts.insert(attempt())
    first.attempts.raiseFence(101, 7n, 1)
    first.attempts.bury({
      attemptId: 'gone',
      environmentId: 5,
      fence: 3n,
      state: AttemptState.CANCELED,
      report: Buffer.from('r'),
      expiresAt: 99,
    })
    first.attempts.saveLogCursor('x', 12n)
    first.saveAssignmentsVersion(41n)
    first.outbox.append(warning('kept'))
  })
  const id = first.journalId
  first.close()
  const again = openJournal()
  expect(again.journalId).toBe(id)
  expect(again.attempts.list()).toEqual([attempt()])
  expect(again.attempts.maxFence(101)).toBe(7n)
  expect(again.attempts.findTombstone('gone')?.state).toBe(AttemptState.CANCELED)
  expect(again.attempts.logCursor('x')).toBe(12n)
  expect(again.assignmentsVersion()).toBe(41n)
  expect(again.outbox.read(0n, 10).map((row) => decodeEvent(row).body.value)).toMatchObject([
    { message: 'kept' },
  ])
})

test('a second daemon on the same state directory is told who is in its way', () => {
  openJournal()
  expect(() => openJournal()).toThrow(/Another berth-agent holds .*journal\.db/)
})

test('event numbers have no holes, also after failed transactions and acknowledgements', () => {
  const journal = openJournal()
  const append = (text: string): bigint =>
    journal.transact(() => journal.outbox.append(warning(text)))
  expect(journal.outbox.range()).toEqual({ first: 1n, last: 0n })
  expect([append('a'), append('b')]).toEqual([1n, 2n])
  expect(() =>
    journal.transact(() => {
      journal.outbox.append(warning('lost'))
      throw new Error('no')
    }),
  ).toThrow('no')
  expect(append('c')).toBe(3n)
  journal.transact(() => journal.outbox.drop(3n))
  expect(journal.outbox.range()).toEqual({ first: 4n, last: 3n })
  expect(append('d')).toBe(4n)
  expect(journal.outbox.read(0n, 10).map((row) => row.seq)).toEqual([4n])
})

test("one event of a runner's file is taken once", () => {
  const journal = openJournal()
  journal.transact(() => journal.outbox.append(warning('first', 1)))
  expect(() => journal.transact(() => journal.outbox.append(warning('again', 1)))).toThrow(/UNIQUE/)
  journal.transact(() => journal.outbox.append(warning('own')))
  journal.transact(() => journal.outbox.append(warning('own')))
  expect(journal.outbox.range().last).toBe(3n)
})

test('states never go back and terminal ones are final', () => {
  const journal = openJournal()
  journal.transact(() => journal.attempts.insert(attempt({ state: AttemptState.RUNNING })))
  const to = (state: AttemptState) => () =>
    journal.transact(() => journal.attempts.update(attempt({ state })))
  expect(to(AttemptState.STARTING)).toThrow(/cannot go from 40 to 30/)
  to(AttemptState.FAILED)()
  expect(to(AttemptState.CANCELED)).toThrow(/cannot go from 110 to 120/)
  expect(journal.attempts.list()[0]?.state).toBe(AttemptState.FAILED)
})

test('fences only rise', () => {
  const journal = openJournal()
  for (const fence of [5n, 9n, 3n]) {
    journal.transact(() => journal.attempts.raiseFence(1, fence, 1))
  }
  expect(journal.attempts.maxFence(1)).toBe(9n)
  expect(journal.attempts.maxFence(2)).toBe(0n)
})

test('listeners hear of committed events only', () => {
  const journal = openJournal()
  let heard = 0
  journal.onAppended(() => heard++)
  expect(() =>
    journal.transact(() => {
      journal.outbox.append(warning('x'))
      throw new Error('no')
    }),
  ).toThrow()
  journal.transact(() => journal.attempts.raiseFence(1, 1n, 1))
  expect(heard).toBe(0)
  journal.transact(() => journal.outbox.append(warning('x')))
  expect(heard).toBe(1)
})

test('an event over its bound is shortened, never refused', () => {
  const journal = openJournal()
  const message = 'm'.repeat(70_000)
  const value = {
    $typeName: 'berth.agent.v1.AttemptChanged' as const,
    state: AttemptState.FAILED,
    code: FailureCode.STEP_FAILED,
    message,
    failedStepId: '',
    signal: '',
    platformCheck: false,
    finalLogSeq: 3n,
    logBytesTotal: 0n,
    logBytesDropped: 0n,
    logSha256: new Uint8Array(),
    waitingFor: '',
    waitingPlace: 0,
  }
  journal.transact(() => journal.outbox.append(warning(message)))
  const body = { case: 'attempt' as const, value }
  journal.transact(() => journal.outbox.append({ attemptId: 'a', fence: 1n, atMs: 1, body }))
  const rows = journal.outbox.read(0n, 10)
  expect(rows.every((row) => row.body.length <= 49_152)).toBe(true)
  const events = rows.map(decodeEvent)
  expect(events[0]?.body).toMatchObject({ case: 'warning', value: { code: 'event_too_large' } })
  expect(events[1]?.body).toMatchObject({ case: 'attempt', value: { finalLogSeq: 3n } })
})

test('a full disk gives its reserve back and the state is written', () => {
  // a page limit simulates the disk: SQLITE_FULL until the reserve is released
  let database: Database.Database | undefined
  const reserve = new (class extends DiskReserve {
    override release(): boolean {
      database?.pragma('max_page_count = 10000')
      return super.release()
    }
  })(join(dir, 'reserve'), 65_536)
  reserve.hold()
  expect(statSync(join(dir, 'reserve')).size).toBe(65_536)
  const openDatabase = (file: string): Database.Database => {
    database = new Database(file)
    return database
  }
  const journal = Journal.open(dir, { bootId: 'b', reserve, openDatabase, fatal: () => {} })
  open.push(journal)
  database?.pragma('max_page_count = 1')
  const big = 'x'.repeat(40_000)
  for (let i = 0; i < 20; i++) journal.transact(() => journal.outbox.append(warning(big)))
  expect(journal.outbox.range().last).toBe(20n)
  expect(statSync(join(dir, 'reserve'), { throwIfNoEntry: false })).toBeUndefined()
  database?.pragma('max_page_count = 1')
  expect(() => {
    for (let i = 0; i < 20; i++) journal.transact(() => journal.outbox.append(warning(big)))
  }).toThrow(/full/)
})

test('a file that is no journal is named, not replaced', () => {
  const db = new Database(join(dir, 'journal.db'))
  db.exec('create table t (a)')
  db.pragma('user_version = 9')
  db.close()
  expect(() => openJournal()).toThrow(/newer agent/)
})
