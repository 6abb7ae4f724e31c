// Numbers of events follow the order of commits, even when PostgreSQL runs several transactions concurrently. Each test
// has a control without the lock, in which a reader skips an event.
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { missing } from '../../../../test/fixtures/platform/components.ts'
import { openEngine } from '../../../../test/fixtures/platform/engines.ts'
import { until } from '../../../../test/fixtures/server/installation.ts'
import type { OpenDatabase } from '../engine/database.ts'
import type { Db } from '../engine/db.ts'
import { findEventRange, insertEvents, listEventsAfter, type NewEvent } from './events.ts'

const event = (kind: string): NewEvent => ({ organizationId: 1, kind, body: {}, at: 1 })

/** Inserts an event without the lock. */
const insertPlainly = async (db: Db, kind: string): Promise<void> => {
  await db
    .insertInto('events')
    .values({ ...event(kind), body: '{}' })
    .execute()
}

function gate(): { open: () => void; opened: Promise<void> } {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

describe.skipIf(missing('postgres'))('two changes at once on PostgreSQL', () => {
  let opened: OpenDatabase
  beforeAll(async () => {
    opened = await openEngine('postgres')
  })
  afterAll(() => opened.db.destroy())

  const kindsAfter = async (seq: number) =>
    (await listEventsAfter(opened.db, seq, 1_000)).map((e) => e.kind)

  test('without the lock the later number is seen first, and the reader never goes back', async () => {
    const from = (await findEventRange(opened.db)).last
    const [written, mayCommit] = [gate(), gate()]
    const slow = opened.db.transaction().execute(async (tx) => {
      await insertPlainly(tx, 'slow')
      written.open()
      await mayCommit.opened
    })
    await written.opened
    await opened.db.transaction().execute((tx) => insertPlainly(tx, 'quick'))
    expect(await kindsAfter(from)).toEqual(['quick'])
    const head = (await findEventRange(opened.db)).last
    mayCommit.open()
    await slow
    expect(await kindsAfter(head)).toEqual([]) // lost to this reader
    expect(await kindsAfter(from)).toEqual(['slow', 'quick'])
  })

  test('with it the second waits for the commit of the first', async () => {
    const from = (await findEventRange(opened.db)).last
    const [written, mayCommit] = [gate(), gate()]
    const slow = opened.db.transaction().execute(async (tx) => {
      await insertEvents(tx, 'postgres', [event('slow')])
      written.open()
      await mayCommit.opened
    })
    await written.opened
    const quick = opened.db
      .transaction()
      .execute((tx) => insertEvents(tx, 'postgres', [event('quick')]))
    await until('the second to wait', async () => {
      const { rows } = await sql<{ n: number }>`select count(*) as n from pg_locks
        where locktype = 'advisory' and not granted`.execute(opened.db)
      return rows[0]?.n === 1 || undefined
    })
    expect(await kindsAfter(from)).toEqual([])
    mayCommit.open()
    await Promise.all([slow, quick])
    expect(await kindsAfter(from)).toEqual(['slow', 'quick'])
  })

  /** Runs eight writers and one reader that only moves forward; returns what it saw and what was written. */
  async function race(write: (db: Db, n: number) => Promise<void>) {
    const from = (await findEventRange(opened.db)).last
    const seen: number[] = []
    let head = from
    let isOver = false
    const look = async () => {
      for (const { seq } of await listEventsAfter(opened.db, head, 1_000)) {
        seen.push(seq)
        head = seq
      }
    }
    const reader = (async () => {
      while (!isOver) await look()
      await look()
    })()
    const writer = async (w: number) => {
      for (let n = 0; n < 40; n++) {
        await opened.db.transaction().execute((tx) => write(tx, w * 40 + n))
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, w) => writer(w)))
    isOver = true
    await reader
    const all = (await listEventsAfter(opened.db, from, 1_000)).map((e) => e.seq)
    return { seen, all }
  }
  const dawdle = (db: Db, n: number) => sql`select pg_sleep(${(n % 5) / 1_000})`.execute(db)

  test('a reader skips events of eight writers without the lock', async () => {
    const { seen, all } = await race(async (db, n) => {
      await insertPlainly(db, 'task.step')
      await dawdle(db, n)
    })
    expect(all).toHaveLength(320)
    expect(seen.length).toBeLessThan(320)
  })

  test('and none with it, whatever happens in their transactions before', async () => {
    const { seen, all } = await race(async (db, n) => {
      await dawdle(db, n)
      await insertEvents(db, 'postgres', [event('task.step')])
    })
    expect(all).toHaveLength(320)
    expect(seen).toEqual(all)
  })

  test('a change that is rolled back leaves a hole and holds nobody', async () => {
    const from = (await findEventRange(opened.db)).last
    const failed = opened.db.transaction().execute(async (tx) => {
      await insertEvents(tx, 'postgres', [event('never')])
      throw new Error('no')
    })
    await expect(failed).rejects.toThrow('no')
    await opened.db.transaction().execute((tx) => insertEvents(tx, 'postgres', [event('after')]))
    expect(await kindsAfter(from)).toEqual(['after'])
  })
})
