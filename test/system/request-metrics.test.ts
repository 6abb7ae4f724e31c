// Requests through a real Caddy become metrics of their environment, and of no other: through a rotation of the log by
// Caddy itself, a restart of the agent, and all the way to the API.
import { chmodSync, readdirSync, readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import type { EnvironmentMetrics, Server } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PROXY } from '../../agent/src/limits/proxy.ts'
import { silentLog } from '../../agent/src/log.ts'
import { ensureKeys } from '../../agent/src/proxy/paths.ts'
import { RequestMeter } from '../../agent/src/proxy/requests/request-meter.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { EdgeFixture } from '../fixtures/server/edge.ts'
import { until } from '../fixtures/server/installation.ts'

const MINUTE = 60_000

describe.skipIf(missing('caddy'))('requests through the proxy', () => {
  let fixture: EdgeFixture
  beforeAll(async () => {
    fixture = await EdgeFixture.open()
    const web = await fixture.application('web', (incoming, answer) => {
      answer.statusCode = Number(/status=(\d+)/.exec(incoming.url ?? '')?.[1] ?? 200)
      answer.end('x')
    })
    await fixture.route(1, [{ host: 'a.localhost', target: web.target }])
    await fixture.route(2, [{ host: 'b.localhost', target: web.target }])
  })
  afterAll(() => fixture.close())

  /** A clock that moves on, so that no test waits for the end of a minute. */
  let ahead = 0
  const now = () => Date.now() + ahead
  const countOf = (meter: RequestMeter, id: number) =>
    (meter.whole()?.minutes ?? [])
      .flatMap(({ counts }) => counts[id] ?? [])
      .reduce(
        (sum, { requests, statuses }) => ({
          requests: sum.requests + requests,
          statuses: statuses.map((n, i) => n + (sum.statuses[i] ?? 0)),
        }),
        { requests: 0, statuses: [0, 0, 0, 0] },
      )
  const counted = (meter: RequestMeter, id: number, requests: number) =>
    until(`${requests} requests of ${id}`, async () => {
      ahead = Math.min(ahead + 2 * MINUTE, 100 * MINUTE)
      await meter.look()
      return countOf(meter, id).requests >= requests || undefined
    })
  /** Caddy writes a line after the answer, so a further request shows that the lines of before are there. */
  const isWritten = async (mark: string) => {
    await fixture.ask({ host: 'nobody.localhost', path: `/${mark}` })
    const log = join(fixture.paths.caddy, 'access.log')
    await until('the log', () => readFileSync(log, 'utf8').includes(mark) || undefined)
  }

  it('count for the environment of their hostname, and for no other', async () => {
    const agent = new Agent({ keepAlive: true })
    const ask = (host: string, path = '/', headers = {}) =>
      fixture.ask({ host, path, headers, agent })
    for (const status of [200, 204, 301, 404, 500]) await ask('a.localhost', `/?status=${status}`)
    await ask('A.LOCALHOST', '/","status":500,"request":{"host":"b.localhost"}}')
    await ask('b.localhost', '/?host=a.localhost', { 'x-forwarded-host': 'a.localhost' })
    await ask('nobody.localhost')
    await ask('a.localhost', '/', { 'x-berth-probe': ensureKeys(fixture.settings).probe })
    await ask('b.localhost')
    await isWritten('first-end')
    const meter = new RequestMeter(fixture.settings, silentLog, now)
    await counted(meter, 2, 2)
    expect(countOf(meter, 1)).toEqual({ requests: 6, statuses: [3, 1, 1, 1] })
    expect(countOf(meter, 2)).toEqual({ requests: 2, statuses: [2, 0, 0, 0] })
    meter.stored(now())
    meter.close()
    agent.destroy()
  })

  it('are all counted when Caddy rotates its log, also over a restart of the agent', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 8 })
    const path = `/${'p'.repeat(8_000)}`
    const all = Math.ceil((PROXY.accessLogMiB * 1_024 * 1_024) / path.length) + 500
    let meter = new RequestMeter(fixture.settings, silentLog, now)
    await meter.look()
    const before = countOf(meter, 1).requests
    let left = all
    const work = async () => {
      while (left-- > 0) await fixture.ask({ host: 'a.localhost', path, agent })
    }
    const isRotated = () =>
      readdirSync(fixture.paths.caddy).filter((name) => /^access-.*\.log/.test(name)).length > 0
    const looks = (async () => {
      while (left > 0) await Promise.all([meter.look(), new Promise(setImmediate)])
    })()
    await Promise.all([...Array.from({ length: 8 }, work), looks])
    expect(isRotated()).toBe(true)
    await isWritten('second-end')
    await counted(meter, 1, before + all)
    expect(countOf(meter, 1).requests).toBe(before + all)
    meter.close()
    // what was saved with its position is neither lost nor counted again
    meter = new RequestMeter(fixture.settings, silentLog, now)
    await fixture.ask({ host: 'a.localhost', agent })
    await counted(meter, 1, before + all + 1)
    expect(countOf(meter, 1).requests).toBe(before + all + 1)
    meter.close()
    agent.destroy()
  }, 240_000)
})

describe.skipIf(missing('caddy'))('metrics of an environment', () => {
  let platform: Platform
  let fixture: EdgeFixture
  beforeAll(async () => {
    platform = await Platform.start('sqlite')
    chmodSync(platform.agentDir, 0o711) // Caddy's account must reach its folders
    fixture = await EdgeFixture.open({ BERTH_STATE_DIR: platform.agentDir })
  })
  afterAll(async () => {
    await fixture.close()
    await platform.close()
  })

  it('arrive at the API, once', async () => {
    const one = (await platform.environment('one')).id
    const two = (await platform.environment('two')).id
    const { target } = await fixture.application('web')
    await fixture.route(one, [{ host: 'one.localhost', target }])
    await fixture.route(two, [{ host: 'two.localhost', target }])
    for (let i = 0; i < 20; i++) await fixture.ask({ host: 'one.localhost' })
    await fixture.ask({ host: 'two.localhost' })
    const totals = async (id: number) =>
      (await platform.cp.call<EnvironmentMetrics>('GET', `/api/environments/${id}/metrics`)).body
        .totals
    const arrived = () =>
      until(
        'the minute to be over, and reported',
        async () => (await totals(one))?.requests || undefined,
        180_000,
      )
    expect(await arrived()).toBe(20)
    expect(await totals(one)).toMatchObject({ requests: 20, status_2xx: 20, status_5xx: 0 })
    expect((await totals(one))?.p95_ms).toBeGreaterThan(0)
    expect(await totals(two)).toMatchObject({ requests: 1, status_2xx: 1 })
    // a daemon that did not hear of it reports it again
    platform.killAgent()
    await platform.startAgent()
    const reported = async () =>
      (await platform.cp.call<Server>('GET', `/api/servers/${platform.serverId}`)).body.usage?.at
    const first = await reported()
    await until('another report', async () => (await reported()) !== first || undefined, 120_000)
    expect(await totals(one)).toMatchObject({ requests: 20 })
  }, 360_000)
})
