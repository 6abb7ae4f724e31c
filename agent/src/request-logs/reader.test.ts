// The proxy's log of requests: only lines of one environment, each once, while the proxy sets files aside.
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { environmentPaths } from '../machine/files.ts'
import { readHolders, withHolders, withoutHolder, writeHolders } from '../proxy/host-holders.ts'
import { edgePaths } from '../proxy/paths.ts'
import type { EdgeRoute } from '../proxy/protocol.ts'
import { readTable, type Table, withoutRoutes, withRoutes, writeTable } from '../proxy/table.ts'
import { readSettings } from '../settings.ts'
import {
  findRequestLogProblem,
  type RequestPage,
  readRequestCursor,
  readRequestsAfter,
  readRequestsBefore,
  writeRequestCursor,
} from './reader.ts'

let folder: string
let settings: ReturnType<typeof readSettings>
let logs: string
const NOW = Date.parse('2026-11-15T12:00:00.000Z')

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-requests-'))
  settings = readSettings({ BERTH_STATE_DIR: folder, BERTH_RUN_DIR: join(folder, 'run') })
  logs = edgePaths(settings).caddy
  mkdirSync(logs, { recursive: true })
})
afterEach(() => rmSync(folder, { recursive: true }))

const route = (host: string, path = '/', service = 'web'): EdgeRoute => ({
  service,
  host,
  path,
  auth: false,
  target: { kind: 'loopback', port: 80 },
})
let fence = 1n
/** As the edge does it: holders first, then the table. */
function change(apply: (table: Table) => Table, at: number): void {
  const table = apply(readTable(settings))
  writeHolders(settings, withHolders(readHolders(settings), table, at))
  writeTable(settings, table)
}
const give = (environmentId: number, routes: EdgeRoute[], at = NOW - 1_000): void =>
  change((table) => withRoutes(table, { environmentId, fence: fence++, routes }), at)

const line = (host: string, uri: string, n: number, more: object = {}): string =>
  `${JSON.stringify({
    level: 'info',
    ts: (NOW + n) / 1_000,
    logger: 'http.log.access.berth',
    msg: 'handled request',
    request: {
      remote_ip: '10.0.0.1',
      client_ip: '203.0.113.7',
      proto: 'HTTP/2.0',
      method: 'GET',
      host,
      uri,
    },
    bytes_read: 0,
    duration: 0.0125,
    size: 512,
    status: 200,
    ...more,
  })}\n`
const put = (...lines: string[]): void => appendFileSync(join(logs, 'access.log'), lines.join(''))
const aside = (name: string): string => join(logs, `access-${name}.log`)
const rotate = (name: string): void => renameSync(join(logs, 'access.log'), aside(name))
function compress(name: string): void {
  writeFileSync(`${aside(name)}.gz`, gzipSync(readFileSync(aside(name))))
  rmSync(aside(name))
}

const { signal } = new AbortController()
type Query = Partial<Parameters<typeof readRequestsBefore>[1]>
const page = (query: Query = {}): Promise<RequestPage> =>
  readRequestsBefore(settings, { environmentId: 1, limit: 10, signal, ...query })
const paths = ({ records }: RequestPage): string[] => records.map(({ path }) => path)
const again = (position: RequestPage['older']) => readRequestCursor(writeRequestCursor(position))
async function walk(query: Query = {}, between?: (n: number) => void): Promise<string[]> {
  const all: string[] = []
  for (let n = 0, before: RequestPage['older']; n < 1_000; n += 1) {
    const got = await page({ ...query, before })
    all.unshift(...paths(got))
    if (got.isLast) return all
    between?.(n)
    before = again(got.older)
  }
  throw new Error('there is no end')
}
async function forwards(after: RequestPage['newer'], query: object = {}): Promise<string[]> {
  const all: string[] = []
  const asked = { environmentId: 1, after, follow: false, signal, ...query }
  for await (const item of readRequestsAfter(settings, asked)) {
    if ('record' in item) all.push(item.record.path)
  }
  return all
}

it('shows what was asked and answered, without the query and with secrets masked', async () => {
  give(1, [route('shop.test'), route('shop.test', '/api', 'api')])
  const { variables } = environmentPaths(settings, 1)
  mkdirSync(variables, { recursive: true })
  writeFileSync(join(variables, '1-web.sh'), "TOKEN='canary-secret-value'\n")
  put(
    line('Shop.TEST:8443', '/reset/canary-secret-value?token=hidden#x', 0, { status: 404 }),
    line('shop.test', '/api/cart?session=hidden', 1, { status: 502, duration: 1.5, size: 0 }),
  )
  const { records } = await page()
  expect(records[0]).toEqual({
    timeUs: NOW * 1_000,
    method: 'GET',
    host: 'shop.test',
    path: '/reset/***',
    status: 404,
    durationUs: 12_500,
    size: 512,
    client: '203.0.113.7',
    service: 'web',
  })
  expect(records[1]).toMatchObject({ path: '/api/cart', service: 'api', durationUs: 1_500_000 })
  expect(JSON.stringify(records)).not.toMatch(/hidden|canary/)
})

