// Requests of every shape: rules that hold for all routes and any input. Nothing here may cause a fault, reach a log,
// or come back as a header.
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { REST } from '@berth/shared'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { routesOf } from '../../control-plane/src/gateways/rest/reference/openapi.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

/** Sends raw bytes and reads until the connection ends. */
function sendRaw(url: string, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(bytes))
    let seen = ''
    socket.setTimeout(10_000, () => socket.destroy(new Error(`no end: ${seen.slice(0, 200)}`)))
    socket.on('data', (data) => {
      seen += data
    })
    socket.on('close', () => resolve(seen))
    socket.on('error', reject)
  })
}

const SHAPE = ['code', 'detail', 'instance', 'request_id', 'status', 'title', 'type']

/** Parses a complete answer with a JSON body. */
function readRaw(raw: string): { status: number; headers: Headers; body: Record<string, unknown> } {
  const [head = '', body = ''] = raw.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = lines.map((line) => line.split(/: (.*)/, 2) as [string, string])
  // chunked or not, the problem is one object
  const json = body.slice(body.indexOf('{'), body.lastIndexOf('}') + 1)
  return {
    status: Number(first.split(' ')[1]),
    headers: new Headers(headers),
    body: JSON.parse(json) as Record<string, unknown>,
  }
}

