// Metrics of an environment: what its server reports is stored in steps, once, and shown for an hour, a day and a week.
import type { EnvironmentMetrics } from '@berth/shared/api'
import { HostUsageSchema } from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { reportUsage } from '../fixtures/platform/usage.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Without messages that were made already, which cannot be spread. */
type Usage = Exclude<MessageInitShape<typeof HostUsageSchema>, { $typeName: string }>
type Requests = NonNullable<NonNullable<Usage['requestMinutes']>[number]['environments']>

describe.each(ENGINES)('metrics of an environment on %s', (engine) => {
  let platform: Platform
  let id: number
  let other: number
  beforeAll(async () => {
    platform = await Platform.start(engine)
    id = (await platform.environment('main')).id
    other = (await platform.environment('other')).id
    platform.killAgent() // its own reports would come in between
    await ctx().db.deleteFrom('serverUsage').execute()
  })
  afterAll(() => platform.close())
  const ctx = () => platform.cp.running.ctx
  const metrics = async (of = id, range = 'hour') =>
    (
      await platform.cp.call<EnvironmentMetrics>(
        'GET',
        `/api/environments/${of}/metrics?range=${range}`,
      )
    ).body
  const report = (at: number, usage: Usage, serverId = platform.serverId) =>
    reportUsage(
      { ...ctx(), clock: { now: () => at } },
      serverId,
      create(HostUsageSchema, { at: timestampFromMs(at), ...usage }),
      { dockerOk: true, proxyOk: true },
    )
  const minute = (at: number, environments: Requests): Usage => ({
    requestsUntil: timestampFromMs(at + MINUTE),
    requestMinutes: [{ minute: timestampFromMs(at), environments }],
  })
  /** Ten requests of 8 ms, ten of 60 ms, one of 20 s. */
  const LATENCIES = Array.from({ length: 20 }, (_, i) => ({ 1: 10, 5: 10, 18: 1 })[i] ?? 0)
  const some = (environmentId: number) => ({
    environmentId,
    requests: 23,
    status2xx: 18,
    status3xx: 1,
    status4xx: 1,
    status5xx: 1,
    latencies: LATENCIES,
  })
  const start = (): number => Math.floor(Date.now() / MINUTE) * MINUTE - 30 * MINUTE

  test('without a report there are points without values, and no totals', async () => {
    const found = await metrics()
    expect(found).toMatchObject({ range: 'hour', step_seconds: 60, latest: null, totals: null })
    expect(found.points).toHaveLength(60)
    expect(found.points.at(-1)).toMatchObject({ cpu_percent: null, requests: null, p95_ms: null })
    expect((await metrics(id, 'day')).points).toHaveLength(144)
    expect((await metrics(id, 'week')).points).toHaveLength(168)
    const wrong = await platform.cp.call('GET', `/api/environments/${id}/metrics?range=year`)
    expect(wrong.status).toBe(400)
  })

  test('a report is counted once, for its environments and no others', async () => {
    const at = start()
    const usage: Usage = {
      ...minute(at, [some(id)]),
      environments: [
        {
          environmentId: id,
          memoryBytes: 1_000n,
          cpuPermille: 250,
          services: [{ name: 'web', memoryBytes: 900n, cpuPermille: 200 }],
        },
      ],
    }
    await report(at + MINUTE, usage)
    await report(at + MINUTE, usage)
    await report(at + 2 * MINUTE, { ...usage, environments: [] })
    const found = await metrics()
    expect(found.totals).toEqual({
      requests: 23,
      status_2xx: 18,
      status_3xx: 1,
      status_4xx: 1,
      status_5xx: 1,
      p50_ms: 51, // the median is the first request of the second class, 50 to 75 ms
      p95_ms: 75,
    })
    const point = found.points.find((one) => Date.parse(one.at) === at)
    expect(point).toMatchObject({ requests: 23, requests_per_second: 0.383, status_5xx: 1 })
    const used = found.points.find((one) => Date.parse(one.at) === at + MINUTE)
    expect(used).toMatchObject({ cpu_percent: 25, memory_bytes: 1_000, requests: null })
    expect((await metrics(other)).totals).toMatchObject({ requests: 0 })
    for (const range of ['day', 'week']) {
      expect((await metrics(id, range)).totals, range).toMatchObject({ requests: 23 })
    }
  })

  test('a server adds nothing to the environments of another one', async () => {
    const stranger = (await platform.cp.server('stranger')).id
    const at = start() + 5 * MINUTE
    const before = await metrics()
    await report(at + MINUTE, minute(at, [some(id), some(999_999)]), stranger)
    expect((await metrics()).totals).toEqual(before.totals)
  })

  test('minutes of the future and of long ago are not stored, and do not close the way for others', async () => {
    const at = start() + 10 * MINUTE
    const before = (await metrics()).totals?.requests ?? 0
    await report(at, minute(at + HOUR, [some(id)]))
    await report(at + MINUTE, minute(at - 3 * HOUR, [some(id)]))
    expect((await metrics()).totals?.requests).toBe(before)
    await report(at + 2 * MINUTE, minute(at, [some(id)]))
    expect((await metrics()).totals?.requests).toBe(before + 23)
  })

  test('an agent of before says nothing of requests, and what was counted stays', async () => {
    const at = start() + 15 * MINUTE
    const before = await metrics()
    await report(at, {})
    expect((await metrics()).totals).toEqual(before.totals)
  })

  test('says what runs now', async () => {
    expect((await metrics()).latest).toBeNull()
    const now = Math.floor(Date.now() / 1_000) * 1_000
    await report(now, {
      environments: [
        {
          environmentId: id,
          memoryBytes: 2_000n,
          cpuPermille: 15,
          services: [{ name: 'web', memoryBytes: 1_500n, cpuPermille: 10 }],
        },
      ],
    })
    expect((await metrics()).latest).toMatchObject({
      cpu_percent: 1.5,
      memory_bytes: 2_000,
      services: [{ name: 'web', cpu_percent: 1, memory_bytes: 1_500 }],
    })
  })

  test('takes a fixed number of rows, and none after the environment is gone', async () => {
    const rows = async () =>
      (
        await ctx()
          .db.selectFrom('environmentMetrics')
          .select(['span', 'environmentId'])
          .where('environmentId', '=', other)
          .execute()
      ).length
    await ctx().db.deleteFrom('serverUsage').execute() // the reports below are older than the last one
    const end = Math.floor(Date.now() / HOUR) * HOUR
    for (let at = end - 9 * 24 * HOUR; at < end; at += HOUR / 2) {
      await report(at, {
        environments: [{ environmentId: other, memoryBytes: 1n, cpuPermille: 1 }],
      })
    }
    // rings of 60, 144 and 168: half hours fill two, 48 and all of their slots
    expect(await rows()).toBe(2 + 48 + 168)
    const day = await metrics(other, 'day')
    expect(day.points.filter((one) => one.cpu_percent !== null).length).toBeGreaterThan(40)
    const removal = `/api/environments/${other}?confirm=other&forget=true`
    expect((await platform.cp.call('DELETE', removal)).status).toBe(202)
    expect(await rows()).toBe(0)
    const gone = await platform.cp.call('GET', `/api/environments/${other}/metrics`)
    expect(gone.status).toBe(404)
  })
})