it('never shows a line of another environment, also not of a hostname that changed hands', async () => {
  give(1, [route('one.test')])
  give(2, [route('two.test'), route('old.test')])
  put(line('one.test', '/mine', 0), line('two.test', '/theirs', 1), line('old.test', '/before', 2))
  put(line('none.test', '/unknown', 3), line('one.test.evil', '/evil', 4))
  change(
    (table) => withRoutes(table, { environmentId: 2, fence: fence++, routes: [route('two.test')] }),
    NOW + 10,
  )
  give(1, [route('one.test'), route('old.test')], NOW + 20)
  put(line('old.test', '/now-mine', 30))
  expect(paths(await page())).toEqual(['/mine', '/now-mine'])
  expect(paths(await page({ environmentId: 2 }))).toEqual(['/theirs'])
  expect(await forwards(undefined)).toEqual(['/mine', '/now-mine'])
  // without a route it has none; with the same hostname again it has its own lines again
  change((table) => withoutRoutes(table, { environmentId: 1, fence: fence++ }), NOW + 40)
  expect(paths(await page())).toEqual([])
  give(1, [route('one.test')], NOW + 50)
  expect(paths(await page())).toEqual(['/mine'])
  // removed for good, then a new environment of the same number
  writeHolders(settings, withoutHolder(readHolders(settings), 1))
  give(1, [route('one.test')], NOW + 60)
  expect(paths(await page())).toEqual([])
})

it('turns pages over files that the proxy sets aside and compresses meanwhile', async () => {
  give(1, [route('a.test')])
  give(2, [route('b.test')])
  const some = (from: number, to: number): string[] =>
    Array.from({ length: to - from }, (_, n) => [
      line('a.test', `/${from + n}`, from + n),
      line('b.test', '/x', from + n),
    ]).flat()
  put(...some(0, 30))
  rotate('2026-11-15T12-00-00.000')
  compress('2026-11-15T12-00-00.000')
  put(...some(30, 60))
  rotate('2026-11-15T12-01-00.000-size')
  put(...some(60, 75))
  const all = Array.from({ length: 75 }, (_, n) => `/${n}`)
  expect(await walk({ limit: 4 })).toEqual(all)
  const { newer } = await page()
  const walked = await walk({ limit: 7 }, (n) => {
    if (n === 0) rotate('2026-11-15T12-02-00.000')
    if (n === 1) put(...some(75, 80))
    if (n === 3) compress('2026-11-15T12-02-00.000')
    if (n === 4) compress('2026-11-15T12-01-00.000-size')
  })
  expect(walked).toEqual(all)
  expect(await forwards(again(newer))).toEqual(['/75', '/76', '/77', '/78', '/79'])
  expect(await walk({ since: new Date(NOW + 70) })).toHaveLength(10)
  const middle = await page({ until: new Date(NOW + 40), limit: 3 })
  expect(paths(middle)).toEqual(['/37', '/38', '/39'])
  expect((await forwards(again(middle.newer))).slice(0, 2)).toEqual(['/40', '/41'])
})

it('follows over a file that is set aside', async () => {
  give(1, [route('a.test')])
  put(line('a.test', '/0', 0))
  const end = new AbortController()
  const { newer: after } = await page()
  const live = readRequestsAfter(settings, {
    environmentId: 1,
    after,
    follow: true,
    signal: end.signal,
  })
  const next = async (): Promise<string> => {
    for (;;) {
      const { value } = await live.next()
      if (value && 'record' in value) return value.record.path
    }
  }
  put(line('a.test', '/1', 1))
  expect(await next()).toBe('/1')
  put(line('a.test', '/2', 2))
  rotate('2026-11-15T12-00-00.000')
  put(line('a.test', '/3', 3))
  expect([await next(), await next()]).toEqual(['/2', '/3'])
  end.abort()
  expect((await live.next()).done).toBe(true)
})

it('is not confused by hostile lines', async () => {
  give(1, [route('a.test')])
  put(
    'no json\n',
    '{"request":null,"ts":1}\n',
    '[]\n',
    'null\n',
    line('a.test', `/${'x'.repeat(1_000_000)}`, 0),
    line('a.test', '/\u001b[31mred\u0007\r\nINJECTED', 1),
    line('a.test', '/<script>alert(1)</script>', 2, { status: 'x', size: -5, duration: 'NaN' }),
    line('a.test', '/', 3, { request: { host: 'a.test', uri: 7, method: ['GET'] } }),
    '{"half',
  )
  const { records, isLast } = await page()
  expect(records.map(({ path }) => path.slice(0, 30))).toEqual([
    `/${'x'.repeat(29)}`,
    '/red  INJECTED',
    '/<script>alert(1)</script>',
    '',
  ])
  expect(records[0]?.path).toHaveLength(2_048)
  expect(records[2]).toMatchObject({ status: 0, size: 0, durationUs: 0 })
  expect(isLast).toBe(true)
  expect(readRequestCursor('../../etc/passwd.1')).toBeUndefined()
  // a position in a file that no longer exists
  const before = { id: 'a'.repeat(16), at: 5 }
  expect(await page({ before })).toMatchObject({ records: [], isLast: true })
})

it('says why there is no log', () => {
  expect(findRequestLogProblem(settings)).toBe('no_proxy')
  give(1, [route('a.test')])
  expect(findRequestLogProblem(settings)).toBeUndefined()
  const off = readSettings({ BERTH_STATE_DIR: folder, BERTH_PROXY_ACCESS_LOG: 'off' })
  expect(findRequestLogProblem(off)).toBe('off')
  writeTable(settings, { ...readTable(settings), mode: 'ports' })
  expect(findRequestLogProblem(settings)).toBe('no_proxy')
})
