import { mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { silentLog } from '../log.ts'
import { environmentPaths } from '../machine/files.ts'
import { Masker } from '../machine/masking/mask.ts'
import { readSettings } from '../settings.ts'
import { keepWithinBounds, setAside } from './days.ts'
import { type GoneRecord, readServiceLogs, type ServiceRecord } from './reader.ts'
import { sweepLogs } from './retention.ts'
import { ServiceLog } from './writer.ts'

let folder: string
let settings: ReturnType<typeof readSettings>
const DAY = 86_400_000
const MiB = 1_048_576
const NOW = Date.parse('2026-11-15T12:00:00.000Z')

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-logs-'))
  settings = readSettings({ BERTH_STATE_DIR: folder, BERTH_RUN_DIR: join(folder, 'run') })
})
afterEach(() => rmSync(folder, { recursive: true }))

const dirOf = (service: string) => join(environmentPaths(settings, 7).logs, service)
const open = (service: string, task = 1) => new ServiceLog(dirOf(service), task, new Masker([]))
/** Uses the real writer, at a time in the past. */
function write(service: string, text: string, daysAgo: number, ms = 0, task = 1): void {
  const log = open(service, task)
  const at = new Date(NOW - daysAgo * DAY + ms).toISOString()
  log.write('out', Buffer.from(`${text}\n`), at)
  log.close(at)
}
/** The daemon's sweep, after a while without writes. */
async function sweep(): Promise<void> {
  for (const service of readdirSync(environmentPaths(settings, 7).logs)) {
    for (const file of readdirSync(dirOf(service))) {
      utimesSync(join(dirOf(service), file), new Date(0), new Date(0))
    }
  }
  await sweepLogs(settings, silentLog, new Date(NOW))
}

type Query = Partial<Parameters<typeof readServiceLogs>[1]>
async function read(query: Query = {}): Promise<string[]> {
  const { signal } = new AbortController()
  const found: string[] = []
  const all = { environmentId: 7, services: null, follow: false, signal, ...query }
  for await (const record of readServiceLogs(settings, all)) found.push(show(record))
  return found
}
const show = (record: ServiceRecord | GoneRecord): string =>
  'kind' in record ? `${record.service} gone ${record.days}` : `${record.service} ${record.text}`

it('reads days back, compressed ones too, services merged by time', async () => {
  for (let day = 13; day >= 0; day -= 1) {
    write('web', `day ${day}`, day, 5)
    write('db', `day ${day}`, day, day % 2 === 0 ? 1 : 9)
  }
  await sweep()
  expect(readdirSync(dirOf('web')).filter((name) => name.endsWith('.gz'))).toHaveLength(13)
  const whole = await read()
  expect(whole).toHaveLength(28)
  expect(whole.slice(0, 4)).toEqual(['web day 13', 'db day 13', 'db day 12', 'web day 12'])
  const since = new Date(NOW - 3 * DAY)
  const until = new Date(NOW - 2 * DAY)
  expect(await read({ since, until, services: ['web', '../web'] })).toEqual(['web day 3'])
  expect(await read({ tail: 3, services: ['web'] })).toEqual([
    'web day 2',
    'web day 1',
    'web day 0',
  ])
  expect(await read({ tail: 1, until })).toEqual(['web day 3', 'db day 3'])
  expect(await read({ services: ['none'] })).toEqual([])
})

it('names the days that are too old, and those that were too much', async () => {
  for (const day of [20, 16, 3, 2, 1, 0]) write('web', `day ${day}`, day)
  await sweep()
  expect((await read())[0]).toBe('web gone 2026-10-26 to 2026-10-30')
  expect(await read({ since: new Date(NOW - 3 * DAY) })).toHaveLength(4)
  expect(await read({ tail: 2 })).toEqual(['web day 1', 'web day 0'])
  const log = open('web')
  const at = new Date(NOW).toISOString()
  for (let i = 0; i < 3; i += 1) log.write('out', Buffer.alloc(MiB, 'x'), at)
  log.close(at)
  keepWithinBounds(environmentPaths(settings, 7).logs, new Date(NOW), 2 * MiB)
  const left = await read()
  expect(left[0]).toBe('web gone 2026-10-26 to 2026-11-14')
  expect(left[1]).toBe('web day 0')
})

it('follows over a full part, a new day, a redeployment and a new service, each line once', async () => {
  write('web', 'before', 0)
  const ending = new AbortController()
  const found: string[] = []
  const query = { environmentId: 7, services: null, tail: 10, follow: true, signal: ending.signal }
  const lines = readServiceLogs(settings, query)
  const next = async (): Promise<string> => {
    const { value } = await lines.next()
    found.push(value ? show(value) : 'end')
    return found.at(-1) ?? ''
  }
  expect(await next()).toBe('web before')
  write('web', 'live', 0, 1)
  expect(await next()).toBe('web live')
  setAside(dirOf('web'), '2026-11-15')
  write('web', 'second part', 0, 2)
  expect(await next()).toBe('web second part')
  await sweep()
  write('web', 'next day', -1, 0, 2)
  write('worker', 'new', -1, 1, 2)
  expect([await next(), await next()].sort()).toEqual(['web next day', 'worker new'])
  ending.abort()
  expect(await next()).toBe('end')
})

it('bounds what the last lines take, and passes over a line that is none', async () => {
  const log = open('web')
  const at = new Date(NOW).toISOString()
  for (let i = 0; i < 40; i += 1) log.write('out', Buffer.from(`${'y'.repeat(250_000)}\n`), at)
  log.close(at)
  const last = await read({ tail: 1_000 })
  expect(last.length).toBeGreaterThan(20)
  expect(last.join('').length).toBeLessThan(9 * MiB)
  expect(await read()).toHaveLength(40)
})
