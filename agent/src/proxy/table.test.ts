import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { edgePaths } from './paths.ts'
import { decodeLine, type EdgeCall, type EdgeRoute, encodeLine, findProblem } from './protocol.ts'
import {
  findRoute,
  isBelow,
  listRoutes,
  readTable,
  withAuth,
  withoutRoutes,
  withRoutes,
  writeTable,
} from './table.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-table-'))
const settings = { stateDir: folder, runDir: folder }
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const route = (host: string, path = '/', port = 80): EdgeRoute => ({
  service: 'web',
  host,
  path,
  auth: true,
  target: { kind: 'loopback', port },
})
const auth = { username: 'a', passwordHash: 'x' }

describe('the table', () => {
  const empty = readTable(settings)
  const one = withRoutes(empty, { environmentId: 1, fence: 5n, routes: [route('a.localhost')] })

  it('replaces all routes of an environment, and counts', () => {
    const two = withRoutes(one, { environmentId: 1, fence: 6n, routes: [route('b.localhost')] })
    expect(listRoutes(two).map(({ host }) => host)).toEqual(['b.localhost'])
    expect([empty.generation, one.generation, two.generation]).toEqual([0, 1, 2])
  })

  it('refuses lower fences and revisions, also after a removal, and takes equal ones', () => {
    const stale = { kind: 'stale' }
    const set = (fence: bigint) => ({ environmentId: 1, fence, routes: [] })
    expect(() => withRoutes(one, set(4n))).toThrow(expect.objectContaining(stale))
    expect(withRoutes(one, set(5n)).environments[1]?.fence).toBe('5')
    const removed = withoutRoutes(one, { environmentId: 1, fence: 7n })
    expect(() => withRoutes(removed, set(6n))).toThrow(expect.objectContaining(stale))
    const guarded = withAuth(one, { environmentId: 1, revision: 3n, basicAuth: auth })
    const lower = { environmentId: 1, revision: 2n, basicAuth: null }
    expect(() => withAuth(guarded, lower)).toThrow(expect.objectContaining(stale))
    // numbers above the precision of a double are compared as numbers, not as text
    const big = withRoutes(one, set(2n ** 62n))
    expect(() => withRoutes(big, set(2n ** 62n - 1n))).toThrow(expect.objectContaining(stale))
    expect(() => withRoutes(withRoutes(one, set(9n)), set(10n))).not.toThrow()
  })

  it('keeps the password over a reset and forgets it with the environment', () => {
    const guarded = withAuth(one, { environmentId: 1, revision: 1n, basicAuth: auth })
    expect(listRoutes(guarded)[0]?.basicAuth).toEqual(auth)
    const reset = withoutRoutes(guarded, { environmentId: 1, fence: 6n })
    expect(reset.environments[1]?.basicAuth).toEqual(auth)
    const gone = withoutRoutes(guarded, { environmentId: 1, fence: 6n, forget: true })
    expect(gone.environments[1]?.basicAuth).toBeNull()
  })

  it('one host and path has one owner; paths of one host may differ', () => {
    const set = (environmentId: number, ...routes: EdgeRoute[]) =>
      withRoutes(one, { environmentId, fence: 9n, routes })
    expect(() => set(2, route('a.localhost'))).toThrow('routed for environment 1')
    expect(() => set(2, route('c.localhost'), route('c.localhost'))).toThrow('twice')
    expect(() => set(2, route('a.localhost', '/api'))).not.toThrow()
  })

  it('finds the longest prefix on borders of segments', () => {
    const table = withRoutes(empty, {
      environmentId: 1,
      fence: 1n,
      routes: [route('a', '/'), route('a', '/api', 81), route('a', '/api/v2', 82)],
    })
    const pathOf = (path: string) => findRoute(table, 'a', path)?.path
    expect(['/', '/apix', '/api', '/api/', '/api/v2/x', '/api/v22'].map(pathOf)).toEqual([
      '/',
      '/',
      '/api',
      '/api',
      '/api/v2',
      '/api',
    ])
    expect(findRoute(table, 'b', '/')).toBeUndefined()
    expect(isBelow('/x', '/')).toBe(true)
  })

  it('comes back from the disk as it was; a broken file is an error, not an empty table', () => {
    writeTable(settings, one)
    expect(readTable(settings)).toEqual(one)
    expect(readdirSync(edgePaths(settings).dir)).toEqual(['table.json'])
    writeFileSync(edgePaths(settings).table, '{"format":1,')
    expect(() => readTable(settings)).toThrow()
  })
})

describe('calls', () => {
  const set = (over: object): EdgeCall => ({
    method: 'setRoutes',
    params: { environmentId: 1, fence: 1n, routes: [{ ...route('a.localhost'), ...over }] },
  })

  it('carry fences whole', () => {
    const call = { params: { fence: 2n ** 63n - 1n, revision: 0n, other: '12' } }
    expect(decodeLine(encodeLine(call))).toEqual(call)
  })

  it.each([
    { host: 'a.localhost.' },
    { host: 'A.localhost' },
    { host: 'a..b' },
    { host: 'a b' },
    { host: `${'a.'.repeat(120)}b` },
    { host: '{http.request.host}' },
    { path: '' },
    { path: '/a/' },
    { path: '/a*' },
    { path: '/{x}' },
    { path: '/a b' },
    { auth: undefined },
    { target: { kind: 'container', id: '../x', port: 80 } },
    { target: { kind: 'loopback', port: 65_536 } },
    { target: { kind: 'socket', path: 'x.sock' } },
    { target: { kind: 'socket', path: '/x.sock', uid: 0 } },
    { target: { kind: 'static', root: '/x/{env.HOME}' } },
    { target: { kind: 'page', page: 'other' } },
    { target: { kind: 'other' } },
  ])('are refused when they cannot be meant: %j', (over) => {
    expect(findProblem(set(over))).toMatch(/^(Service|The) .*\.$/)
  })

  it('are taken when they can', () => {
    expect(findProblem(set({}))).toBeUndefined()
    expect(findProblem(set({ host: 'xn--bcher-kva.example', path: '/a/b-c_d.e' }))).toBeUndefined()
  })
})
