import { Project, Task } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type TestIo, testIo } from '../testing/io.ts'
import { type Peer, problem, startPeer } from '../testing/peer.ts'
import { project, task } from '../testing/samples.ts'
import { createApi, isOlder, nextPage } from './api.ts'
import { addressBelow } from './http.ts'

let peer: Peer
let io: TestIo
const open = () =>
  createApi({ baseUrl: peer.url, token: 'berth_pat_x', organizationId: 3, io, debug: false })

beforeEach(async () => {
  peer = await startPeer()
  io = testIo()
})
afterEach(() => peer.stop())

describe('where the token goes', () => {
  it('below the base URL only', () => {
    const base = 'https://example.com/berth'
    expect(addressBelow(base, '/api/me', { a: ['x', 'y'], b: undefined }).href).toBe(
      'https://example.com/berth/api/me?a=x&a=y',
    )
    for (const bad of [
      'https://evil.example/api/me',
      'https://example.com/other/api',
      '/../other',
      'https://example.com/berthx/api',
      'https://u:p@example.com/berth/api',
    ]) {
      expect(() => addressBelow(base, bad), bad).toThrow(/not below/)
    }
  })

  it('is not carried to another origin by a redirect', async () => {
    const other = await startPeer()
    peer.script('GET /api/me', { status: 302, headers: { location: `${other.url}/api/me` } })
    await expect(open().get('/api/me', Project)).rejects.toThrow(/redirects .* not followed/)
    expect(other.requests).toEqual([])
    await other.stop()
  })

  it('follows a redirect below the base URL, for reads', async () => {
    peer.script('GET /api/old', { status: 307, headers: { location: '/api/new' } })
    peer.script('GET /api/new', { json: project() })
    expect((await open().get('/api/old', Project)).value.name).toBe('shop')
    peer.script('POST /api/old', { status: 307, headers: { location: '/api/new' } })
    await expect(open().post('/api/old', Project, { expect: 201 })).rejects.toThrow(/not followed/)
  })

  it('is not carried to another origin by the next page', async () => {
    const other = await startPeer()
    peer.script(
      'GET /api/projects',
      { json: [project()], headers: { link: `<${other.url}/api/projects?cursor=2>; rel="next"` } },
      { json: [project({ id: 13, name: 'blog' })] },
    )
    const { items } = await open().list('/api/projects', Project)
    expect(items.map(({ name }) => name)).toEqual(['shop', 'blog'])
    expect(other.requests).toEqual([])
    expect(peer.requests[1]?.query.get('cursor')).toBe('2')
    await other.stop()
  })

  it('travels with the organization and the name of the client', async () => {
    peer.script('GET /api/projects', { json: [] })
    await open().list('/api/projects', Project)
    expect(peer.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer berth_pat_x',
      'x-service-organization': '3',
      'berth-client': expect.stringMatching(/^cli\/\d/),
    })
  })
})

