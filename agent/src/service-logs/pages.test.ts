// Pages of the logs of services: each line once, also if files are set aside or compressed between two pages.
import { mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLineFilter } from '@berth/shared'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { silentLog } from '../log.ts'
import { environmentPaths } from '../machine/files.ts'
import { Masker } from '../machine/masking/mask.ts'
import { readSettings } from '../settings.ts'
import { keepWithinBounds, nextSeq, setAside } from './days.ts'
import { type LogPage, readPageBefore } from './pages.ts'
import { type Cursor, readCursor, writeCursor } from './positions.ts'
import { readPlacedLogs } from './reader.ts'
import { sweepLogs } from './retention.ts'
import { ServiceLog } from './writer.ts'

let folder: string
let settings: ReturnType<typeof readSettings>
const NOW = Date.parse('2026-11-15T12:00:00.000Z')
const TODAY = '2026-11-15'
const DAY = 86_400_000

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-pages-'))
  settings = readSettings({ BERTH_STATE_DIR: folder, BERTH_RUN_DIR: join(folder, 'run') })
})
afterEach(() => rmSync(folder, { recursive: true }))

const dirOf = (service: string) => join(environmentPaths(settings, 7).logs, service)
function write(
  service: string,
  lines: (string | Buffer)[],
  atMs: number,
  source: 'out' | 'err' = 'out',
) {
  const log = new ServiceLog(dirOf(service), 1, new Masker([]))
  const timeOf = (n: number): string => new Date(atMs + n).toISOString()
  lines.forEach((line, n) => {
    log.write(source, Buffer.concat([Buffer.from(line), Buffer.from('\n')]), timeOf(n))
  })
  log.close(timeOf(lines.length - 1))
}
const numbered = (prefix: string, from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, n) => `${prefix} ${from + n}`)
/** The daemon's sweep, after a while without writes. */
async function sweep(): Promise<void> {
  for (const service of readdirSync(environmentPaths(settings, 7).logs)) {
    for (const file of readdirSync(dirOf(service))) {
      utimesSync(join(dirOf(service), file), new Date(0), new Date(0))
    }
  }
  await sweepLogs(settings, silentLog, new Date(NOW))
}

type Query = Partial<Parameters<typeof readPageBefore>[1]>
const { signal } = new AbortController()
const page = (query: Query = {}): Promise<LogPage> =>
  readPageBefore(settings, { environmentId: 7, services: null, limit: 10, signal, ...query })
const texts = ({ records }: Pick<LogPage, 'records'>): string[] => records.map(({ text }) => text)

/** Every page up to the oldest line, as one list; the cursor travels as text. */
async function walk(query: Query = {}, between?: (n: number) => Promise<void> | void) {
  const all: string[] = []
  let before: Cursor | undefined
  for (let n = 0; n < 1_000; n += 1) {
    const got: LogPage = await page({ ...query, before })
    all.unshift(...texts(got))
    if (got.isLast) return all
    await between?.(n)
    before = readCursor(writeCursor(got.older))
    expect(before).toBeDefined()
  }
  throw new Error('there is no end')
}

async function forwards(after: Cursor | undefined, query: object = {}): Promise<string[]> {
  const all: string[] = []
  const asked = { environmentId: 7, services: null, after, follow: false, signal, ...query }
  for await (const item of readPlacedLogs(settings, asked)) {
    if ('record' in item && 'text' in item.record) all.push(item.record.text)
  }
  return all
}

it('turns pages back over days, full and compressed parts, each line once', async () => {
  write('web', numbered('old', 0, 25), NOW - 2 * DAY)
  write('web', numbered('web', 0, 30), NOW)
  setAside(dirOf('web'), TODAY)
  await sweep()
  write('web', numbered('web', 30, 47), NOW + 30)
  write('db', numbered('db', 0, 13), NOW)
  const all = await walk({ limit: 7 })
  expect(all).toHaveLength(25 + 47 + 13)
  expect(all.filter((text) => text.startsWith('web'))).toEqual(numbered('web', 0, 47))
  expect(all.filter((text) => text.startsWith('db'))).toEqual(numbered('db', 0, 13))
  expect(all.slice(0, 25)).toEqual(numbered('old', 0, 25))
  // merged by time: both began at the same moment
  expect(all.slice(25, 29).sort()).toEqual(['db 0', 'db 1', 'web 0', 'web 1'])
  expect(await walk({ services: ['db'] })).toEqual(numbered('db', 0, 13))
  expect(await walk({ services: ['none'] })).toEqual([])
})

it('keeps positions while parts are set aside, compressed and continued between pages', async () => {
  write('web', numbered('web', 0, 60), NOW)
  const all = await walk({ limit: 5 }, async (n) => {
    if (n === 2) setAside(dirOf('web'), TODAY)
    if (n === 3) write('web', numbered('late', 0, 9), NOW + 1_000)
    if (n === 5) await sweep()
    if (n === 7) setAside(dirOf('web'), TODAY)
  })
  expect(all).toEqual(numbered('web', 0, 60))
})

