// The request log with the real proxy: requests through Caddy, read by the environment that they were for.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readRequestsAfter, readRequestsBefore } from '../../agent/src/request-logs/reader.ts'
import { missing } from '../fixtures/platform/components.ts'
import { EdgeFixture } from '../fixtures/server/edge.ts'
import { until } from '../fixtures/server/installation.ts'

describe.skipIf(missing('caddy'))('the request log', { timeout: 120_000 }, () => {
  let fixture: EdgeFixture
  beforeAll(async () => {
    fixture = await EdgeFixture.open()
    const shop = await fixture.application('shop')
    const other = await fixture.application('other', (_, answer) => {
      answer.statusCode = 503
      answer.end('no')
    })
    await fixture.route(1, [{ host: 'shop.localhost', target: shop.target }])
    await fixture.route(2, [{ host: 'other.localhost', target: other.target }])
  })
  afterAll(() => fixture?.close())

  const { signal } = new AbortController()
  const page = (environmentId: number) =>
    readRequestsBefore(fixture.settings, { environmentId, limit: 100, signal })
  const paths = async (environmentId: number) =>
    (await page(environmentId)).records.map(({ path }) => path)
  const onDisk = (): string => readFileSync(join(fixture.paths.caddy, 'access.log'), 'utf8')

  it('has the requests of an environment, without queries, and nothing of others', async () => {
    await fixture.ask({ host: 'shop.localhost', path: '/cart?token=canary-in-query' })
    await fixture.ask({ host: 'SHOP.localhost', path: '/upper#canary-in-fragment' })
    await fixture.ask({ host: 'other.localhost', path: '/theirs' })
    await fixture.ask({ host: 'unknown.localhost', path: '/nobody' })
    const sent = { host: 'shop.localhost', path: '/posted', method: 'POST', body: 'canary-in-body' }
    await fixture.ask({ ...sent, headers: { authorization: 'Bearer canary-in-header' } })
    await until('the lines', async () => (await paths(1)).includes('/posted') || undefined)
    const { records } = await page(1)
    expect(records.map(({ method, path, status }) => [method, path, status])).toEqual([
      ['GET', '/cart', 200],
      ['GET', '/upper', 200],
      ['POST', '/posted', 200],
    ])
    expect(records[0]).toMatchObject({
      host: 'shop.localhost',
      client: '127.0.0.1',
      service: 'web',
    })
    expect(records[0]?.size).toBeGreaterThan(0)
    expect(records[0]?.durationUs).toBeGreaterThan(0)
    expect(Math.abs((records[0]?.timeUs ?? 0) / 1_000 - Date.now())).toBeLessThan(3_600_000)
    expect((await page(2)).records.map(({ path, status }) => [path, status])).toEqual([
      ['/theirs', 503],
    ])
    expect(onDisk()).not.toContain('canary')
  })

  it('does not show requests from before a hostname changed hands', async () => {
    await fixture.edge.removeRoutes({ environmentId: 2, fence: fixture.fence })
    const fresh = await fixture.application('fresh')
    await fixture.route(3, [{ host: 'other.localhost', target: fresh.target }])
    expect(await paths(3)).toEqual([])
    await fixture.ask({ host: 'other.localhost', path: '/ours-now' })
    await until('the line', async () => (await paths(3)).length > 0 || undefined)
    expect(await paths(3)).toEqual(['/ours-now'])
    expect(await paths(2)).toEqual([])
  })

  it('follows while requests come in', async () => {
    const end = new AbortController()
    const { newer: after } = await page(1)
    const query = { environmentId: 1, after, follow: true, signal: end.signal }
    const live = readRequestsAfter(fixture.settings, query)
    await fixture.ask({ host: 'shop.localhost', path: '/live' })
    for await (const item of live) {
      if (!('record' in item)) continue
      expect(item.record.path).toBe('/live')
      break
    }
    end.abort()
  })
})