describe('repeating', () => {
  it.each([502, 503, 504])('a read answered %d is repeated three times', async (status) => {
    peer.script('GET /api/projects', { status, text: 'busy' })
    await expect(open().list('/api/projects', Project)).rejects.toMatchObject({ exitCode: 1 })
    expect(peer.requests).toHaveLength(4)
    expect(io.sleeps).toHaveLength(3)
  })

  it('a read whose connection breaks is repeated', async () => {
    peer.script('GET /api/projects', 'drop', 'drop', { json: [project()] })
    expect((await open().list('/api/projects', Project)).items).toHaveLength(1)
  })

  it('a POST is repeated only with a key, and with the same one', async () => {
    const path = '/api/environments/101/tasks'
    peer.script(
      `POST ${path}`,
      'drop',
      { status: 503, text: '' },
      { status: 201, json: task('queued') },
    )
    const options = { expect: 201, idempotencyKey: 'key-1', body: {} }
    expect((await open().post(path, Task, options)).value.id).toBe(813)
    const keys = peer.requests.map((one) => one.headers['idempotency-key'])
    expect(keys).toEqual(['key-1', 'key-1', 'key-1'])

    peer.script(`POST ${path}`, 'drop')
    await expect(open().post(path, Task, { expect: 201 })).rejects.toMatchObject({
      kind: 'no_answer',
    })
    expect(peer.requests).toHaveLength(4)
  })

  it('a first request that is still running is waited for', async () => {
    peer.script('POST /api/x', problem('idempotency_in_flight', 'Still running.'), {
      status: 201,
      json: task('queued'),
    })
    const options = { expect: 201, idempotencyKey: 'k' }
    expect((await open().post('/api/x', Task, options)).value.id).toBe(813)
  })

  it('a try whose answer was lost after its effect is found by what it made', async () => {
    const path = '/api/environments/101/tasks'
    const lost = problem('idempotency_not_replayable', 'Its reply was lost.', { id: 813 })
    peer.script(`POST ${path}`, 'drop', lost)
    peer.script('GET /api/tasks/813', { json: task('running') })
    const options = { expect: 201, idempotencyKey: 'k', madeAt: '/api/tasks' }
    expect((await open().post(path, Task, options)).value).toMatchObject({
      id: 813,
      status: 'running',
    })
    await expect(
      open().post(path, Task, { expect: 201, idempotencyKey: 'k' }),
    ).rejects.toMatchObject({ code: 'idempotency_not_replayable' })
  })

  it('500 is not repeated', async () => {
    peer.script('GET /api/projects', problem('internal_error', 'Internal error'))
    await expect(open().list('/api/projects', Project)).rejects.toThrow(/req_TEST01/)
    expect(peer.requests).toHaveLength(1)
  })

  it('429 waits as long as it is told, but not for ever', async () => {
    const limited = (seconds: string) => ({
      ...problem('rate_limited', 'Too many requests.'),
      headers: { 'content-type': 'application/problem+json', 'retry-after': seconds },
    })
    peer.script('GET /api/projects', limited('7'), { json: [] })
    await open().list('/api/projects', Project)
    expect(io.sleeps).toEqual([7_000])
    peer.script('GET /api/projects', limited('3600'))
    await expect(open().list('/api/projects', Project)).rejects.toMatchObject({
      hint: 'try again in 3600 s',
    })
    expect(io.sleeps).toHaveLength(1)
  })
})

describe('answers that make no sense', () => {
  it.each([
    ['no JSON', { text: '<html>' }],
    ['another shape', { json: { id: 'x' } }],
    ['another status', { status: 204, json: undefined }],
  ])('%s', async (_, reply) => {
    peer.script('GET /api/tasks/1', reply)
    await expect(open().get('/api/tasks/1', Task)).rejects.toMatchObject({
      kind: 'nonsense',
      exitCode: 1,
    })
  })

  it('a body cut in the middle is no answer', async () => {
    peer.script('GET /api/tasks/1', (_, res) => {
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
      res.write('{"id":', () => res.destroy())
    })
    await expect(open().get('/api/tasks/1', Task)).rejects.toMatchObject({ kind: 'no_answer' })
  })

  it('pages without end are given up', async () => {
    const more = { link: '</api/projects?cursor=1>; rel="next"' }
    peer.script('GET /api/projects', { json: [], headers: more })
    await expect(open().list('/api/projects', Project)).rejects.toThrow(/more than 100 pages/)
  })
})

it('keeps fields it does not know for --json', async () => {
  peer.script('GET /api/projects', { json: [{ ...project(), novelty: 1 }] })
  expect((await open().list('/api/projects', Project)).raw).toEqual([{ ...project(), novelty: 1 }])
})

it('a hint when the server is older than the client', async () => {
  peer.script('GET /api/x', {
    ...problem('not_found', 'Nothing here.'),
    headers: { 'berth-version': '1.13.2', 'content-type': 'application/problem+json' },
  })
  await expect(open().get('/api/x', Task)).rejects.toMatchObject({
    exitCode: 5,
    hint: expect.stringContaining('this server is v1.13.2'),
  })
  expect([
    isOlder('1.15.9', '1.15.0'),
    isOlder('0.9.0', '1.0.0'),
    isOlder('junk'),
    isOlder(null),
  ]).toEqual([false, true, false, false])
})

it('finds the next page among several links', () => {
  const link = '<https://h/api/p?cursor=a,b>; rel="next", <https://h/api/p>; rel="first"'
  expect(nextPage(link)).toBe('/api/p?cursor=a,b')
  expect(nextPage('<https://h/api/p>; rel="first"')).toBeNull()
  expect(nextPage(null)).toBeNull()
})

it('debug lines hold no token', async () => {
  peer.script('GET /api/projects', { json: [] })
  const connection = { baseUrl: peer.url, token: 'berth_pat_secret', organizationId: null, io }
  await createApi({ ...connection, debug: true }).list('/api/projects', Project)
  expect(io.stderr.text).toMatch(/^api: GET \/api\/projects 200 \d+ ms req_TEST01\n$/)
})
