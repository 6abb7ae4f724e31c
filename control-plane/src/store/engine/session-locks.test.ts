// One control plane starts at a time; the next one waits, and says clearly why it gave up.
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { missing } from '../../../../test/fixtures/platform/components.ts'
import { openEngine } from '../../../../test/fixtures/platform/engines.ts'
import type { OpenDatabase } from './database.ts'
import { LockHeld, withBootLock } from './session-locks.ts'

describe.skipIf(missing('postgres'))('the lock of a start', () => {
  let opened: OpenDatabase
  beforeEach(async () => {
    opened = await openEngine('postgres')
  })
  afterEach(() => opened.db.destroy())

  const start = (waitMs: number, work: () => Promise<unknown>): Promise<unknown> =>
    withBootLock(opened.db, 'postgres', waitMs, work)

  test('is waited for, up to a limit with a sentence that says what to do', async () => {
    const second = start(60_000, () =>
      start(1, () => Promise.reject(new Error('both hold the lock'))),
    )
    await expect(second).rejects.toThrow(LockHeld)
    await expect(second).rejects.toThrow('Look at its log, then start this one again.')
  })

  test('is free after work that failed, and after a wait that ended', async () => {
    const failed = start(60_000, async () => {
      await start(1, async () => {}).catch(() => {})
      throw new Error('no key')
    })
    await expect(failed).rejects.toThrow('no key')
    expect(await start(1, async () => 'started')).toBe('started')
  })

  test('leaves no limit behind on connections that others get', async () => {
    await start(60_000, () => start(1, async () => {}).catch(() => {}))
    const ask = sql<{ value: string }>`select current_setting('lock_timeout') as value`
    const asked = await Promise.all(Array.from({ length: 20 }, () => ask.execute(opened.db)))
    const limits = asked.map(({ rows: [row] }) => row?.value)
    expect(new Set(limits)).toEqual(new Set(['0']))
  })
})
