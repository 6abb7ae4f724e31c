// Several control planes on one PostgreSQL: any of them takes requests, agents stay with the one that has them, and what
// time alone causes is done once.
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sweep } from '../../control-plane/src/app/deployments/deadlines.ts'
import { beginEra } from '../../control-plane/src/store/installation/replicas.ts'
import { Balancer } from '../fixtures/platform/balancer.ts'
import { missing } from '../fixtures/platform/components.ts'
import type { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

describe.skipIf(missing('postgres'))('two control planes', () => {
  let platform: Platform
  let balancer: Balancer
  let a: TestControlPlane
  let b: TestControlPlane

  beforeEach(async () => {
    balancer = await Balancer.start()
    const config = { agentEndpoints: [`127.0.0.1:${balancer.port}`] }
    platform = await Platform.bare('postgres', { config })
    a = platform.cp
    balancer.target = a.running.gateway.port
    await a.setUp()
    platform.serverId = (await a.server()).id
    platform.projectId = (await a.project('shop', platform.serverId)).id
    await platform.joinAgent(await a.joinToken(platform.serverId))
    b = await a.beside({ config })
  })
  afterEach(async () => {
    await b.close()
    await platform.close()
    await balancer.close()
  })

  const deployAt = async (cp: TestControlPlane, identifier: string): Promise<string> => {
    const environment = await platform.environment(identifier)
    const asked = await cp.call<{ id: number }>('POST', `/api/environments/${environment.id}/tasks`)
    expect(asked.status).toBe(201)
    return (await platform.settled(asked.body.id)).status
  }

  test('a deployment asked of one runs on an agent of the other, and both show it', async () => {
    expect(await deployAt(b, 'main')).toBe('succeeded')
    const server = await b.call('GET', `/api/servers/${platform.serverId}`)
    expect(server.body.status).toBe('online')
  })

  test('a lost hint costs a bounded time, because a wake-up is also a row', async () => {
    b.running.ctx.notifier.relay = () => {}
    expect(await deployAt(b, 'main')).toBe('succeeded')
  })

  test('each duty has one of them, and the other takes it over when that one stops', async () => {
    const holders = () =>
      [a, b].filter(({ running }) => running.ctx.replicas.holds('deadlines')).map((cp) => cp.url)
    await until('one holds the duty', async () => (holders().length === 1 ? true : undefined))
    expect(holders()).toEqual([a.url])
    await a.running.ctx.replicas.drain()
    await b.running.ctx.replicas.renew()
    expect(holders()).toEqual([b.url])
    expect(a.running.ctx.replicas.isReady).toBe(false)
  })

  test('one that was declared dead moves its agents at once, and joins again', async () => {
    const { ctx } = a.running
    const before = await epochOf(a)
    balancer.target = b.running.gateway.port
    await ctx.db.deleteFrom('replicas').where('id', '=', ctx.replicaId).execute()
    await b.running.ctx.replicas.renew()
    await ctx.replicas.renew()
    const moved = await until('the agent is with the other', async () => {
      const now = await epochOf(b)
      return now.replicaId === b.running.ctx.replicaId && now.sessionId !== null ? now : undefined
    })
    expect(moved.sessionEpoch).toBe(before.sessionEpoch + 1)
    expect((await ctx.replicas.listLive()).map(({ id }) => id)).toContain(ctx.replicaId)
    expect(await deployAt(a, 'main')).toBe('succeeded')
  })

  test('a session whose replica is gone ends, and the agent is not told that another took over', async () => {
    const { db, replicaId } = b.running.ctx
    // a's lease was lost unnoticed: its row is away, and it does not renew
    await db.updateTable('agents').set({ replicaId: 'gone' }).execute()
    const orphan = await epochOf(b)
    await b.running.ctx.replicas.renew()
    balancer.target = b.running.gateway.port
    const ended = await until('the session ended', async () => {
      await b.running.ctx.replicas.renew()
      const now = await epochOf(b)
      return now.sessionId === orphan.sessionId ? undefined : now
    })
    if (ended.sessionId === null) balancer.cut()
    await until('the agent is with the other', async () =>
      (await epochOf(b)).replicaId === replicaId ? true : undefined,
    )
  })

  test('one that stops leaves nothing behind, and the other goes on', async () => {
    balancer.target = b.running.gateway.port
    await a.running.close()
    const live = await b.running.ctx.replicas.listLive()
    expect(live.map(({ id }) => id)).toEqual([b.running.ctx.replicaId])
    await until('the agent is with the other', async () => {
      const server = await b.call('GET', `/api/servers/${platform.serverId}`)
      return server.body.status === 'online' ? true : undefined
    })
    await a.reopen()
  })

  test('both tell servers the same era, and a start that is alone begins a later one', async () => {
    const { db, replicas } = a.running.ctx
    const { era } = replicas // the next renewal learns a later one
    expect(b.running.ctx.replicas.era).toBe(era)
    expect(await beginEra(db)).toBeGreaterThan(era)
  })

  test('all take a later era, and servers are told again what it outranks', async () => {
    const era = a.running.ctx.replicas.era
    const before = await epochOf(a)
    await b.running.ctx.replicas.noteLostCommits()
    await a.running.ctx.replicas.noteLostCommits()
    await a.running.ctx.replicas.renew()
    expect(a.running.ctx.replicas.era).toBeGreaterThan(era)
    expect(b.running.ctx.replicas.era).toBe(a.running.ctx.replicas.era)
    await until('the session began again', async () => {
      const { sessionEpoch, sessionId } = await epochOf(b)
      return sessionEpoch > before.sessionEpoch && sessionId !== null ? true : undefined
    })
    expect(await deployAt(a, 'main')).toBe('succeeded')
  })

  test('wake-ups that are over are deleted', async () => {
    const { ctx } = a.running
    await ctx.db.insertInto('agentWakes').values({ agentId: 'x', isTrust: 0, at: 0 }).execute()
    await sweep(ctx)
    const left = await ctx.db.selectFrom('agentWakes').select('at').where('at', '=', 0).execute()
    expect(left).toEqual([])
  })

  test('a process that needs the database alone waits for them, and they for it', async () => {
    const { db } = b.running.ctx
    await db.connection().execute(async (one) => {
      const { rows } = await sql<{ taken: boolean }>`
        select pg_try_advisory_lock(7443021) as taken`.execute(one)
      expect(rows[0]?.taken).toBe(false)
    })
  })

  const epochOf = (cp: TestControlPlane) =>
    cp.running.ctx.db
      .selectFrom('agents')
      .select(['sessionEpoch', 'sessionId', 'replicaId'])
      .where('serverId', '=', platform.serverId)
      .executeTakeFirstOrThrow()
})
