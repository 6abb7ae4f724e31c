// "With --wait it waits for the result and exits non-zero when the deployment fails": the client against a real control
// plane over a connection that is cut, loses an answer, or leads to a restarting one. The client's clock can run a
// hundred times as fast, so a minute offline takes less than a second, and it stops while the test is busy.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Task } from '@berth/shared/api'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cli/src/program/invoke.ts'
import { nowhere } from '../../cli/src/testing/berth.ts'
import { type TestIo, testIo } from '../../cli/src/testing/io.ts'
import { approve, Browser, PASSWORD, person, poll, startDevice } from '../fixtures/people/people.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

const QUICK = 100
let p: Platform
const open: { close(): Promise<void> }[] = []

beforeAll(async () => {
  p = await Platform.start('sqlite')
})
afterAll(async () => {
  for (const one of open) await one.close()
  await p.close()
})

/** A connection to the control plane that can be cut and restored, and lose the answer to one request. */
async function startLine() {
  let loses: string | undefined
  const lost: string[] = []
  const server = createServer((req: IncomingMessage, res: ServerResponse) => {
    const { port } = new URL(p.cp.url)
    const { method, url: path, headers } = req
    const onward = request({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
      if (method === loses) {
        loses = undefined
        lost.push(`${method} ${path} ${answer.statusCode}`)
        answer.resume().on('end', () => req.socket.destroy())
        return
      }
      res.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(res)
    })
    onward.on('error', () => req.socket.destroy())
    req.pipe(onward)
  })
  const listen = (port: number) => once(server.listen(port, '127.0.0.1'), 'listening')
  await listen(0)
  const { port } = server.address() as AddressInfo
  const cut = async () => {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  const line = {
    url: `http://127.0.0.1:${port}`,
    lost,
    cut,
    mend: () => listen(port),
    loseAnswerTo: (method: string) => {
      loses = method
    },
    close: async () => {
      if (server.listening) await cut()
    },
  }
  open.push(line)
  return line
}

/** The client's time: sleeps are shortened, and the test can hold them. */
function quickIo(env: Record<string, string>) {
  let now = Date.now()
  let gate = Promise.resolve()
  let openGate = () => {}
  const io = testIo({
    env: { BERTH_CONFIG_DIR: nowhere(), ...env },
    now: () => now,
    async sleep(ms) {
      await wait(ms / QUICK)
      await gate
      now += ms
    },
  })
  const hold = () => {
    gate = new Promise((resolve) => {
      openGate = resolve
    })
  }
  return { io, hold, go: () => openGate() }
}

/** A deployment that ends when the test decides. */
function holdDeployment(): (end: 'succeed' | 'fail') => void {
  let decide: (end: 'succeed' | 'fail') => void = () => {}
  const decided = new Promise<'succeed' | 'fail'>((resolve) => {
    decide = resolve
  })
  p.executor.script = async (attempt) => {
    attempt.checkedOut('c'.repeat(40))
    attempt.say('working\n')
    if ((await decided) === 'fail') attempt.fail('broken')
    else attempt.succeed()
  }
  return decide
}

const running = (io: TestIo) =>
  until('the deployment to run', async () => (/started/.test(io.stderr.text) ? true : undefined))

test.each([
  ['fail', 3],
  ['succeed', 0],
] as const)('cut for a minute, the control plane restarted: %s is exit %i', async (end, code) => {
  const line = await startLine()
  const environment = await p.environment(`cut-${end}`)
  const decide = holdDeployment()
  const { io, hold, go } = quickIo({ BERTH_URL: line.url, BERTH_TOKEN: p.cp.token })
  const waiting = run(['deploy', '-e', `id:${environment.id}`, '--wait'], io)
  await running(io)
  await line.cut()
  const cutAt = io.now()
  await until('the client to notice', async () =>
    /trying again/.test(io.stderr.text) ? true : undefined,
  )
  hold()
  await p.restartControlPlane()
  decide(end)
  go()
  await until('a minute of the client', async () => (io.now() - cutAt >= 60_000 ? true : undefined))
  await line.mend()
  expect(await waiting, io.stderr.text).toBe(code)
  expect(io.stderr.text).toContain('contact again')
  expect(io.stdout.text).toMatch(code === 0 ? /\tsucceeded\t/ : /\tfailed\t/)
})

test('the answer to the start is lost: asked again with the same key, one task', async () => {
  const line = await startLine()
  const environment = await p.environment('lost')
  holdDeployment()('succeed')
  line.loseAnswerTo('POST')
  const { io } = quickIo({ BERTH_URL: line.url, BERTH_TOKEN: p.cp.token })
  expect(await run(['deploy', '-e', `id:${environment.id}`, '--wait'], io)).toBe(0)
  expect(line.lost).toEqual([`POST /api/environments/${environment.id}/tasks 201`])
  const tasks = await p.cp.call<Task[]>('GET', `/api/environments/${environment.id}/tasks`)
  expect(tasks.body).toHaveLength(1)
})

test('the token expires half-way: it is refreshed, two waits at once spend one refresh token', async () => {
  const cp = p.cp
  await person(cp, 'Bea', 'developer')
  await cp.running.ctx.db.deleteFrom('refreshTokens').execute()
  const folder = mkdtempSync(join(tmpdir(), 'berth-client-wait-'))
  try {
    const { device_code: code } = await startDevice(cp)
    const browser = new Browser(cp)
    await browser.signIn('bea@example.com', PASSWORD)
    await approve(cp, browser, code)
    const { access_token: access, refresh_token: fresh } = (await poll(cp, code)).body
    const entry = {
      access_token: access,
      refresh_token: fresh,
      expires_at: null,
      user: { id: 1, name: 'Ada', email: 'ada@example.com' },
      used_at: '2026-11-15T10:00:00Z',
    }
    const file = join(folder, 'credentials.json')
    writeFileSync(file, JSON.stringify({ [cp.url]: entry }), { mode: 0o600 })
    const environment = await p.environment('refreshed')
    const decide = holdDeployment()
    const env = { BERTH_CONFIG_DIR: folder, BERTH_POLL_MS: '50' }
    const sleep = async (ms: number) => void (await wait(ms))
    const io = [1, 2].map(() => testIo({ env, now: Date.now, sleep }))
    const first = run(['deploy', '-e', `id:${environment.id}`, '--wait'], io[0] as TestIo)
    await running(io[0] as TestIo)
    const second = run(['deploy', '-e', `id:${environment.id}`, '--attach'], io[1] as TestIo)
    await running(io[1] as TestIo)
    const { db } = cp.running.ctx
    await db.updateTable('tokens').set({ expiresAt: 1 }).where('kind', '=', 'login').execute()
    decide('succeed')
    expect(await Promise.all([first, second]), io.map((one) => one.stderr.text).join('')).toEqual([
      0, 0,
    ])
    const spent = await db.selectFrom('refreshTokens').selectAll().execute()
    expect(spent.filter((one) => one.spentAt !== null)).toHaveLength(1)
    expect(spent.every((one) => one.repeatedAt === null)).toBe(true)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
