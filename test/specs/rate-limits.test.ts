// Rate limits and their headers; which address a client counts as; what a flood may cost.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readConfig } from '../../control-plane/src/config.ts'
import { RateLimit } from '../../control-plane/src/identity/rate-limit.ts'
import { LocalWindows } from '../../control-plane/src/identity/windows.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { LiveSocket } from '../fixtures/platform/live-socket.ts'

const ORGANIZATION = { organization_id: 1 }

describe('rate limits', () => {
  let cp: TestControlPlane
  let environment: number
  beforeAll(async () => {
    cp = await TestControlPlane.start('sqlite', { config: { rateLimitFactor: 1 } })
    await cp.setUp()
    const server = await cp.server()
    const project = await cp.project('shop', server.id)
    environment = (await cp.environment(project.id)).id
  })
  afterAll(() => cp.close())
  const newMinute = (): void => {
    cp.clock.offsetMs += 61_000
  }
  const many = async (n: number, ask: () => Promise<{ status: number }>): Promise<number[]> => {
    const statuses: number[] = []
    for (let i = 0; i < n; i++) statuses.push((await ask()).status)
    return statuses
  }

  test('600 a minute and token, shown in headers; then 429 until the minute is over', async () => {
    newMinute()
    const first = await cp.call('GET', '/api/me')
    expect(first.headers.get('ratelimit-policy')).toBe('"default";q=600;w=60')
    expect(first.headers.get('ratelimit')).toBe('"default";r=599;t=60')
    const statuses = await many(600, () => cp.call('GET', '/api/me'))
    expect(statuses.filter((s) => s === 200)).toHaveLength(599)
    const over = await cp.call('GET', '/api/me')
    expect([over.status, over.body.code]).toEqual([429, 'rate_limited'])
    const wait = Number(over.headers.get('retry-after'))
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(60)
    expect(over.headers.get('ratelimit')).toMatch(/^"default";r=0;t=\d+$/)
    newMinute()
    expect((await cp.call('GET', '/api/me')).status).toBe(200)
  })

  test('an unchanged answer is free of quota', async () => {
    newMinute()
    const first = await cp.call('GET', '/api/me')
    const headers = { 'if-none-match': first.headers.get('etag') ?? '' }
    for (let n = 0; n < 3; n++) {
      const again = await cp.call('GET', '/api/me', undefined, headers)
      expect([again.status, again.headers.get('ratelimit')?.split(';t')[0]]).toEqual([
        304,
        '"default";r=599',
      ])
    }
    const head = await cp.call('HEAD', '/api/me', undefined, headers)
    expect([head.status, head.text]).toEqual([304, ''])
  })

  test('deployments: 60 a minute and person, whatever the token', async () => {
    newMinute()
    const ask = () => cp.call('POST', `/api/environments/${environment}/tasks`)
    const first = await ask()
    expect(first.headers.get('ratelimit-policy')).toBe('"default";q=600;w=60, "deploy";q=60;w=60')
    expect(first.headers.get('ratelimit')).toMatch(/"deploy";r=59;/)
    const statuses = await many(61, ask)
    expect(statuses.filter((s) => s === 429)).toHaveLength(2)
    expect((await cp.call('GET', '/api/me')).status).toBe(200)
  })

  test("the dashboard's deployments are of the same 60, and of a batch each counts", async () => {
    newMinute()
    const click = (calls = 1) => {
      const input = { environment_id: environment }
      const many = Object.fromEntries(Array.from({ length: calls }, (_, n) => [n, input]))
      const paths = Array(calls).fill('environment.deploy').join(',')
      const path = `/trpc/${paths}${calls > 1 ? '?batch=1' : ''}`
      return cp.call<object>('POST', path, calls > 1 ? many : input)
    }
    const over = (answer: { text: string }) => answer.text.split('"rate_limited"').length - 1
    await many(30, () => cp.call('POST', `/api/environments/${environment}/tasks`))
    expect((await many(10, click)).includes(429)).toBe(false)
    expect(over(await click(20))).toBe(0)
    expect(over(await click(2))).toBe(2)
    const refused = await click()
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([429, true])
    const byRest = await cp.call('POST', `/api/environments/${environment}/tasks`)
    expect([byRest.status, byRest.body.code]).toEqual([429, 'rate_limited'])
    expect((await cp.call('GET', '/trpc/me')).status).toBe(200)
  })

  test("the dashboard's other requests count as every request; without a good token, by address", async () => {
    newMinute()
    const statuses = await many(601, () => cp.call('GET', '/trpc/me'))
    expect(statuses.filter((s) => s === 429)).toHaveLength(1)
    expect((await cp.call('GET', '/api/me')).status).toBe(429)
    const bad = { authorization: 'Bearer nonsense' }
    const refused = await many(61, () => cp.call('GET', '/trpc/me', undefined, bad))
    expect([refused.filter((s) => s === 401).length, refused.at(-1)]).toEqual([60, 429])
  })

  test('bad tokens: 60 a minute and address; good ones from there still work', async () => {
    newMinute()
    const bad = () => cp.call('GET', '/api/me', undefined, { authorization: 'Bearer nonsense' })
    const statuses = await many(62, bad)
    expect(statuses.slice(0, 60).every((s) => s === 401)).toBe(true)
    expect(statuses.slice(60)).toEqual([429, 429])
    expect((await cp.call('GET', '/api/me')).status).toBe(200)
  })
})

