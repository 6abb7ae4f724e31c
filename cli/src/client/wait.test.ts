import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type TestIo, testIo } from '../testing/io.ts'
import { type Peer, problem, startPeer } from '../testing/peer.ts'
import { task } from '../testing/samples.ts'
import { createApi } from './api.ts'
import { pauseMs, waitForTask } from './wait.ts'

let peer: Peer
let io: TestIo
let heard: string[]

beforeEach(async () => {
  peer = await startPeer()
  io = testIo()
  heard = []
})
afterEach(() => peer.stop())

const ROUTE = 'GET /api/tasks/813'
const options = {
  timeoutMs: 3_600_000,
  what: 'deployment' as const,
  resume: 'berth deploy -e pr-42 --attach',
}
function wait(more: Partial<typeof options> = {}) {
  const api = createApi({ baseUrl: peer.url, token: 't', organizationId: null, io, debug: false })
  return waitForTask(
    api,
    813,
    io,
    { ...options, ...more },
    {
      update: (seen) => void heard.push(seen.status),
      lost: () => void heard.push('lost'),
      found: () => void heard.push('found'),
    },
  )
}

it('polls with the ETag; an unchanged task costs a 304', async () => {
  const running = { json: task('running') }
  peer.script(ROUTE, running, running, running, { json: task('succeeded') })
  expect((await wait()).task.status).toBe('succeeded')
  expect(peer.requests.map((one) => one.status)).toEqual([200, 304, 304, 200])
  expect(heard).toEqual(['running', 'succeeded'])
  expect(io.sleeps).toEqual([1_000, 1_000, 1_000])
})

it('every second at first, every three later, longer while nobody answers', () => {
  expect(pauseMs(1_000, 29_999, 0)).toBe(1_000)
  expect(pauseMs(1_000, 30_000, 0)).toBe(3_000)
  expect([1, 2, 3, 4, 5, 50].map((failures) => pauseMs(1_000, 0, failures))).toEqual([
    2_000, 4_000, 8_000, 15_000, 15_000, 15_000,
  ])
})

describe('answers that say nothing about the task', () => {
  it.each([
    ['a broken connection', 'drop' as const],
    ['502', { status: 502, text: 'bad gateway' }],
    ['503', problem('unavailable', 'Starting.')],
    ['500', problem('internal_error', 'Internal error')],
    ['429', problem('rate_limited', 'Too many requests.')],
    ["a proxy's page with status 200", { text: '<html>back soon</html>' }],
    ['another shape', { json: { status: 'succeeded' } }],
  ])('%s is waited out', async (_, reply) => {
    peer.script(ROUTE, { json: task('running') }, reply, reply, { json: task('failed') })
    expect((await wait()).task.status).toBe('failed')
    expect(heard).toEqual(['running', 'lost', 'found', 'failed'])
  })

  it('five minutes without one answer: 1, "no contact"', async () => {
    peer.script(ROUTE, { json: task('running') }, 'drop')
    const startedAt = io.now()
    await expect(wait()).rejects.toMatchObject({
      exitCode: 1,
      message: expect.stringContaining('no contact for 5m00s; the deployment may continue'),
    })
    const waited = io.now() - startedAt
    expect(waited).toBeGreaterThanOrEqual(300_000)
    expect(waited).toBeLessThan(330_000)
  })

  it('a laptop that slept an hour does not give up at its first try', async () => {
    peer.script(ROUTE, { json: task('running') }, 'drop', { json: task('succeeded') })
    const { sleep } = io
    io.sleep = (ms) => sleep(io.sleeps.length === 0 ? 3_000_000 : ms)
    expect((await wait()).task.status).toBe('succeeded')
  })
})

it('the time is up: 7, and how to go on', async () => {
  peer.script(ROUTE, { json: task('running') })
  await expect(wait({ timeoutMs: 10_000 })).rejects.toMatchObject({
    exitCode: 7,
    hint: 'the deployment continues; resume: berth deploy -e pr-42 --attach',
  })
  expect(io.sleeps.reduce((a, b) => a + b)).toBe(10_000)
})

it.each([
  [problem('token_expired', 'The token has expired.'), 4],
  [problem('not_found', 'No such task.'), 5],
])('a refusal ends the wait and says that the deployment may continue', async (reply, exitCode) => {
  peer.script(ROUTE, { json: task('running') }, reply)
  await expect(wait()).rejects.toMatchObject({
    exitCode,
    message: expect.stringContaining('; the deployment may continue'),
  })
})

it('Ctrl-C: 130, in the middle of a request too', async () => {
  peer.script(ROUTE, () => io.interrupt()) // never answered
  await expect(wait()).rejects.toMatchObject({
    exitCode: 130,
    hint: expect.stringContaining('the deployment continues'),
  })
})
