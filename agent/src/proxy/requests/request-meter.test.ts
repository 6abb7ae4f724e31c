import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { silentLog } from '../../log.ts'
import { readSettings } from '../../settings.ts'
import { edgePaths } from '../paths.ts'
import { readTable, withRoutes, writeTable } from '../table.ts'
import { RequestMeter } from './request-meter.ts'

const MINUTE = 60_000
const T0 = 1_763_197_200_000
let dir: string
let now = T0
const open = () => new RequestMeter(settings(), silentLog, () => now)
const settings = () =>
  readSettings({ BERTH_STATE_DIR: join(dir, 'state'), BERTH_RUN_DIR: join(dir, 'run') })
const logFile = () => join(edgePaths(settings()).caddy, 'access.log')

beforeEach(() => {
  now = T0
  dir = mkdtempSync(join(tmpdir(), 'berth-requests-'))
  mkdirSync(edgePaths(settings()).caddy, { recursive: true })
  const target = { kind: 'loopback' as const, port: 1 }
  const route = (host: string) => ({ service: 'web', host, path: '/', auth: false, target })
  const one = withRoutes(readTable(settings()), {
    environmentId: 1,
    fence: 1n,
    routes: [route('a.localhost')],
  })
  writeTable(
    settings(),
    withRoutes(one, { environmentId: 2, fence: 1n, routes: [route('b.localhost')] }),
  )
})
afterEach(() => rmSync(dir, { recursive: true }))

const request = (host: string, at: number): string =>
  `${JSON.stringify({ ts: at / 1_000, request: { host }, duration: 0.01, status: 200 })}\n`

const totals = (meter: RequestMeter) =>
  meter
    .whole()
    ?.minutes.map(({ minute, counts }) => [
      (minute - T0) / MINUTE,
      ...Object.entries(counts).map(([id, { requests }]) => `${id}:${requests}`),
    ])

test('counts once through a restart, also without a goodbye, and through a rotation', async () => {
  writeFileSync(logFile(), request('a.localhost', T0) + request('b.localhost', T0 + 1))
  const first = open()
  expect(first.whole()).toBeUndefined()
  await first.look()
  now = T0 + MINUTE + 10_000
  appendFileSync(logFile(), request('a.localhost', T0 + MINUTE))
  await first.look()
  expect(totals(first)).toEqual([[0, '1:1', '2:1']])
  appendFileSync(logFile(), request('a.localhost', T0 + MINUTE + 1))
  await first.look() // counted in memory, and lost with the process
  const second = open()
  await second.look()
  renameSync(logFile(), `${logFile()}.1`)
  writeFileSync(logFile(), request('a.localhost', T0 + MINUTE + 2))
  now = T0 + 2 * MINUTE + 10_000
  await second.look()
  expect(totals(second)).toEqual([
    [0, '1:1', '2:1'],
    [1, '1:3'],
  ])
  second.stored(T0 + MINUTE)
  expect(totals(second)).toEqual([[1, '1:3']])
  first.close()
  second.close()
})

test('a broken table or state stops nothing for good', async () => {
  writeFileSync(join(settings().stateDir, 'requests.json'), '{"format":')
  writeFileSync(logFile(), request('a.localhost', T0))
  const table = edgePaths(settings()).table
  renameSync(table, `${table}.away`)
  writeFileSync(table, 'x')
  const meter = open()
  now = T0 + 2 * MINUTE
  await meter.look()
  expect(meter.whole()).toBeUndefined()
  renameSync(`${table}.away`, table)
  await meter.look()
  expect(totals(meter)).toEqual([[0, '1:1']])
  meter.close()
})