describe('the address', () => {
  const bad = (cp: TestControlPlane, forwarded: string) =>
    cp.call('GET', '/api/me', undefined, {
      authorization: 'Bearer nonsense',
      'x-forwarded-for': forwarded,
    })

  test("is the socket's: a forwarding header opens no new account", async () => {
    const cp = await TestControlPlane.start('sqlite')
    const statuses: number[] = []
    for (let n = 0; n < 62; n++) statuses.push((await bad(cp, `10.0.0.${n}`)).status)
    expect(statuses.filter((s) => s === 429)).toHaveLength(2)
    await cp.close()
  })

  test('behind a trusted proxy is the one it names, and only the last hop is believed', async () => {
    const cp = await TestControlPlane.start('sqlite', { config: { trustedProxies: ['127.0.0.1'] } })
    const seen = new Set<number>()
    for (let n = 0; n < 62; n++) seen.add((await bad(cp, `10.0.0.${n}`)).status)
    expect([...seen]).toEqual([401])
    // what the client wrote itself is left of what the proxy added
    const spoofed: number[] = []
    for (let n = 0; n < 62; n++) spoofed.push((await bad(cp, `1.2.3.${n}, 10.9.9.9`)).status)
    expect(spoofed.filter((s) => s === 429)).toHaveLength(2)
    await cp.close()
  })

  test('of a socket is found by the same rule: for its limits, and where the token was last seen', async () => {
    const trust = { config: { trustedProxies: ['127.0.0.0/8', '::1'] } }
    const cp = await TestControlPlane.start('sqlite', trust)
    await cp.setUp()
    const knock = async (token: string, forwarded: string): Promise<string> => {
      const socket = new LiveSocket(cp, token, { 'x-forwarded-for': forwarded })
      const { code } = await socket.answer(await socket.ask('organization.events', ORGANIZATION))
      socket.close()
      return code
    }
    const { token } = await makePerson(cp, 'eve', { organizationId: 1 })
    expect(await knock(token, '9.9.9.9, 203.0.113.7, 127.0.0.2')).toBe('started')
    const seen = () => cp.running.ctx.db.selectFrom('tokens').select('lastUsedAddress').execute()
    expect((await seen()).map((row) => row.lastUsedAddress)).toContain('203.0.113.7')
    for (let n = 0; n < 62; n++) {
      expect(await knock('nonsense', `10.0.0.${n}`)).toBe('token_invalid')
    }
    const same: string[] = []
    for (let n = 0; n < 61; n++) same.push(await knock('nonsense', `1.2.3.${n}, 10.9.9.9`))
    expect([same[59], same[60]]).toEqual(['token_invalid', 'rate_limited'])
    await cp.close()
  })

  test('BERTH_TRUSTED_PROXY takes addresses and networks, and nothing else', () => {
    const read = (text: string) =>
      readConfig({ BERTH_DEV: '1', BERTH_TRUSTED_PROXY: text }).trustedProxies
    expect(read('')).toEqual([])
    expect(read('10.0.0.7, 10.1.0.0/16 ::1')).toEqual(['10.0.0.7', '10.1.0.0/16', '::1'])
    for (const bad of ['true', '*', '10.0.0.0/33', '1.2.3', 'proxy.example.com'])
      expect(() => read(bad)).toThrow(/BERTH_TRUSTED_PROXY/)
  })
})

describe('a counter', () => {
  const counter = (perMinute: number, now = () => 0) => {
    const windows = new LocalWindows(now)
    return { windows, limit: new RateLimit(perMinute, windows) }
  }

  test('remembers at most ten thousand keys', async () => {
    let now = 0
    const { limit, windows } = counter(1, () => now)
    for (let n = 0; n < 25_000; n++) {
      await limit.count(`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`)
    }
    expect(windows.size).toBe(10_000)
    now = 60_000
    expect((await limit.count('10.0.97.167')).allowed).toBe(true)
  })

  test('takes a whole IPv6 network for one, and a mapped address for what it is', async () => {
    const { limit } = counter(1)
    const isAllowed = async (key: string) => (await limit.count(key)).allowed
    expect(await isAllowed('2001:db8::1')).toBe(true)
    expect(await isAllowed('2001:db8:0:0:ffff::2')).toBe(false)
    expect(await isAllowed('2001:0db8:0000:0000:1:2:3:4')).toBe(false)
    expect(await isAllowed('2001:db8:0:1::1')).toBe(true)
    expect(await isAllowed('10.0.0.1')).toBe(true)
    expect(await isAllowed('::ffff:10.0.0.1')).toBe(false)
  })

  test('gives back what was free, never more', async () => {
    const { limit } = counter(2)
    await limit.giveBack('a')
    const [one, two, three] = [
      await limit.count('a'),
      await limit.count('a'),
      await limit.count('a'),
    ]
    expect([one.left, two.left, three.allowed]).toEqual([1, 0, false])
    await limit.giveBack('a')
    await limit.giveBack('a')
    expect((await limit.count('a')).allowed).toBe(true)
  })
})
