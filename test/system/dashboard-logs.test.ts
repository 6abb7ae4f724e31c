// The page of logs in a real browser: lines and requests with times, levels and colours, filters, the way back in time,
// follow, download, and the states without lines.
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { RequestErrorCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Masker } from '../../agent/src/machine/masking/mask.ts'
import { withHolders, writeHolders } from '../../agent/src/proxy/host-holders.ts'
import { edgePaths } from '../../agent/src/proxy/paths.ts'
import { readTable, withRoutes, writeTable } from '../../agent/src/proxy/table.ts'
import { ServiceLog } from '../../agent/src/service-logs/writer.ts'
import { findings } from '../fixtures/people/axe.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

const LINES = 3_000
const BOX = 'section[aria-label="Output of the services"]'
const FROM_END = `(() => { const b = document.querySelector('${BOX}'); return b.scrollHeight - b.scrollTop - b.clientHeight })()`
const HOSTILE = [
  '<script>window.pwned = 1</script><img src=x onerror="window.pwned=1">',
  '\u001b]8;;javascript:window.pwned=1\u0007click\u001b]8;;\u0007 \u001b]52;c;cHduZWQ=\u0007',
  'a\u001b[2J\u001b[Hb\u0000c',
]

describe.skipIf(missing('chromium'))('the page of logs', { timeout: 120_000 }, () => {
  let chrome: Chromium
  let p: Platform
  let v: Visitor
  let id: number
  let web: ServiceLog
  let start: number
  const say = (log: ServiceLog, text: string, at = Date.now()) =>
    log.write('out', Buffer.from(`${text}\n`), new Date(at).toISOString())
  const folders = () => ({ stateDir: p.agentDir, runDir: join(p.agentDir, 'run') })

  beforeAll(async () => {
    chrome = await Chromium.launch()
    p = await Platform.start('sqlite', { password: PASSWORD })
    id = (await p.environment('staging')).id
    p.executor.script = (attempt) => attempt.succeed()
    await p.settled((await p.deploy(id)).body.id)
    start = Date.now() - 3_600_000
    const dir = (service: string) => join(p.agentDir, `logs/e${id}/${service}`)
    web = new ServiceLog(dir('web'), 1, new Masker([]))
    for (let n = 0; n < LINES; n += 1) {
      const text = n % 500 === 250 ? `ERROR order ${n} failed` : `GET /products/${n} 200`
      say(web, text, start + n * 1_000)
    }
    const api = new ServiceLog(dir('api'), 1, new Masker([]))
    say(api, '\u001b[33mWARN\u001b[0m rate of EUR/CHF is 26 h old', start + LINES * 1_000)
    for (const line of HOSTILE) say(api, line, start + LINES * 1_000 + 1)
    say(api, `long ${'x'.repeat(200_000)}`, start + LINES * 1_000 + 2)
    api.write(
      'out',
      Buffer.from([0x66, 0xff, 0xfe, 0x0a]),
      new Date(start + LINES * 1_000 + 3).toISOString(),
    )
    api.close()
    v = await chrome.visit(p.cp.url)
    await v.signIn('ada@example.com', PASSWORD)
  })
  afterAll(async () => {
    await v?.close()
    web?.close()
    await p?.close()
    await chrome?.close()
  })

  const open = async (query = '') => {
    await v.goto(`/environments/${id}/logs${query}`)
    await v.page.getByRole('list').last().waitFor()
  }
  const rows = () => v.page.locator(`${BOX} [role=listitem]`)
  const row = (text: string) => v.page.locator('[role=listitem]', { hasText: text })
  const shows = (count: number) =>
    until(`${count} rows`, async () => (await rows().count()) === count || undefined)
  const fromEnd = async () => Number(await v.page.evaluate(FROM_END))
  const inView = (text: string) => row(text).first().waitFor()

  test('the newest lines are in view, with times, colours and levels; hostile ones are text', async () => {
    await open()
    await inView('f\ufffd\ufffd')
    expect(await fromEnd()).toBeLessThan(5)
    const box = await v.page.locator(BOX).boundingBox()
    expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(800)
    await row('<script>window.pwned').waitFor()
    expect((await row('acb').count()) + (await row('abc').count())).toBeGreaterThan(0)
    expect(await v.page.evaluate('window.pwned')).toBeUndefined()
    expect(await v.page.locator(`${BOX} a[href^="javascript"]`).count()).toBe(0)
    await row('… show all').waitFor()
    const warn = row('rate of EUR/CHF').first()
    expect(await warn.locator('time').textContent()).toMatch(/^\d\d:\d\d:\d\d\.\d{3}$/)
    expect(await warn.textContent()).toContain('warn')
    expect(v.complaints).toEqual([])
  })

  test('scrolling up lets go and loads older lines; new ones wait for a button', async () => {
    await open('?service=web')
    await inView(`GET /products/${LINES - 1} `)
    say(web, 'live line 1')
    await inView('live line 1')
    expect(await fromEnd()).toBeLessThan(45)
    await v.page.locator(BOX).hover()
    await v.page.mouse.wheel(0, -400)
    await until('the view to move', async () => (await fromEnd()) > 100 || undefined)
    expect(await v.page.getByLabel('Follow').isChecked()).toBe(false)
    say(web, 'live line 2')
    await v.button(/1 new line/).waitFor()
    // to the very first line, page by page
    await v.page.locator(BOX).focus()
    for (let n = 0; n < 40 && (await row('GET /products/0 200').count()) === 0; n += 1) {
      await v.page.keyboard.press('Home')
      await v.page.locator('[role=status]', { hasText: 'Loading' }).waitFor({ state: 'detached' })
    }
    await inView('GET /products/0 200')
    await v.text(/lines, all/).waitFor()
    await v.page.keyboard.press('End')
    await inView('live line 2')
    expect(await v.page.getByLabel('Follow').isChecked()).toBe(true)
  })

  test('search, level and service filter on the server, and the address keeps them', async () => {
    await open()
    await v.page.getByLabel('Search lines').fill('order 250')
    await inView('ERROR order 250 failed')
    await shows(1)
    expect(await row('ERROR order 250').locator('mark').textContent()).toBe('order 250')
    expect(new URL(v.page.url()).search).toContain('order')
    await v.page.getByLabel('Search lines').fill('')
    await v.button('Error').click()
    await shows(6)
    await v.page.reload()
    await shows(6)
    expect(await v.button('Error').getAttribute('aria-pressed')).toBe('true')
    await v.page.getByLabel('Search lines').fill('no such text')
    await v.text('No lines match.').waitFor()
    await v.button('Clear filters').click()
    await inView('rate of EUR/CHF')
    // the time of a line shows what was around it, without the filters
    await v.page.getByLabel('Search lines').fill('order 750')
    await row('ERROR order 750').getByRole('button').first().click()
    await inView('GET /products/751 ')
    await inView('GET /products/748 ')
    await v.page.getByLabel('Time', { exact: true }).selectOption({ label: 'Latest' })
    await inView('rate of EUR/CHF')
    expect(v.complaints).toEqual([])
  })

  test('a download is a text file of what is chosen', async () => {
    await open('?service=web&level=error')
    await v.button('Download').click()
    const [download] = await Promise.all([
      v.page.waitForEvent('download'),
      v.page.getByRole('menuitem', { name: 'Everything stored' }).click(),
    ])
    expect(download.suggestedFilename()).toBe(`environment-${id}-services.log`)
    const text = readFileSync(await download.path(), 'utf8')
    expect(text.trim().split('\n')).toHaveLength(6)
    expect(text).toContain('web ERROR order 250 failed')
  })

  test('requests: none without a proxy, then each with its status, live', async () => {
    await v.goto(`/environments/${id}/logs?log=requests`)
    await v.text('This server has no proxy, so it logs no requests.').waitFor()
    const target = { kind: 'loopback', port: 80 } as const
    const route = { service: 'web', host: 'shop.test', path: '/', auth: false, target }
    const table = withRoutes(readTable(folders()), {
      environmentId: id,
      fence: 1n,
      routes: [route],
    })
    writeHolders(folders(), withHolders({}, table, start))
    writeTable(folders(), table)
    const { caddy } = edgePaths(folders())
    mkdirSync(caddy, { recursive: true })
    const log = (uri: string, status: number) =>
      appendFileSync(
        join(caddy, 'access.log'),
        `${JSON.stringify({ ts: Date.now() / 1_000, request: { method: 'GET', host: 'shop.test', uri, client_ip: '203.0.113.7' }, status, duration: 0.0124, size: 5_120 })}\n`,
      )
    log('/cart?token=canary', 200)
    log('/<b>checkout</b>', 502)
    await v.goto(`/environments/${id}/logs`)
    await v.link('Requests').click()
    const first = row('/cart')
    await first.waitFor()
    expect(await first.textContent()).toContain('200GETshop.test/cart12 ms5.0 kB203.0.113.7')
    await row('/<b>checkout</b>').waitFor()
    expect(await v.page.content()).not.toContain('canary')
    log('/live', 404)
    await row('/live').waitFor()
    await v.button('5xx').click()
    await row('/live').waitFor({ state: 'detached' })
    await row('/<b>checkout</b>').waitFor()
  })

  test('accessible in both themes, and usable on a phone', async () => {
    for (const query of ['', '?log=requests', '?q=nothing-at-all']) {
      for (const theme of ['light', 'dark'] as const) {
        const w = await chrome.visit(p.cp.url, { theme, width: 390, height: 844 })
        await w.signIn('ada@example.com', PASSWORD)
        await w.goto(`/environments/${id}/logs${query}`)
        await (query.includes('nothing')
          ? w.text('No lines match.')
          : w.page.locator('[role=listitem]').first()
        ).waitFor()
        for (const width of [390, 1_280]) {
          await w.page.setViewportSize({ width, height: 844 })
          expect(await findings(w.page), `${query} ${theme}`).toEqual([])
          const over = 'Math.max(0, document.documentElement.scrollWidth - innerWidth)'
          expect(Number(await w.page.evaluate(over))).toBeLessThanOrEqual(0)
        }
        expect(w.complaints).toEqual([])
        await w.close()
      }
    }
  })

  test('an offline server is a sentence, and its return brings the lines back', async () => {
    p.killAgent()
    await v.goto(`/environments/${id}/logs`)
    await v.text(/offline.*Its logs are on the server/).waitFor()
    await p.startAgent()
    await inView('rate of EUR/CHF')
    expect(await rows().count()).toBeGreaterThan(5)
  })

  test('an agent of before: a sentence on the page, and what it can send', async () => {
    const cp = await TestControlPlane.start('sqlite', { password: PASSWORD })
    await cp.setUp()
    const server = await cp.server()
    const { id: old } = await cp.environment((await cp.project('shop', server.id)).id)
    const agent = await WireAgent.join(cp, server.id)
    const session = await agent.active()
    const w = await chrome.visit(cp.url)
    await w.signIn('ada@example.com', PASSWORD)
    await w.goto(`/environments/${old}/logs`)
    const asked: (string | undefined)[] = []
    // the page asks for a page, then for the last lines
    while (!asked.includes('openContainerLogs')) {
      const { requestId, body } = await session.next('request')
      asked.push(body.case)
      const error = { code: RequestErrorCode.UNSUPPORTED, message: 'no' }
      session.send({
        case: 'response',
        value: { requestId, body: { case: 'error', value: error } },
      })
    }
    expect(asked[0]).toBe('openLogPage')
    await w.text('is too old to look back or search').waitFor()
    await w.link('Update the agent').waitFor()
    expect(w.complaints).toEqual([])
    await w.close()
    agent.close()
    await cp.close()
  })
})
