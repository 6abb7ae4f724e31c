// Logs of running services and the request log through the control plane: pages, filters, live lines, downloads, and who
// may read them. A real agent reads real files.
import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { RuntimeLogRecord } from '@berth/shared/api'
import { RequestErrorCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Masker } from '../../agent/src/machine/masking/mask.ts'
import { withHolders, writeHolders } from '../../agent/src/proxy/host-holders.ts'
import { edgePaths } from '../../agent/src/proxy/paths.ts'
import { readTable, withRoutes, writeTable } from '../../agent/src/proxy/table.ts'
import { setAside } from '../../agent/src/service-logs/days.ts'
import { ServiceLog } from '../../agent/src/service-logs/writer.ts'
import { writeLogText } from '../../control-plane/src/app/deployments/runtime-logs.ts'
import { authenticate } from '../../control-plane/src/app/people/callers.ts'
import { hashPassword } from '../../control-plane/src/identity/passwords.ts'
import { insertPassword } from '../../control-plane/src/store/people/accounts.ts'
import { Browser, PASSWORD } from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { makePerson, openDashboardClient } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

interface Line {
  kind?: string
  t: string
  text: string
  level: string | null
  service: string
  path: string
  older: string | null
  newer: string
  is_last: boolean
}

const LINES = 1_200