describe.each(ENGINES)('requests on %s', (engine) => {
  let cp: TestControlPlane
  const log: string[] = []
  let ids: { server: number; project: number; environment: number }
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine, { logTo: (line) => void log.push(line) })
    await cp.setUp()
    const server = (await cp.server()).id
    const project = (await cp.project('shop', server)).id
    const environment = (await cp.environment(project)).id
    ids = { server, project, environment }
    for (const name of ['alpha', 'beta']) await cp.project(name, server)
  })
  afterAll(() => cp.close())

  const withIds = (path: string): string =>
    path
      .replace('/projects/{id}', `/projects/${ids.project}`)
      .replace('/environments/{id}', `/environments/${ids.environment}`)
      .replace('/servers/{id}', `/servers/${ids.server}`)
      .replace('{code}', 'not_found')
      .replace('{id}', '1')
      .replaceAll(/\{\w+\}/g, '1')

  test('HEAD works wherever GET does, with the same status and headers and no body', async () => {
    const gets = routesOf(cp.running.http).filter(
      (r) => r.method === 'GET' && !r.route.schema?.hide,
    )
    expect(gets.length).toBeGreaterThan(10)
    for (const { path } of gets) {
      const [get, head] = [
        await cp.call('GET', withIds(path)),
        await cp.call('HEAD', withIds(path)),
      ]
      expect([path, head.status, head.text]).toEqual([path, get.status, ''])
      expect(head.headers.get('content-type'), path).toBe(get.headers.get('content-type'))
      // the time in /api/health advances
      if (path !== '/api/health') expect(head.headers.get('etag')).toBe(get.headers.get('etag'))
    }
  })

  test('a method an address does not have is 405 with those it has', async () => {
    for (const [method, path, allow] of [
      ['DELETE', '/api/me', 'GET, HEAD'],
      ['PUT', '/api/projects', 'GET, HEAD, POST'],
      ['POST', '/api/openapi.json', 'GET, HEAD'],
      ['OPTIONS', '/api/me', 'GET, HEAD'],
      ['PROPFIND', '/api/me', 'GET, HEAD'],
    ] as const) {
      const { status, body, headers } = await cp.call(method, path)
      const seen = [status, body.code, headers.get('allow')]
      expect(seen, path).toEqual([405, 'method_not_allowed', allow])
    }
    expect((await cp.call('GET', '/api/openapiXjson')).status).toBe(404)
  })

  test('QUERY, TRACE, CONNECT and methods that nobody knows are 405, or 404 where nothing is', async () => {
    const rest = 'HTTP/1.1\r\nHost: x\r\nConnection: close\r\n'
    for (const head of [
      `QUERY /api/me ${rest}`,
      `QUERY /api/me ${rest}Content-Type: application/json\r\nContent-Length: 5\r\n`,
      `TRACE /api/me?a=b ${rest}`,
      `CONNECT /api/me ${rest}`,
      `FROBNICATE /api/me ${rest}`,
      `get /api/me ${rest}`,
    ]) {
      const { status, body, headers } = readRaw(await sendRaw(cp.url, `${head}\r\n{"a"}`))
      const seen = [status, body.code, headers.get('allow'), body.status, body.instance]
      expect([head, ...seen]).toEqual([
        head,
        405,
        'method_not_allowed',
        'GET, HEAD',
        405,
        '/api/me',
      ])
    }
    for (const method of ['QUERY', 'TRACE', 'CONNECT', 'PROPFIND', 'FROBNICATE']) {
      const { status, body } = readRaw(await sendRaw(cp.url, `${method} /api/nothing ${rest}\r\n`))
      expect([method, status, body.code]).toEqual([method, 404, 'not_found'])
    }
    const tunnel = readRaw(await sendRaw(cp.url, `CONNECT example.com:443 ${rest}\r\n`))
    expect([tunnel.status, tunnel.body.code]).toEqual([405, 'method_not_allowed'])
    expect(log.join('\n')).not.toContain('request failed')
  })

  test('a query parameter that nobody declared is refused by name, wherever REST is', async () => {
    const routes = routesOf(cp.running.http).filter(({ path, route }) => {
      const isPart = !route.schema?.hide && route.config?.anyQuery !== true
      return isPart && path.startsWith('/api/')
    })
    expect(routes.length).toBeGreaterThan(80)
    for (const { method, path } of routes) {
      const body = method === 'GET' ? undefined : {}
      const answer = await cp.call(method, `${withIds(path)}?nosuch=${cp.token}`, body)
      expect([method, path, answer.status, answer.body.code]).toEqual([
        method,
        path,
        400,
        'invalid_parameter',
      ])
      expect(answer.body.errors).toMatchObject([{ field: 'nosuch', code: 'unknown_field' }])
      expect(answer.text).not.toContain(cp.token)
    }
    const { body } = await cp.call('GET', '/api/projects?names=shop')
    expect(body.detail).toBe('There is no parameter "names" here. Known: per_page, cursor, name.')
    for (const open of ['/api/health?x=1', '/api/openapi.json?v=2', '/api/servers?per_page=100'])
      expect([open, (await cp.call('GET', open)).status]).toEqual([open, 200])
  })

  test('a client that leaves in the middle of its body is no fault, and nothing is done', async () => {
    const before = (await cp.call<object[]>('GET', '/api/servers')).body.length
    const paths = ['/api/servers', '/api/auth/sign-in/email', '/api/oauth/token', '/webhooks/1']
    for (const path of [...paths, '/trpc/session.signIn']) {
      const type = path.includes('oauth') ? 'application/x-www-form-urlencoded' : 'application/json'
      const from = log.length
      const left = `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${cp.token}\r\n`
      const socket = connect(Number(new URL(cp.url).port), '127.0.0.1')
      const { http } = cp.running
      const arrived = new Promise<IncomingMessage>((resolve) =>
        http.server.once('request', (request: IncomingMessage) => resolve(request)),
      )
      socket.write(`${left}Content-Type: ${type}\r\nContent-Length: 500\r\n\r\n{"name":`)
      const request = await arrived
      const closed = new Promise((resolve) => request.once('close', resolve))
      socket.destroy()
      await closed
      await cp.call('GET', '/api/me') // by now the log has any line about it
      expect([path, log.slice(from).filter((line) => /"level":(50|60)/.test(line))]).toEqual([
        path,
        [],
      ])
    }
    expect((await cp.call<object[]>('GET', '/api/servers')).body.length).toBe(before)
  })

  test.skipIf(engine !== 'sqlite')('a request that is not whole in time is 408', async () => {
    const { server } = cp.running.http
    expect([server.headersTimeout, server.requestTimeout]).toEqual([10_000, 15_000])
    const port = Number(new URL(cp.url).port)
    const trickle = (bytes: string): Promise<string> =>
      new Promise((resolve, reject) => {
        let seen = ''
        const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
        const timer = setInterval(() => socket.write('x'), 1_000)
        socket.on('data', (data) => {
          seen += data
        })
        socket.on('error', (error) => (seen === '' ? reject(error) : undefined))
        socket.on('close', () => {
          clearInterval(timer)
          resolve(seen)
        })
      })
    const body = 'Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{'
    const ends = await Promise.all([
      trickle('GET /api/me HTTP/1.1\r\nHost: x\r\nX-Slow: '),
      trickle(`POST /api/setup HTTP/1.1\r\nHost: x\r\n${body}`),
    ])
    for (const end of ends) {
      const { status, body: problem } = readRaw(end)
      expect([status, problem.code]).toEqual([408, 'request_timeout'])
    }
  })

  test('one address has a bounded number of requests that are not whole; others are served', async () => {
    const port = Number(new URL(cp.url).port)
    const many = Array.from({ length: REST.halfOpen + 100 }, () => connect(port, '127.0.0.1'))
    let ended = 0
    for (const socket of many) {
      socket.on('error', () => {})
      socket.on('close', () => {
        ended += 1
      })
      socket.write('GET /api/me HTTP/1.1\r\nHost: x\r\n')
    }
    const kept = many.at(-1)
    await until('the oldest to be cut', () => ended >= 100 || undefined)
    expect(kept?.destroyed).toBe(false)
    expect((await cp.call('GET', '/api/me')).status).toBe(200)
    for (const socket of many) socket.destroy()
  })

  test('what cannot be answered in an accepted form is 406, and */* is everything', async () => {
    const ask = async (path: string, accept: string) =>
      (await cp.call('GET', path, undefined, { accept })).status
    for (const good of [
      '*/*',
      'application/json',
      'application/*',
      'text/html, */*;q=0.1',
      'garbage,*/*',
    ])
      expect([good, await ask('/api/projects', good)]).toEqual([good, 200])
    for (const bad of ['text/html', 'application/json;q=0', '*/*, application/json;q=0', 'garbage'])
      expect([bad, await ask('/api/projects', bad)]).toEqual([bad, 406])
    expect(await ask('/api/docs', 'application/json')).toBe(406)
    expect(await ask('/api/docs', 'text/html')).toBe(200)
    expect(await ask('/api/tasks/77/log', 'application/x-ndjson')).toBe(404)
    expect(await ask('/api/tasks/77/log', 'image/png')).toBe(406)
  })

  test('a body in another form than JSON is 415, also without a type', async () => {
    const path = `/api/environments/${ids.environment}/tasks`
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data',
      'x',
    ]) {
      const answer = await cp.call('POST', path, 'a=b', { 'content-type': type })
      expect([type, answer.status, answer.body.code]).toEqual([type, 415, 'unsupported_media_type'])
    }
    const bare =
      `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${cp.token}\r\n` +
      'Content-Length: 2\r\nConnection: close\r\n\r\n{}'
    expect(await sendRaw(cp.url, bare)).toMatch(/^HTTP\/1\.1 415 /)
  })

  test('an address over 8 KiB is 414, headers over 16 KiB or 200 are 431', async () => {
    const long = await cp.call('GET', `/api/projects?name=${'x'.repeat(9_000)}`)
    expect([long.status, long.body.code]).toEqual([414, 'uri_too_long'])
    const start = 'HTTP/1.1\r\nHost: x\r\nConnection: close\r\n'
    const huge = await sendRaw(cp.url, `GET /api/me?x=${'x'.repeat(20_000)} ${start}\r\n`)
    expect(huge).toMatch(/^HTTP\/1\.1 414 .*uri_too_long/s)
    const wide = await sendRaw(cp.url, `GET /api/me ${start}X-Large: ${'x'.repeat(20_000)}\r\n\r\n`)
    expect(wide).toMatch(/^HTTP\/1\.1 431 .*headers_too_large/s)
    const three = 'a:b\r\n'.repeat(3_000)
    expect(await sendRaw(cp.url, `GET /api/me ${start}${three}\r\n`)).toMatch(/^HTTP\/1\.1 431 /)
    for (const [raw, status] of [
      [huge, 414],
      [wide, 431],
    ] as const) {
      const { body, headers } = readRaw(raw)
      expect(Object.keys(body).toSorted()).toEqual(SHAPE)
      expect([body.status, headers.get('content-type')]).toEqual([
        status,
        'application/problem+json',
      ])
      expect(body.type).toBe(`${cp.url}/docs/errors/${body.code}`)
      expect(headers.get('x-request-id')).toBe(body.request_id)
    }
    expect(Object.keys(long.body).toSorted()).toEqual(SHAPE)
    const some = Array.from({ length: 250 }, (_, n) => `x-${n}: y\r\n`).join('')
    expect(await sendRaw(cp.url, `GET /api/me ${start}${some}\r\n`)).toMatch(/^HTTP\/1\.1 431 /)
    expect((await cp.call('GET', '/api/health')).status).toBe(200)
  })

  test('bytes that are no HTTP get a clear end', async () => {
    for (const bytes of [
      '\0\0\0\r\n\r\n',
      'GET\r\n\r\n',
      'GET / HTTP/9.9\r\n\r\n',
      'G\x80T / HTTP/1.1\r\n\r\n',
    ])
      expect(await sendRaw(cp.url, bytes)).toMatch(/^HTTP\/1\.1 400 .*invalid_header/s)
    const smuggled =
      'POST /api/setup HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
    expect(await sendRaw(cp.url, smuggled)).toMatch(/^HTTP\/1\.1 400 /)
  })

  test('line ends, NUL and broken escapes in addresses do no harm', async () => {
    for (const path of [
      '/api/projects/%0d%0aSet-Cookie:%20a=b',
      '/api/projects?name=%0d%0aX-Evil:%201',
      '/api/projects?name=%00',
      '/api/projects/%zz',
      '/api/%',
      '/api/projects/1%2f..%2f..',
      '/docs/errors/%0d%0aX-Evil:1',
      '//evil.example.com/api/me',
    ]) {
      const { status, headers } = await cp.call('GET', path)
      expect([path, status < 500]).toEqual([path, true])
      expect(headers.has('set-cookie') || headers.has('x-evil'), path).toBe(false)
    }
    const { status, headers } = await cp.call('GET', '/api/projects?name=%0d%0aX-Evil:%201')
    expect(status).toBe(200)
    expect(headers.get('link')).toContain('name=%0D%0AX-Evil')
  })

  test('a request that names a whole address is answered from our own, whatever host it names', async () => {
    const raw = await sendRaw(
      cp.url,
      `GET http://evil.example.com/api/projects?per_page=1 HTTP/1.1\r\nHost: evil.example.com\r\n` +
        `Authorization: Bearer ${cp.token}\r\nConnection: close\r\n\r\n`,
    )
    expect(raw).toMatch(/^HTTP\/1\.1 200 /)
    expect(raw).toContain(`link: <${cp.url}/api/projects?per_page=1&cursor=`)
    expect(raw).not.toContain('evil')
  })

  test('poisoned keys, as JSON and as headers', async () => {
    const path = `/api/environments/${ids.environment}/tasks`
    for (const body of [
      '{"__proto__": {"x": 1}}',
      '{"constructor": {"prototype": {"x": 1}}}',
      '{"message": {"__proto__": {"x": 1}}}',
    ])
      expect([400, 422]).toContain((await cp.call('POST', path, body)).status)
    const raw =
      'GET /api/me HTTP/1.1\r\nHost: x\r\n__proto__: 1\r\nconstructor: 1\r\n__proto__: 2\r\n' +
      `Authorization: Bearer ${cp.token}\r\nConnection: close\r\n\r\n`
    expect(await sendRaw(cp.url, raw)).toMatch(/^HTTP\/1\.1 200 /)
    expect(({} as { x?: number }).x).toBeUndefined()
  })

  test('JSON as deep as a body can be, and texts a database cannot hold', async () => {
    const path = `/api/environments/${ids.environment}/tasks`
    const deep = '['.repeat(500_000) + ']'.repeat(500_000)
    expect((await cp.call('POST', path, deep)).status).toBe(422)
    const objects = `${'{"message":'.repeat(60_000)}1${'}'.repeat(60_000)}`
    expect((await cp.call('POST', path, objects, { 'idempotency-key': 'deep' })).status).toBe(422)
    const nul = await cp.call('POST', path, '{"message": "a\\u0000b"}')
    expect([nul.status, nul.body.code]).toEqual([422, 'validation_failed'])
    expect(nul.body.errors).toMatchObject([{ field: 'message', code: 'invalid_value' }])
    const deepNul = `{"message": ${'['.repeat(400_000)}"\\u0000"${']'.repeat(400_000)}}`
    expect((await cp.call('POST', path, deepNul)).status).toBe(422)
    const escaped = await cp.call(
      'POST',
      '/api/servers',
      '{"name": "a\\\\u0000b", "hostname": "h"}',
    )
    expect(escaped.status).toBe(201) // a backslash, a letter and four digits
    const surrogate = await cp.call('POST', '/api/servers', '{"name": "\\ud800", "hostname": "h"}')
    expect(surrogate.status).toBeLessThan(500)
  })

  test('a token in an address opens nothing and is in no log', async () => {
    const answer = await cp.call(
      'GET',
      `/api/me?token=${cp.token}&access_token=${cp.token}`,
      undefined,
      {
        authorization: '',
        cookie: `token=${cp.token}`,
      },
    )
    expect([answer.status, answer.body.code]).toEqual([401, 'token_missing'])
    expect(answer.text).not.toContain(cp.token)
    await cp.call('GET', `/api/nothing?token=${cp.token}`)
    await cp.call('GET', `/api/projects?token=${cp.token}`)
    // a fault is logged, too; the token is in the body here, because an address with one is refused
    const { secretStore } = cp.running.ctx
    const seal = secretStore.seal.bind(secretStore)
    secretStore.seal = () => {
      throw new Error('planned')
    }
    const project = { name: cp.token, repo_url: 'https://x.org/a', domain: 'log.example.com' }
    const headers = { referer: `https://x.org/?token=${cp.token}` }
    const body = { ...project, server_ids: [ids.server] }
    const fault = await cp.call('POST', '/api/projects', body, headers)
    secretStore.seal = seal
    expect([fault.status, fault.body.detail]).toEqual([500, 'Internal error'])
    expect(log.join('\n')).toContain(fault.body.request_id)
    expect(log.join('\n')).not.toContain(cp.token.slice(-20))
  })

  test('who follows a log gets the head of the answer before there is a line', async () => {
    const { db } = cp.running.ctx
    const agent = { id: 'agent', serverId: ids.server, installId: 'i', joinedAt: 1 }
    await db.insertInto('agents').values(agent).execute()
    const { id } = await cp.make<{ id: number }>(`/api/environments/${ids.environment}/tasks`)
    const leave = new AbortController()
    const answer = await fetch(`${cp.url}/api/tasks/${id}/log?follow=true`, {
      headers: { authorization: `Bearer ${cp.token}` },
      signal: AbortSignal.any([leave.signal, AbortSignal.timeout(30_000)]),
    })
    expect([answer.status, answer.headers.get('berth-log-complete')]).toEqual([200, 'false'])
    leave.abort()
    await cp.call('POST', `/api/tasks/${id}/cancel`)
  })

  test('cursors work where they came from, and nowhere else', async () => {
    const first = await cp.call('GET', '/api/projects?per_page=1')
    const next = /<([^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1] ?? ''
    const cursor = new URL(next).searchParams.get('cursor') ?? ''
    expect((await cp.call('GET', `/api/projects?per_page=1&cursor=${cursor}`)).status).toBe(200)
    const [payload = '', signature = ''] = cursor.split('.')
    const flipped = `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`
    const other = Buffer.from('{"n":"a","i":1}').toString('base64url')
    for (const bad of [
      payload,
      `${payload}.`,
      `${payload}.${flipped}`,
      `${other}.${signature}`,
      `${cursor}.x`,
      '',
      '.',
      'x'.repeat(400),
    ]) {
      const { status, body } = await cp.call('GET', `/api/projects?cursor=${bad}`)
      expect([bad, status, body.code]).toEqual([bad, 400, 'invalid_cursor'])
    }
    const elsewhere = `/api/environments/${ids.environment}/tasks?cursor=${cursor}`
    expect((await cp.call('GET', elsewhere)).body.code).toBe('invalid_cursor')
    const noPages = await cp.call('GET', `/api/servers?cursor=${cursor}x`)
    expect([noPages.status, noPages.body.code]).toEqual([400, 'invalid_parameter'])
    await cp.restart()
    expect((await cp.call('GET', `/api/projects?per_page=1&cursor=${cursor}`)).status).toBe(200)
  })
})

test('HSTS is sent where the browser came over TLS, and nowhere else', async () => {
  const secure = await TestControlPlane.start('sqlite', {
    config: { baseUrl: 'https://deploy.example.com' },
  })
  const plain = await TestControlPlane.start('sqlite')
  const hsts = async (cp: TestControlPlane, path: string, proto?: string) => {
    const headers = proto ? { 'x-forwarded-proto': proto } : {}
    const { port } = new URL(cp.running.http.listeningOrigin)
    const answer = await cp.call('GET', path, undefined, headers, `http://127.0.0.1:${port}`)
    return answer.headers.get('strict-transport-security')
  }
  try {
    for (const path of ['/api/health', '/api/me', '/api/nothing'])
      expect(await hsts(secure, path, 'https')).toBe('max-age=31536000')
    expect(await hsts(secure, '/api/health', 'http')).toBe(null)
    expect(await hsts(secure, '/api/health')).toBe(null)
    expect(await hsts(plain, '/api/health', 'https')).toBe(null)
  } finally {
    await secure.close()
    await plain.close()
  }
})
