// What a server reports about itself: use of processor, memory and disk, and the logs of its services. A real daemon;
// both databases for what is stored.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '@berth/shared'
import type { Server, ServerUsageHistory } from '@berth/shared/api'
import { HostUsageSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Masker } from '../../agent/src/machine/masking/mask.ts'
import { ServiceLog } from '../../agent/src/service-logs/writer.ts'
import {
  type ServiceLogRecord,
  watchServiceLogs,
} from '../../control-plane/src/app/deployments/service-logs.ts'
import { authenticate } from '../../control-plane/src/app/people/callers.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { reportUsage } from '../fixtures/platform/usage.ts'
import { until } from '../fixtures/server/installation.ts'

const MINUTE = 60_000

describe.each(ENGINES)('a server on %s', (engine) => {
  let platform: Platform
  let environmentId: number
  beforeAll(async () => {
    platform = await Platform.start(engine)
    environmentId = (await platform.environment('main')).id
  })
  afterAll(() => platform.close())
  const ctx = () => platform.cp.running.ctx
  const usage = async (query = '') =>
    (
      await platform.cp.call<ServerUsageHistory>(
        'GET',
        `/api/servers/${platform.serverId}/usage${query}`,
      )
    ).body

  // the first heartbeat takes time, and the two databases do not differ in it
  test.runIf(engine === 'sqlite')('says how busy it is with its heartbeats', async () => {
    const reported = await until('its first word', async () => (await usage()).latest ?? undefined)
    expect(reported.memory_used_bytes).toBeGreaterThan(0)
    expect(reported.disk_bytes).toBeGreaterThan(reported.disk_used_bytes)
    const { body } = await platform.cp.call<Server>('GET', `/api/servers/${platform.serverId}`)
    expect(body.usage).toEqual(reported)
    // one number per disk: facts are as old as the connection, the measurement is newer
    expect(body.facts?.disk_bytes).toBe(reported.disk_bytes)
    expect(body.facts?.disk_free_bytes).toBe(reported.disk_bytes - reported.disk_used_bytes)
  })

  test('is charted in a fixed number of rows, however long it lives', async () => {
    const other = (await platform.cp.server('charted')).id
    const now = ctx().clock.now()
    const report = (at: number, cpuPermille: number) =>
      reportUsage(
        { ...ctx(), clock: { now: () => at } },
        other,
        create(HostUsageSchema, {
          at: timestampFromMs(at),
          cpuPermille,
          memoryUsedBytes: 1_000n,
          diskUsedBytes: 2_000n,
          environments: [
            { environmentId, memoryBytes: 7n, cpuPermille: 15 },
            { environmentId: 999 },
          ],
        }),
        { dockerOk: true, proxyOk: false },
      )
    const hour = Math.floor(now / 3_600_000) * 3_600_000
    // 26 hours, every ten minutes; then three within the last minute
    for (let at = hour - 26 * 3_600_000; at < hour; at += 10 * MINUTE) await report(at, 100)
    for (const cpu of [100, 200, 600]) await report(hour, cpu)
    const count = async (span: 'minute' | 'hour') =>
      (
        await ctx()
          .db.selectFrom('usagePoints')
          .selectAll()
          .where('serverId', '=', other)
          .where('span', '=', span)
          .execute()
      ).length
    expect(await count('minute')).toBe(144) // 24 hours of them; older slots were overwritten
    expect(await count('hour')).toBe(27)
    const path = `/api/servers/${other}/usage`
    const { body } = await platform.cp.call<ServerUsageHistory>('GET', `${path}?span=month`)
    expect(body.points).toHaveLength(27)
    expect(body.points.at(-1)).toMatchObject({ cpu_percent: 30, memory_used_bytes: 1_000 })
    expect(body.latest).toMatchObject({ cpu_percent: 60, docker_ok: true, proxy_ok: false })
    expect(body.environments).toEqual([]) // it is on the other server
    const wrong = await platform.cp.call('GET', `${path}?span=year`)
    expect(wrong.status).toBe(400)
  })

  test('sends what its services wrote, from days ago and live, and nothing else', async () => {
    const from = { address: '127.0.0.1', requestId: 'test' }
    const { caller } = await authenticate(ctx(), `Bearer ${platform.cp.token}`, from)
    const dir = join(platform.agentDir, 'logs', `e${environmentId}`, 'web')
    const log = new ServiceLog(dir, 812, new Masker([Buffer.from('hunter2-secret')]))
    const dayAgo = new Date(Date.now() - 26 * 3_600_000).toISOString()
    log.write('out', Buffer.from('yesterday hunter2-secret\n'), dayAgo)
    writeFileSync(join(dir, 'gone.json'), '{"from":"2026-01-01","to":"2026-01-02"}')
    const ending = new AbortController()
    const watch = (over: object = {}) =>
      watchServiceLogs(ctx(), caller, environmentId, { signal: ending.signal, ...over })
    const found: ServiceLogRecord[] = []
    const live = watch({ services: ['web'] })
    const next = async (): Promise<ServiceLogRecord[]> => {
      found.push(...((await live.next()).value ?? []))
      return found
    }
    expect(await next()).toEqual([
      { kind: 'gone', service: 'web', days: '2026-01-01 to 2026-01-02' },
      {
        t: dayAgo.replace('Z', '000Z'),
        s: 'out',
        service: 'web',
        task: 812,
        text: 'yesterday ***',
      },
    ])
    log.write('err', Buffer.from('now\n'))
    expect((await next()).at(-1)).toMatchObject({ s: 'err', text: 'now' })
    const since = new Date(Date.now() - 3_600_000)
    const recent: ServiceLogRecord[] = []
    for await (const records of watch({ since, follow: false })) recent.push(...records)
    expect(recent.map((record) => 'text' in record && record.text)).toEqual(['now'])
    const code = (error: unknown) => (error instanceof AppError ? error.code : String(error))
    const refused = (of: AsyncGenerator) => of.next().then(() => 'no refusal', code)
    const stranger = { ...caller, memberships: [], isPlatformAdmin: false }
    const asked = { signal: ending.signal }
    expect(await refused(watchServiceLogs(ctx(), stranger, environmentId, asked))).toBe('not_found')
    platform.killAgent()
    expect(await refused(live)).toBe('server_offline')
    expect(await refused(watch())).toBe('server_offline')
    ending.abort()
    log.close()
    rmSync(dir, { recursive: true })
  })
})