describe.each(ENGINES)('runtime logs on %s', (engine) => {
  let p: Platform
  let id: number
  let web: ServiceLog
  let start: number
  const folders = () => ({ stateDir: p.agentDir, runDir: join(p.agentDir, 'run') })
  const open = (service: string) =>
    new ServiceLog(join(p.agentDir, `logs/e${id}/${service}`), 1, new Masker([]))
  const say = (log: ServiceLog, text: string, at: number) =>
    log.write('out', Buffer.from(`${text}\n`), new Date(at).toISOString())

  beforeAll(async () => {
    p = await Platform.start(engine)
    id = (await p.environment('main')).id
    start = Date.now() - 3_600_000
    web = open('web')
    for (let n = 0; n < LINES; n += 1) {
      const text = n % 100 === 7 ? `ERROR line ${n} timeout` : `line ${n}`
      say(web, text, start + n * 10)
      if (n === 800)
        setAside(join(p.agentDir, `logs/e${id}/web`), new Date(start).toISOString().slice(0, 10))
    }
    const db = open('db')
    say(db, '{"level":40,"msg":"slow"}', start + 5)
    say(db, '<script>alert(1)</script> \u001b[31mred\u001b[0m', start + 6)
    db.close()
  })
  afterAll(async () => {
    web.close()
    await p.close()
  })

  const path = (query = '') => `/api/environments/${id}/log_lines${query}`
  async function read(query = ''): Promise<{ lines: Line[]; page: Line }> {
    const { status, text } = await p.cp.call('GET', path(query))
    expect(status, text).toBe(200)
    const all = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line)
    for (const record of all) RuntimeLogRecord.parse(record)
    return { lines: all.slice(0, -1), page: all.at(-1) as Line }
  }

  test('pages lead back to the first line, each line once, and forwards again', async () => {
    let { lines, page } = await read('?service=web&limit=500')
    expect(lines.at(-1)).toMatchObject({ text: `line ${LINES - 1}`, service: 'web', level: null })
    const newer = page.newer
    for (let n = 0; page.older !== null && n < 10; n += 1) {
      const before = await read(`?service=web&limit=500&before=${encodeURIComponent(page.older)}`)
      lines = [...before.lines, ...lines]
      page = before.page
    }
    expect(lines).toHaveLength(LINES)
    expect(new Set(lines.map(({ text }) => text)).size).toBe(LINES)
    expect(page.is_last).toBe(true)
    say(web, 'one more', Date.now())
    const after = await read(`?service=web&after=${encodeURIComponent(newer)}`)
    expect(after.lines.map(({ text }) => text)).toEqual(['one more'])
    expect((await read('?service=web&after=&limit=3')).lines.map(({ text }) => text)).toEqual([
      'line 0',
      'line 1',
      'line 2',
    ])
  })

  test('filters by text, level, service and time, on the server', async () => {
    const found = await read('?q=TIMEOUT&level=error')
    expect(found.lines).toHaveLength(12)
    expect(new Set(found.lines.map(({ level }) => level))).toEqual(new Set(['error']))
    expect((await read('?level=warn')).lines.map(({ text }) => text)).toEqual([
      '{"level":40,"msg":"slow"}',
    ])
    expect((await read('?service=db&level=other')).lines[0]?.text).toContain('<script>')
    expect((await read('?q=nothing-like-it')).lines).toEqual([])
    const at = new Date(start + 105).toISOString()
    const around = await read(`?service=web&until=${at}&limit=2`)
    expect(around.lines.map(({ text }) => text)).toEqual(['line 9', 'line 10'])
    const since = new Date(start + 10_000).toISOString()
    expect((await read(`?service=web&since=${since}&limit=1000`)).lines.length).toBeLessThan(300)
  })

  test('refuses what makes no sense, before the server is asked', async () => {
    const bad = ['?limit=0', '?limit=1001', '?level=loud', '?log=other', '?status=200', '?since=x']
    bad.push(`?q=${'x'.repeat(201)}`, '?before=', '?before=a&after=b', '?before=a&follow=true')
    for (const query of bad) {
      const { status } = await p.cp.call('GET', path(query))
      expect([400, 422], query).toContain(status)
    }
    for (const cursor of ['../../etc/passwd', 'web:1.1', 'x'.repeat(3_999)]) {
      const { status, body } = await p.cp.call('GET', path(`?before=${encodeURIComponent(cursor)}`))
      expect([status, body.code]).toEqual([400, 'invalid_cursor'])
    }
  })

  test('new lines arrive live, and a reconnect continues where it was', async () => {
    const page = openDashboardClient(p.cp, p.cp.token)
    const selection = { environment_id: id, log: 'services' as const, q: 'live' }
    const { newer } = await page.client.runtimeLog.page.query({ ...selection, limit: 1 })
    const heard = page.watch(page.client.runtimeLog.lines, { ...selection, after: newer })
    const texts = () =>
      heard.messages.flatMap((m) =>
        (m.data as unknown as { records: Line[] }).records.map((r) => r.text),
      )
    await heard.started()
    say(web, 'live 1', Date.now())
    say(web, 'not it', Date.now())
    await until('the first line', () => texts().includes('live 1') || undefined)
    page.ws.connection?.ws?.close()
    say(web, 'live 2', Date.now())
    await until('the second line', () => texts().includes('live 2') || undefined)
    say(web, 'live 3', Date.now())
    await until('the third line', () => texts().includes('live 3') || undefined)
    expect(texts()).toEqual(['live 1', 'live 2', 'live 3'])
    heard.stop()
    await page.close()
  })

  test('the request log has lines of this environment only, and says when there is none', async () => {
    const none = await p.cp.call('GET', path('?log=requests'))
    expect([none.status, none.body.code]).toEqual([409, 'request_log_unavailable'])
    const target = { kind: 'loopback', port: 80 } as const
    const route = (host: string) => ({ service: 'web', host, path: '/', auth: false, target })
    let table = withRoutes(readTable(folders()), {
      environmentId: id,
      fence: 1n,
      routes: [route('shop.test')],
    })
    table = withRoutes(table, { environmentId: id + 1, fence: 1n, routes: [route('other.test')] })
    writeHolders(folders(), withHolders({}, table, start))
    writeTable(folders(), table)
    const { caddy } = edgePaths(folders())
    mkdirSync(caddy, { recursive: true })
    const log = (host: string, uri: string, status: number) =>
      appendFileSync(
        join(caddy, 'access.log'),
        `${JSON.stringify({ ts: Date.now() / 1_000, request: { method: 'GET', host, uri, client_ip: '203.0.113.7' }, status, duration: 0.01, size: 7 })}\n`,
      )
    log('shop.test', '/cart?token=hidden', 200)
    log('other.test', '/secret-of-others', 200)
    log('shop.test', '/broken', 502)
    const { lines } = await read('?log=requests')
    expect(lines.map((line) => line.path)).toEqual(['/cart', '/broken'])
    expect(JSON.stringify(lines)).not.toMatch(/hidden|others/)
    expect((await read('?log=requests&status=5xx')).lines.map((line) => line.path)).toEqual([
      '/broken',
    ])
    expect((await read('?log=requests&q=CART')).lines.map((line) => line.path)).toEqual(['/cart'])
  })

  test('a download is a text file of the chosen lines, for its owner, once', async () => {
    const { db, clock } = p.cp.running.ctx
    const signIn = async (name: string, member: { organizationId?: number }): Promise<Browser> => {
      const email = `${name}@example.com`
      const { userId } = await makePerson(p.cp, name, { ...member, role: 'viewer', email })
      await insertPassword(db, userId, await hashPassword(PASSWORD), clock.now())
      const browser = new Browser(p.cp)
      const answer = await browser.report('session.signIn', { email, password: PASSWORD })
      expect(answer.status, answer.text).toBe(200)
      return browser
    }
    const ada = await signIn('reader', { organizationId: 1 })
    const selection = { environment_id: id, log: 'services', levels: ['error'], services: ['web'] }
    const { body, text } = await ada.report<{ url: string }>('runtimeLog.ticket', selection)
    const url = body.result?.data.url ?? text
    expect(url).toMatch(/^\/downloads\/[\w-]{43}$/)
    const answer = await fetch(p.cp.url + url, { headers: { cookie: ada.cookie } })
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect(answer.headers.get('content-disposition')).toBe(
      `attachment; filename="environment-${id}-services.log"`,
    )
    const lines = (await answer.text()).trim().split('\n')
    expect(lines).toHaveLength(12)
    expect(lines[0]).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z web ERROR line 7 timeout$/)
    expect((await fetch(p.cp.url + url, { headers: { cookie: ada.cookie } })).status).toBe(404)
    const eve = await signIn('eve', {})
    expect((await eve.report('runtimeLog.ticket', selection)).status).toBe(404)
  })

  test('a download is bounded, and says so', async () => {
    const { ctx } = p.cp.running
    const from = { address: '127.0.0.1', requestId: 'req' }
    const { caller } = await authenticate(ctx, `Bearer ${p.cp.token}`, from)
    const all = { log: 'services' as const, services: [], levels: [], statuses: [], search: '' }
    const range = { ...all, since: undefined, until: undefined }
    const { signal } = new AbortController()
    let text = ''
    for await (const part of writeLogText(ctx, caller, id, range, { signal, most: 40_000 }))
      text += part
    expect(text.length).toBeLessThan(45_000)
    expect(text.trim().split('\n').at(-1)).toMatch(/^The file ends here/)
  })

  test('strangers find nothing, and each read is in the audit log', async () => {
    const { token } = await makePerson(p.cp, 'stranger')
    const headers = { authorization: `Bearer ${token}` }
    expect((await p.cp.call('GET', path(), undefined, headers)).status).toBe(404)
    await read('?service=web')
    const rows = await p.cp.running.ctx.db
      .selectFrom('audit')
      .selectAll()
      .where('verb', '=', 'service_logs.read')
      .orderBy('seq')
      .execute()
    expect(JSON.stringify(rows.at(-1))).toContain('web')
  })
})

describe('an agent of before', () => {
  test('refuses pages with a code, and still sends its last lines', async () => {
    const cp = await TestControlPlane.start('sqlite')
    await cp.setUp()
    const server = await cp.server()
    const { id } = await cp.environment((await cp.project('shop', server.id)).id)
    const agent = await WireAgent.join(cp, server.id)
    const session = await agent.active()
    const asked = cp.call('GET', `/api/environments/${id}/log_lines`)
    const request = await session.next('request')
    session.send({
      case: 'response',
      value: {
        requestId: request.requestId,
        body: { case: 'error', value: { code: RequestErrorCode.UNSUPPORTED, message: 'no' } },
      },
    })
    const { status, body } = await asked
    expect([status, body.code]).toEqual([409, 'agent_outdated'])
    agent.close()
    await cp.close()
  })
})
