// What one of several control planes believes of itself while it cannot renew its lease.
import { sql } from 'kysely'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { missing } from '../../../test/fixtures/platform/components.ts'
import { openEngine } from '../../../test/fixtures/platform/engines.ts'
import { until } from '../../../test/fixtures/server/installation.ts'
import { REPLICAS } from '../limits/installation.ts'
import { LEASES } from '../limits/sharing.ts'
import type { OpenDatabase } from '../store/engine/database.ts'
import { type ReplicaEvents, Replicas } from './replicas.ts'

describe.skipIf(missing('postgres'))('a control plane without its lease', () => {
  let opened: OpenDatabase
  let now = 1_000
  const events = {
    onDeclaredDead: vi.fn<ReplicaEvents['onDeclaredDead']>(),
    onNewEra: vi.fn<ReplicaEvents['onNewEra']>(),
    onOutdated: vi.fn<ReplicaEvents['onOutdated']>(),
    endOrphans: vi.fn<ReplicaEvents['endOrphans']>(async () => {}),
  }

  beforeEach(async () => {
    opened = await openEngine('postgres')
    const secrets = { caCertificate: '', caKeySealed: '', cookieSecretSealed: null }
    const setup = { setupTokenHash: null, setupDoneAt: null }
    await opened.db
      .insertInto('installation')
      .values({ id: 1, installationId: 'i', createdAt: 1, ...setup, ...secrets })
      .execute()
    vi.spyOn(performance, 'now').mockImplementation(() => now)
  })
  afterEach(async () => {
    vi.restoreAllMocks()
    await opened.db.destroy()
  })

  async function join(id: string): Promise<Replicas> {
    const self = { id, host: 'a', pid: 1, address: '', startedAt: 1, version: '1', peerAddress: '' }
    const log = pino({ level: 'silent' })
    const one = new Replicas({ db: opened.db, log, isAlone: false, self })
    await one.join()
    return one
  }

  test('is not ready and does nothing for all, until it renews', async () => {
    const one = await join('one')
    await one.start(events)
    expect([one.isReady, one.holds('mail')]).toEqual([true, true])
    now += REPLICAS.leaseMs
    expect([one.isReady, one.holds('mail')]).toEqual([false, false])
    await one.renew()
    expect([one.isReady, one.holds('mail')]).toEqual([true, true])
    await one.leave()
  })

  test('ends nobody else after an outage, until they had as much time to renew', async () => {
    const one = await join('one')
    await one.start(events)
    const other = await join('other')
    now += REPLICAS.leaseMs
    await opened.db.updateTable('replicas').set({ leaseUntil: 0 }).execute()
    await one.renew()
    const ids = async () => (await opened.db.selectFrom('replicas').select('id').execute()).length
    expect(await ids()).toBe(2)
    now += REPLICAS.leaseMs - 1
    await one.renew()
    expect(await ids()).toBe(2)
    now += 1
    await one.renew()
    expect(await ids()).toBe(1)
    expect(await other.listLive()).toMatchObject([{ id: 'one' }])
    await one.leave()
  })
  test('a lease by the clock of a former database ends like any other', async () => {
    const one = await join('one')
    const far = Date.now() + 3_600_000
    const gone = { name: 'mail', replicaId: 'gone', leaseUntil: far }
    await opened.db.insertInto('duties').values(gone).execute()
    await one.start(events)
    expect([one.holds('deadlines'), one.holds('mail')]).toEqual([true, false])
    const { leaseUntil } = await opened.db
      .selectFrom('duties')
      .select('leaseUntil')
      .where('name', '=', 'mail')
      .executeTakeFirstOrThrow()
    expect(far - leaseUntil).toBeGreaterThan(3_600_000 - 2 * LEASES.leaseMs)
    await one.leave()
  })

  test('a longer lease of work at a forge is not cut short', async () => {
    const one = await join('one')
    const leaseUntil = Date.now() + LEASES.leaseMs - 1_000
    const other = { name: 'forge', replicaId: 'other', leaseUntil }
    await opened.db.insertInto('duties').values(other).execute()
    await one.start(events)
    const rows = await opened.db.selectFrom('duties').selectAll().where('name', '=', 'forge')
    expect(await rows.executeTakeFirst()).toEqual(other)
    await one.leave()
  })

  test('does nothing for all once it drains, also if a renewal was under way', async () => {
    const one = await join('one')
    await one.start(events)
    const held = await opened.db.startTransaction().execute()
    await held.selectFrom('duties').select('name').forUpdate().execute()
    const renewing = one.renew()
    await until('it claims its duties', async () => {
      const { rows } = await sql<{ n: number }>`select count(*)::int as n from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database()`.execute(opened.db)
      return rows[0]?.n ? true : undefined
    })
    const drained = one.drain()
    await held.commit().execute()
    await Promise.all([renewing, drained])
    expect(one.holds('mail')).toBe(false)
    const other = await join('other')
    await other.start(events)
    expect(other.holds('mail')).toBe(true)
    await one.leave()
    await other.leave()
  })
})
