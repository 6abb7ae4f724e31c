import { describe, expect, it } from 'vitest'
import { renderPage } from '../edge/pages.ts'
import { listNames, pageFor } from '../edge/resolution.ts'
import type { EdgeRoute } from '../protocol.ts'
import { listRoutes, readTable, type Table, withAuth, withRoutes } from '../table.ts'
import { type RenderInput, renderConfiguration } from './render.ts'

const empty = readTable({ stateDir: '/nonexistent', runDir: '/nonexistent' })
const route = (host: string, over: Partial<EdgeRoute> = {}): EdgeRoute => ({
  service: 'web',
  host,
  path: '/',
  auth: true,
  target: { kind: 'container', id: 'c1', port: 80 },
  ...over,
})
const tableOf = (...routes: EdgeRoute[]): Table =>
  withRoutes(empty, { environmentId: 1, fence: 1n, routes })
const guarded = (table: Table): Table =>
  withAuth(table, {
    environmentId: 1,
    revision: 1n,
    basicAuth: { username: 'a', passwordHash: 'h' },
  })

const http = { address: '0.0.0.0', port: 80 }
const render = (table: Table, over: Partial<RenderInput> = {}): string =>
  JSON.stringify(
    renderConfiguration({
      proxy: { http, https: null, dnsPort: 15_353 },
      routes: listRoutes(table),
      keys: { probe: 'PROBE', origin: 'berth-x', ask: 'ASK' },
      adminSocket: '/run/berth/caddy/admin.sock',
      links: '/links',
      sockets: '/sockets',
      logs: '/logs',
      pagePort: 4_000,
      version: '2.6.2',
      ...over,
    }),
  )
const address = (id: string) => (id === 'c1' ? '10.0.0.1' : undefined)

describe('the configuration', () => {
  it('does not change with plain routes, versions and ports', () => {
    const other = tableOf(
      route('a.localhost', { target: { kind: 'container', id: 'c2', port: 81 } }),
      route('b.localhost', { target: { kind: 'page', page: 'stopped' } }),
    )
    expect(render(other)).toBe(render(empty))
  })

  it('writes an access log unless the server switches it off, and never with headers or queries', () => {
    expect(render(empty)).not.toContain('access.log')
    const proxy = { http, https: null, dnsPort: 15_353, accessLog: true as const }
    const logged = render(empty, { proxy })
    expect(logged).toContain('/logs/access.log')
    expect(logged).toContain('"request>headers":{"filter":"delete"}')
    expect(logged).toContain('"request>uri":{"filter":"regexp","regexp":"[?#].*","value":""}')
  })

  it('does not change with versions of own routes either', () => {
    const own = (id: string, root: string) =>
      guarded(
        tableOf(
          route('a.localhost', { target: { kind: 'container', id, port: 80 } }),
          route('b.localhost', { target: { kind: 'static', root } }),
          route('c.localhost', { target: { kind: 'socket', path: `${root}.sock` } }),
        ),
      )
    expect(render(own('c1', '/one'))).toBe(render(own('c2', '/two')))
    expect(render(own('c1', '/one'))).not.toBe(render(empty))
  })

  it('asks for the password before everything but the probe, and not for auth: false', () => {
    const text = render(
      guarded(tableOf(route('a.localhost'), route('b.localhost', { auth: false }))),
    )
    expect(text.match(/"http_basic"/g)).toHaveLength(1)
    expect(text).toContain('"host":["a.localhost"]')
    expect(text).not.toContain('b.localhost')
    expect(text).toContain('"delete":["Authorization"]')
  })

  it('names the authority of certificates, if it is not a public one', () => {
    const https = { address: '0.0.0.0', port: 443 }
    const proxyOf = (tls?: RenderInput['proxy']['tls']) => ({
      proxy: { http, https, dnsPort: 15_353, ...(tls ? { tls } : {}) },
    })
    expect(render(empty, proxyOf())).not.toContain('"issuers"')
    expect(render(empty, proxyOf('internal'))).toContain('"issuers":[{"module":"internal"}]')
    expect(render(empty, proxyOf('https://ca.example.com/dir'))).toContain(
      '"issuers":[{"module":"acme","ca":"https://ca.example.com/dir"}]',
    )
  })

  it('has the longest path of a host first', () => {
    const text = render(
      tableOf(
        route('a.localhost', { path: '/api' }),
        route('a.localhost', { path: '/api/v2' }),
        route('a.localhost', { path: '/a.b' }),
      ),
    )
    expect(text.indexOf('^/api/v2(?:/|$)')).toBeGreaterThan(0)
    expect(text.indexOf('^/api/v2(?:/|$)')).toBeLessThan(text.indexOf('^/api(?:/|$)'))
    expect(text).toContain('^/a\\\\.b(?:/|$)')
  })

  it('has https, redirects and certificates only where there is https', () => {
    expect(render(empty)).not.toMatch(/tls|redirect|"pki"/)
    const proxy = { http, https: { address: '0.0.0.0', port: 443 }, dnsPort: 15_353 }
    const secure = render(empty, { proxy })
    expect(secure).toContain('"on_demand":{"ask":"http://127.0.0.1:4000/ask/ASK"}')
    expect(secure).toContain('"install_trust":false')
    expect(secure).toContain('"http.redirect"')
    expect(render(empty, { proxy, version: '2.10.0' })).toContain('"permission":{"module":"http"')
  })

  it('lets WebSockets outlive a push where Caddy can', () => {
    const isKept = (version: string) => render(empty, { version }).includes('"stream_close_delay"')
    expect(['2.6.2', '2.7.0', '2.10.0'].map(isKept)).toEqual([false, true, true])
  })

  it('names nothing twice', () => {
    const twice = listRoutes(guarded(tableOf(route('a.localhost'))))
    expect(() => render(empty, { routes: [...twice, ...twice] })).toThrow('twice')
  })
})

describe('names', () => {
  it('a host with a password is found under its own name alone', () => {
    const open = tableOf(route('a.localhost'))
    expect([...listNames(open).keys()]).toEqual(['a.localhost.berth.internal'])
    const [own = ''] = listNames(guarded(open)).keys()
    expect(own).toMatch(/^r[0-9a-f]{20}\.berth-own\.internal$/)
    expect(render(guarded(open))).toContain(own)
  })
})

describe('pages', () => {
  it('say what is the case', () => {
    const table = tableOf(
      route('a.localhost'),
      route('gone.localhost', { target: { kind: 'container', id: 'c9', port: 80 } }),
      route('first.localhost', { target: { kind: 'page', page: 'deploying' } }),
    )
    const page = (host: string) => pageFor(table, host, '/', address)
    expect(page('nobody.localhost')).toBe('unknown')
    expect(page('gone.localhost')).toBe('stopped')
    expect(page('first.localhost')).toBe('deploying')
    expect(page('a.localhost')).toBeUndefined()
  })

  it('load nothing, are small, and are text for programs', () => {
    for (const page of ['unknown', 'deploying', 'failed', 'stopped', 'files'] as const) {
      const { body, headers } = renderPage(page, 'text/html')
      expect(body).not.toMatch(/https?:|src=|href=|url\(|<script/)
      expect(body.length).toBeLessThan(2_000)
      expect(headers['cache-control']).toBe('no-store')
      expect(renderPage(page, '*/*').body).not.toContain('<')
    }
    expect(renderPage('deploying', 'text/html').body).toContain('http-equiv="refresh"')
    expect(renderPage('unknown', '').headers).not.toHaveProperty('retry-after')
  })
})
