// Sending the outbox, with a real journal on a full disk: deferred work must not end the session.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { systemClock } from '../clock.ts'
import { Journal } from '../journal/journal.ts'
import { OutboxSender } from './outbox-sender.ts'

test('acknowledged events that cannot be deleted now are deleted later, and end no session', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'berth-outbox-'))
  let database: Database.Database | undefined
  const openDatabase = (file: string): Database.Database => {
    database = new Database(file)
    return database
  }
  const journal = Journal.open(dir, { bootId: 'b', openDatabase, fatal: () => {} })
  const value = { code: 'x', message: 'y', stepId: '' }
  const body = { case: 'warning', value } as never
  journal.transact(() =>
    journal.outbox.append({ attemptId: 'a', fence: 1n, atMs: Date.now(), body }),
  )
  const sent = Promise.withResolvers<void>()
  const send = (): boolean => {
    sent.resolve()
    return true
  }
  const options = { journal, clock: systemClock, send, fail: () => {} }
  const sender = new OutboxSender(options, 0n)
  await sent.promise
  const full = "select raise(abort, 'database or disk is full')"
  database?.exec(`create temp trigger full before delete on outbox begin ${full}; end`)
  sender.acknowledged(1n)
  expect(() => sender.close()).not.toThrow()
  expect(journal.outbox.range().first).toBe(1n)
  database?.exec('drop trigger full')
  const next = new OutboxSender(options, 1n)
  next.close()
  expect(journal.outbox.read(0n, 9)).toEqual([])
  journal.close()
  rmSync(dir, { recursive: true })
})