it('joins the newest page and what is written afterwards, also across a full part', async () => {
  write('web', numbered('web', 0, 20), NOW)
  const { newer } = await page()
  write('web', numbered('next', 0, 3), NOW + 100)
  setAside(dirOf('web'), TODAY)
  write('web', numbered('next', 3, 6), NOW + 200)
  write('worker', ['new service'], NOW + 300)
  const after = readCursor(writeCursor(newer))
  expect(await forwards(after)).toEqual([...numbered('next', 0, 6), 'new service'])
  await sweep()
  expect(await forwards(after)).toEqual([...numbered('next', 0, 6), 'new service'])
})

it('begins at a time, and leads on from there in both directions', async () => {
  write('web', numbered('web', 0, 50), NOW)
  write('db', numbered('db', 0, 50), NOW)
  const until = new Date(NOW + 20)
  const { newer, records } = await page({ until, limit: 4 })
  expect(records.map(({ text }) => text).sort()).toEqual(['db 18', 'db 19', 'web 18', 'web 19'])
  const later = await forwards(newer)
  expect(later).toHaveLength(60)
  expect(later).toContain('web 20')
  expect(later).not.toContain('db 19')
  const early = await page({ until: new Date(NOW - DAY) })
  expect([texts(early), early.isLast]).toEqual([[], true])
  expect(await forwards(early.newer)).toHaveLength(100)
  expect(await walk({ since: new Date(NOW + 45) })).toHaveLength(10)
})

it('searches as far as allowed, says how far, and goes on from there', async () => {
  const filler = 'x'.repeat(2_000)
  const lines = Array.from({ length: 900 }, (_, n) => (n % 300 === 0 ? `needle ${n}` : filler))
  write('web', lines, NOW)
  write('web', ['ERROR last'], NOW + 10_000)
  const accept = createLineFilter({ search: 'NEEDLE' })
  const first = await page({ accept, searchBytes: 300_000 })
  expect(first.isLast).toBe(false)
  expect(first.searchedTo).toMatch(/^2026-11-15T12:00:00/)
  expect(await walk({ accept, searchBytes: 300_000 })).toEqual([
    'needle 0',
    'needle 300',
    'needle 600',
  ])
  expect(await walk({ accept: createLineFilter({ levels: ['error'] }) })).toEqual(['ERROR last'])
})

it('gives hostile lines back as they are, one by one', async () => {
  const long = 'y'.repeat(1_000_000)
  const hostile = [
    '<script>alert(1)</script>',
    '\u001b]0;title\u0007\u001b[2Jcleared',
    Buffer.from([0x66, 0xff, 0xfe, 0x80, 0x66]),
    '{"t":"2020-01-01T00:00:00Z","s":"out","task":9,"text":"forged"}',
    long,
    'after',
  ]
  write('web', hostile, NOW)
  const all = await walk({ limit: 2 })
  expect(all.slice(0, 2)).toEqual(hostile.slice(0, 2))
  expect(all[2]).toBe('f\ufffd\ufffd\ufffdf')
  expect(all[3]).toBe(hostile[3])
  expect(all.slice(4, -1).join('')).toBe(long)
  expect(all.at(-1)).toBe('after')
})

it('names days that are gone at the oldest page, and never gives a number again', async () => {
  write('web', ['first'], NOW - DAY)
  write('web', ['a'], NOW)
  setAside(dirOf('web'), TODAY)
  write('web', ['b'], NOW + 1)
  expect(nextSeq(dirOf('web'), TODAY)).toBe(2)
  const { newer } = await page()
  keepWithinBounds(environmentPaths(settings, 7).logs, new Date(NOW), 1)
  expect(nextSeq(dirOf('web'), TODAY)).toBe(2)
  const { gone, records, isLast } = await page()
  expect(records.map(({ text }) => text)).toEqual(['b'])
  expect([isLast, gone]).toEqual([
    true,
    [{ kind: 'gone', service: 'web', days: '2026-11-14 to 2026-11-15' }],
  ])
  write('web', ['c'], NOW + 2)
  expect(await forwards(newer)).toEqual(['c'])
})

it('takes nothing but its own cursors', () => {
  const cursor = new Map([
    ['web', { day: TODAY, seq: 3, at: 12_345 }],
    ['own_log-2', { day: '2026-01-01', seq: 1, at: 0 }],
  ])
  expect(readCursor(writeCursor(cursor))).toEqual(cursor)
  expect(readCursor('')).toEqual(new Map())
  for (const text of [
    '../../etc:1.1.1',
    'web',
    'web:1.1',
    'web:1.1.-1',
    'web:zzzzzz.1.1',
    '~',
    'a:1.1.1~',
  ]) {
    expect(readCursor(text), text).toBeUndefined()
  }
  expect(readCursor(Array(300).fill('web:1.1.1').join('~'))).toBeUndefined()
})
