// A PostgreSQL that is gone without a word, or that another replaced: connections are given up, slow statements are not,
// requests are refused honestly, and a commit without an answer is not repeated.
import type { Server } from '@berth/shared/api'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OpenDatabase, openPostgres } from '../../control-plane/src/store/engine/database.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { TcpProxy } from '../fixtures/platform/tcp-proxy.ts'
import { copyPostgres } from '../fixtures/platform/templates.ts'
import { until } from '../fixtures/server/installation.ts'

const away = { name: 'StoreUnavailable' }

/** A database behind a network that a test can cut. */
async function openBehindProxy(): Promise<{ proxy: TcpProxy; url: string }> {
  const path = `${process.env.BERTH_TEST_POSTGRES}/.s.PGSQL.5432`
  const proxy = await TcpProxy.open({ path })
  const { pathname } = new URL(await copyPostgres())
  return { proxy, url: `postgres://berth@127.0.0.1:${proxy.port}${pathname}` }
}

const answers = (db: OpenDatabase['db']) =>
  until('the database', async () => (await sql`select 1`.execute(db)) && true)

describe.skipIf(missing('postgres')).concurrent('a pool', () => {
  async function withPool(
    work: (db: OpenDatabase['db'], proxy: TcpProxy) => Promise<void>,
  ): Promise<void> {
    const { proxy, url } = await openBehindProxy()
    const { db } = openPostgres(url, () => {})
    try {
      await answers(db)
      await work(db, proxy)
    } finally {
      proxy.heal()
      await db.destroy()
      await proxy.close()
    }
  }

  test('gives up a database that says nothing any more, refuses at once, and comes back', () =>
    withPool(async (db, proxy) => {
      proxy.cut('blackhole')
      const waiting = Array.from({ length: 30 }, () => sql`select 1`.execute(db))
      for (const end of await Promise.allSettled(waiting)) {
        expect(end).toMatchObject({ status: 'rejected', reason: away })
      }
      await expect(sql`select 1`.execute(db)).rejects.toMatchObject(away)
      proxy.heal()
      await answers(db)
    }))

  test('leaves a slow statement alone', () =>
    withPool(async (db) => {
      const { rows } = await sql`select pg_sleep(8), 7 as n`.execute(db)
      expect(rows).toMatchObject([{ n: 7 }])
    }))

  test('gives up a connection that the database does not know, and no other', () =>
    withPool(async (db, proxy) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
      proxy.strand()
      const stranded = sql`select 1`.execute(db)
      const slow = sql`select pg_sleep(8), 7 as n`.execute(db)
      await sql`select pg_terminate_backend(${rows[0]?.pid})`.execute(db)
      await expect(stranded).rejects.toMatchObject(away)
      expect((await slow).rows).toMatchObject([{ n: 7 }])
    }))
})

describe.skipIf(missing('postgres'))('a control plane', () => {
  let proxy: TcpProxy
  let cp: TestControlPlane
  beforeAll(async () => {
    const opened = await openBehindProxy()
    proxy = opened.proxy
    cp = await TestControlPlane.start('sqlite', { config: { databaseUrl: opened.url } })
    await cp.setUp()
  })
  afterAll(async () => {
    proxy.heal()
    await cp.close()
    await proxy.close()
  })

  test('says that it does not know whether a change is stored, and does not repeat it', async () => {
    proxy.loseAnswerTo = 'commit'
    const body = { name: 'two', hostname: 'two.example.com' }
    const answer = await cp.call('POST', '/api/servers', body)
    expect([answer.status, answer.body.code]).toEqual([503, 'outcome_unknown'])
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    const servers = await until('the list', async () => {
      const list = await cp.call<Server[]>('GET', '/api/servers')
      return list.status === 200 ? list.body : undefined
    })
    expect(servers.filter(({ name }) => name === 'two')).toHaveLength(1)
  })

  test('keeps its timers and streams when each connection breaks', async () => {
    proxy.reset()
    const made = await until('a change', async () => {
      const body = { name: `three-${Date.now()}`, hostname: 'three.example.com' }
      const answer = await cp.call<Server>('POST', '/api/servers', body)
      return answer.status === 201 ? answer.body : undefined
    })
    await until('its event', () => (cp.running.ctx.feed.head > 0 ? true : undefined))
    expect((await cp.call('GET', `/api/servers/${made.id}`)).status).toBe(200)
  })
})
