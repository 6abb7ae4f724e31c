// Routing with a real Caddy and a real edge process: which application each request reaches, what all others get, and
// what is forbidden from outside.
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openAdmin } from '../../agent/src/proxy/caddy/admin.ts'
import { ensureKeys } from '../../agent/src/proxy/paths.ts'
import { findAdminSocket } from '../../agent/src/proxy/process-files.ts'
import { readTable } from '../../agent/src/proxy/table.ts'
import { missing } from '../fixtures/platform/components.ts'
import { type Application, EdgeFixture } from '../fixtures/server/edge.ts'
import { until } from '../fixtures/server/installation.ts'

/** Of cost 4: the tests cover routing, not the hash. */
const HASHES = {
  'sesame-{street}': '$2b$04$UxHkBa0KzxkvO6zMMlh6Tueo1lk/dk3n17si/IeOYFteJYpquKqK2',
  another: '$2b$04$T0YAzMArh0qeRZnslY9HlekJGy6gL/P39lcnpLH6deTHyIA69Kpdm',
}

describe.skipIf(missing('caddy'))('the edge', () => {
  let fixture: EdgeFixture
  let web: Application
  let api: Application

  beforeAll(async () => {
    fixture = await EdgeFixture.open()
    web = await fixture.application('web')
    api = await fixture.application('api')
  })
  afterAll(() => fixture.close())

  const headersSeen = () =>
    fixture.application('headers', (incoming, answer) => {
      answer.setHeader('x-berth-upstream', 'forged')
      answer.end(JSON.stringify(incoming.headers))
    })

  it('is up and says so', async () => {
    const seen = await fixture.edge.describe()
    expect(seen).toMatchObject({ mode: 'caddy', caddy: { up: true, reason: '' } })
    expect(statSync(fixture.paths.socket).mode & 0o777).toBe(0o600)
    expect(statSync(fixture.paths.adminDir).mode & 0o777).toBe(0o700)
  })

  it('an unknown host gets its page at once, as HTML or as text', async () => {
    const html = await fixture.ask({
      host: 'nobody.localhost',
      headers: { accept: 'text/html,*/*' },
    })
    expect(html.status).toBe(404)
    expect(html.text).toContain('<h1>Nothing here</h1>')
    const text = await fixture.ask({
      host: 'nobody.localhost',
      path: '/x',
      headers: { accept: '*/*' },
    })
    expect(text.status).toBe(404)
    expect(text.headers['content-type']).toBe('text/plain; charset=utf-8')
    // names that cannot be looked up: a timeout for them would be a 503
    for (const host of [
      'a..b',
      '-',
      'x.',
      '[::1]',
      `${'a'.repeat(64)}.example`,
      'a.'.repeat(120),
    ]) {
      expect((await fixture.ask({ host })).status, host).toBe(404)
    }
  })

  it('a route is served when the call returns, on disk, and no configuration was pushed', async () => {
    const before = fixture.configuration()
    await fixture.route(1, [{ host: 'pr-1.shop.localhost', target: web.target }])
    const answer = await fixture.ask({ host: 'PR-1.shop.localhost:81', path: '/x?y=1' })
    expect(answer).toMatchObject({ status: 200, text: 'web /x?y=1' })
    expect(readTable(fixture.settings).environments[1]?.routes[0]?.host).toBe('pr-1.shop.localhost')
    expect(fixture.configuration()).toBe(before)
    expect(fixture.edge.urlOf('pr-1.shop.localhost', '/')).toBe(
      `http://pr-1.shop.localhost:${fixture.settings.proxy.http.port}/`,
    )
  })

  it('a lower fence is stale, an equal one is not; a host of another environment is refused', async () => {
    const host = 'fence.localhost'
    await fixture.route(2, [{ host, target: web.target }], 10n)
    await expect(fixture.route(2, [{ host, target: api.target }], 9n)).rejects.toMatchObject({
      kind: 'stale',
    })
    expect((await fixture.ask({ host })).text).toBe('web /')
    await fixture.route(2, [{ host, target: api.target }], 10n)
    expect(await fixture.edge.getRoutes(2)).toMatchObject({ fence: 10n, routes: [{ host }] })
    await expect(fixture.route(3, [{ host, target: web.target }])).rejects.toMatchObject({
      kind: 'refused',
    })
    await expect(fixture.edge.removeRoutes({ environmentId: 2, fence: 9n })).rejects.toMatchObject({
      kind: 'stale',
    })
    await fixture.edge.removeRoutes({ environmentId: 2, fence: 11n })
    await expect(fixture.route(2, [{ host, target: web.target }], 10n)).rejects.toMatchObject({
      kind: 'stale',
    })
    await until('its page', async () => (await fixture.ask({ host })).status === 404 || undefined)
  })

  it('calls that cannot be meant are refused with a sentence', async () => {
    const bad = [
      { host: 'UPPER.localhost', target: web.target },
      { host: 'x.localhost', path: 'x', target: web.target },
      { host: 'x.localhost', target: { kind: 'loopback' as const, port: 0 } },
      { host: 'x.localhost', target: { kind: 'static' as const, root: 'relative' } },
    ]
    for (const route of bad) {
      await expect(fixture.route(4, [route])).rejects.toMatchObject({ kind: 'refused' })
    }
    const twice = { host: 'x.localhost', target: web.target }
    await expect(fixture.route(4, [twice, twice])).rejects.toThrow('is routed twice')
    const gone = { kind: 'container' as const, id: 'no-such-container', port: 80 }
    await expect(fixture.route(4, [{ host: 'x.localhost', target: gone }])).rejects.toMatchObject({
      name: 'EdgeError',
    })
  })

  it('Basic Auth: on, off, another one, not for a service with auth: false', async () => {
    const host = 'guarded.localhost'
    const open = 'hook-guarded.localhost'
    const seen = await headersSeen()
    await fixture.route(5, [
      { host, target: seen.target },
      { host: open, service: 'hook', auth: false, target: seen.target },
    ])
    const basic = (name: string, password: string) => ({
      authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
    })
    const setAuth = (revision: bigint, basicAuth: object | null) =>
      fixture.edge.setAuth({ environmentId: 5, revision, basicAuth: basicAuth as never })
    const revision = fixture.fence * 10n // also higher in a retry of this test
    await setAuth(revision, { username: 'ada{x}', passwordHash: HASHES['sesame-{street}'] })
    const refused = await fixture.ask({ host })
    expect(refused.status).toBe(401)
    expect(refused.headers['www-authenticate']).toContain('Basic')
    expect((await fixture.ask({ host, headers: basic('ada{x}', 'wrong') })).status).toBe(401)
    // other spellings of the hostname do not bypass the password
    expect((await fixture.ask({ host: 'GUARDED.localhost' })).status).toBe(401)
    expect((await fixture.ask({ host: 'guarded.localhost.' })).status).toBe(404)
    const granted = await fixture.ask({ host, headers: basic('ada{x}', 'sesame-{street}') })
    expect(granted.status).toBe(200)
    expect(JSON.parse(granted.text)).not.toHaveProperty('authorization')
    const free = await fixture.ask({ host: open, headers: { authorization: 'Bearer own' } })
    expect(free.status).toBe(200)
    expect(JSON.parse(free.text)).toMatchObject({ authorization: 'Bearer own' })
    await setAuth(revision + 1n, { username: 'bob', passwordHash: HASHES.another })
    expect((await fixture.ask({ host, headers: basic('ada{x}', 'sesame-{street}') })).status).toBe(
      401,
    )
    expect((await fixture.ask({ host, headers: basic('bob', 'another') })).status).toBe(200)
    await expect(setAuth(revision, null)).rejects.toMatchObject({ kind: 'stale' })
    await setAuth(revision + 2n, null)
    await until(
      'no password',
      async () => (await fixture.ask({ host })).status === 200 || undefined,
    )
    await expect(
      setAuth(revision + 3n, { username: 'x', passwordHash: HASHES.another.slice(1) }),
    ).rejects.toMatchObject({
      kind: 'refused',
    })
  })

  it('paths: the longest prefix wins, on borders of segments, and is kept', async () => {
    const host = 'paths.localhost'
    const deep = await fixture.application('deep')
    await fixture.route(6, [
      { host, target: web.target },
      { host, path: '/api', service: 'api', target: api.target },
      { host, path: '/api/deep', service: 'deep', target: deep.target },
    ])
    const who = async (path: string) => (await fixture.ask({ host, path })).text
    expect(await who('/')).toBe('web /')
    expect(await who('/api')).toBe('api /api')
    expect(await who('/api/x?q')).toBe('api /api/x?q')
    expect(await who('/apix')).toBe('web /apix')
    expect(await who('/api/deep/x')).toBe('deep /api/deep/x')
    expect(await who('/api/deeper')).toBe('api /api/deeper')
    const { upstream } = await fixture.edge.probe({
      host,
      path: '/api',
      status: 200,
      timeoutMs: 5_000,
    })
    expect(upstream).toBe(`127.0.0.1:${api.port}`)
  })

  it('a folder of files: served, dotfiles hidden, a new version without a push', async () => {
    const host = 'files.localhost'
    const folders = ['one', 'two'].map((name) => {
      const folder = join(fixture.folder, 'static', name)
      mkdirSync(join(folder, '.git'), { recursive: true })
      writeFileSync(join(folder, 'index.html'), name)
      writeFileSync(join(folder, '.env'), 'SECRET=1')
      writeFileSync(join(folder, '.git', 'config'), 'url')
      return folder
    })
    const put = (root = '') => fixture.route(7, [{ host, target: { kind: 'static', root } }])
    await put(folders[0])
    expect((await fixture.ask({ host })).text).toBe('one')
    for (const path of ['/.env', '/.git/config', '/%2eenv', '/../table.json', '/none']) {
      expect((await fixture.ask({ host, path })).status, path).toBe(404)
    }
    expect(await fixture.edge.probe({ host, path: '/', status: 200, timeoutMs: 5_000 })).toEqual({
      status: 200,
      upstream: 'static',
    })
    const before = fixture.configuration()
    await put(folders[1])
    expect((await fixture.ask({ host })).text).toBe('two')
    expect(fixture.configuration()).toBe(before)
  })

  it('a Unix socket, and the next one, without a push', async () => {
    const host = 'socket.localhost'
    const uid = process.getuid?.() === 0 ? 54_321 : undefined
    const servers = await Promise.all(
      ['first', 'second'].map(async (name) => {
        const server = createServer((_incoming, answer) => answer.end(name))
        const path = join(fixture.folder, `${name}.sock`)
        await new Promise<void>((resolve) => server.listen(path, resolve))
        if (uid !== undefined) chownSync(path, uid, uid)
        return { server, path }
      }),
    )
    const target = (path: string) => ({ kind: 'socket' as const, path, ...(uid && { uid }) })
    const put = (path = '') => fixture.route(8, [{ host, target: target(path) }])
    await put(servers[0]?.path)
    expect((await fixture.ask({ host })).text).toBe('first')
    const before = fixture.configuration()
    await put(servers[1]?.path)
    // a kept connection may still lead to the first
    servers[0]?.server.closeAllConnections()
    await until(
      'the second',
      async () => (await fixture.ask({ host })).text === 'second' || undefined,
    )
    expect(fixture.configuration()).toBe(before)
    expect(readdirSync(fixture.paths.sockets)).toHaveLength(1)
    await fixture.edge.removeRoutes({ environmentId: 8, fence: 1_000n })
    expect(readdirSync(fixture.paths.sockets)).toEqual([])
    for (const { server } of servers) server.close()
  })

  it('a socket on another file system is refused with the reason', async (t) => {
    const folder = mkdtempSync('/dev/shm/berth-edge-')
    try {
      if (statSync(folder).dev === statSync(fixture.folder).dev) return t.skip('one file system')
      const path = join(folder, 'x.sock')
      const server = createServer()
      await new Promise<void>((resolve) => server.listen(path, resolve))
      if (process.getuid?.() === 0) chownSync(path, 54_321, 54_321)
      const target = { kind: 'socket' as const, path, uid: 54_321 }
      await expect(fixture.route(13, [{ host: 'far.localhost', target }])).rejects.toMatchObject({
        kind: 'refused',
        message: expect.stringMatching(
          /x\.sock \(service web\): it is on another file system than /,
        ),
      })
      expect(readTable(fixture.settings).environments[13]).toBeUndefined()
      server.close()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('the probe names who answered; from outside its header is nothing', async () => {
    const host = 'probe.localhost'
    const seen = await headersSeen()
    await fixture.route(9, [{ host, target: seen.target }])
    await fixture.edge.setAuth({
      environmentId: 9,
      revision: 1n,
      basicAuth: { username: 'a', passwordHash: HASHES.another },
    })
    const probe = { host, path: '/', status: 200, timeoutMs: 5_000 }
    expect(await fixture.edge.probe(probe)).toEqual({
      status: 200,
      upstream: `127.0.0.1:${seen.port}`,
    })
    for (const guess of ['1', '', '*', ensureKeys(fixture.settings).ask]) {
      const answer = await fixture.ask({ host, headers: { 'x-berth-probe': guess } })
      expect(answer.status).toBe(401)
      expect(answer.headers).not.toHaveProperty('x-berth-upstream')
    }
    const log = () => readFileSync(join(fixture.paths.caddy, 'access.log'), 'utf8')
    await until('the access log', () => log().includes('probe.localhost') || undefined)
    expect(log()).not.toContain(ensureKeys(fixture.settings).probe)
    expect(log()).not.toContain('Authorization')
  })

  it('headers of the platform cannot be sent, nor answered by an application', async () => {
    const host = 'headers.localhost'
    await fixture.route(10, [{ host, target: (await headersSeen()).target }])
    const forged = { 'x-berth-upstream': 'x', 'X-BERTH-Page': 'redirect', 'x-berth-y': '1' }
    const answer = await fixture.ask({
      host,
      headers: { ...forged, 'x-forwarded-for': '1.2.3.4', 'x-other': 'stays' },
    })
    const got = JSON.parse(answer.text) as Record<string, string>
    expect(Object.keys(got).filter((name) => name.startsWith('x-berth'))).toEqual([])
    expect(got['x-other']).toBe('stays')
    expect(got['x-forwarded-for']).toBe('127.0.0.1')
    expect(got['x-forwarded-host']).toBe(host)
    expect(answer.headers).not.toHaveProperty('x-berth-upstream')
  })

  it('pages of environments: deploying, failed, stopped', async () => {
    const at = (page: 'deploying' | 'failed' | 'stopped') => ({
      host: `${page}.localhost`,
      target: { kind: 'page' as const, page },
    })
    await fixture.route(11, [at('deploying'), at('failed'), at('stopped')])
    const words = { deploying: 'On its way', failed: 'Not deployed', stopped: 'Not running' }
    for (const [page, title] of Object.entries(words)) {
      const answer = await fixture.ask({ host: `${page}.localhost`, method: 'POST', body: 'x' })
      expect(answer.status).toBe(503)
      expect(answer.headers['retry-after']).toBe('5')
      expect(answer.text).toContain(title)
    }
  })

  it('an application that is away: waited for, then a page of Caddy itself', async () => {
    const host = 'away.localhost'
    await fixture.route(12, [{ host, target: { kind: 'loopback', port: 9 } }])
    const answer = await fixture.ask({ host, headers: { accept: 'text/html' } })
    expect(answer.status).toBe(502)
    expect(answer.text).toContain('<h1>No answer</h1>')
    expect(answer.text).toContain('color-scheme:light dark}')
  })

  it('a configuration that Caddy refuses is refused with its reason, and the old one serves', async () => {
    const { origin } = ensureKeys(fixture.settings)
    const admin = openAdmin(findAdminSocket(fixture.settings), origin)
    const bad = fixture.configuration().replace('"listen":["127', '"listen":["nonsense:::127')
    await expect(admin.load(bad)).rejects.toMatchObject({ name: 'CaddyRefused' })
    expect((await fixture.ask({ host: 'pr-1.shop.localhost' })).text).toBe('web /')
    expect(await openAdmin(findAdminSocket(fixture.settings), 'localhost').ping()).toContain('403')
  })

  it('many changes at once travel in few pushes, and each is served when it returns', async () => {
    const count = 20
    await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const host = `many-${i}.localhost`
        await fixture.route(100 + i, [{ host, path: '/only', target: api.target }], 1n)
        expect((await fixture.ask({ host, path: '/only' })).text).toBe('api /only')
        expect((await fixture.ask({ host, path: '/' })).status).toBe(404)
      }),
    )
    expect(Object.keys(readTable(fixture.settings).environments).length).toBeGreaterThan(count)
  })
})
