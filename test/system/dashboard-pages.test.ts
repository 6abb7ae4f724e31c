// Every page in a real browser: no finding of axe-core in either theme, no sideways scrolling at 320 px, no
// foreign request. Also proves that the checker finds planted problems.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sha } from '../fixtures/forge/webhook-sender.ts'
import { findings, findingsInBothThemes } from '../fixtures/people/axe.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import {
  ADA,
  type DashboardContent,
  makeDashboardContent,
  PAGES,
  type PageName,
} from '../fixtures/people/dashboard-content.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { until } from '../fixtures/server/installation.ts'

/** Problems that must be found: a field without a label, unreadable text, a script made from text. */
const SPOIL = `
  const main = document.querySelector('main')
  main.append(document.createElement('input'))
  const faint = document.createElement('p')
  faint.textContent = 'faint'
  faint.style.color = '#ddd'
  main.append(faint)
  try { document.createElement('script').text = 'window.pwned = 1' } catch { document.title = 'refused' }
`

/** Pages and the buttons that open a dialog there. */
const DIALOGS: [PageName, string | RegExp][] = [
  ['project-webhooks', 'Regenerate secret'],
  ['environment', 'Restart'],
  ['environment-variables', 'Add'],
  ['environment-variables', 'Paste .env'],
  ['task-failed', 'Redeploy'],
  ['servers', /Add server/],
  ['members', /Invite/],
  ['notifications', 'Regenerate signing secret'],
]

async function inspect(v: Visitor): Promise<string[]> {
  const found = await findingsInBothThemes(v.page)
  await v.page.setViewportSize({ width: 320, height: 640 })
  found.push(...(await findings(v.page)).map((f) => `320: ${f}`))
  const over = Number(
    await v.page.evaluate('Math.max(0, document.documentElement.scrollWidth - innerWidth)'),
  )
  if (over > 0) found.push(`320: scrolls sideways by ${over} px`)
  await v.page.setViewportSize({ width: 1_280, height: 800 })
  return found
}

const settled = async (v: Visitor) => {
  await v.page.getByRole('heading', { level: 1 }).waitFor()
  await v.page.locator('[data-loading]').first().waitFor({ state: 'detached' })
}

describe.skipIf(missing('chromium'))('every page', () => {
  let chrome: Chromium
  let content: DashboardContent
  let visitor: Visitor
  beforeAll(async () => {
    chrome = await Chromium.launch()
    content = await makeDashboardContent()
    visitor = await chrome.visit(content.platform.cp.url)
    await visitor.signIn(ADA.email, ADA.password)
  })
  afterAll(async () => {
    await visitor?.close()
    await content?.close()
    await chrome?.close()
  })

  test.each(PAGES)('of somebody signed in: %s', async (name) => {
    await visitor.goto(content.pages[name])
    await settled(visitor)
    expect(await inspect(visitor)).toEqual([])
    expect(visitor.complaints.splice(0)).toEqual([])
  })

  test("a server's charts have its history, and the span is chosen", async () => {
    const v = visitor
    await v.goto(content.pages.server)
    await settled(v)
    /** How the line of a chart is drawn: the number of points, and the part of the width it covers. */
    const drawn = async (label: string) => {
      const line = v.page.getByRole('img', { name: new RegExp(`^${label} over time, now .*\\d`) })
      const d = (await line.locator('path').last().getAttribute('d')) ?? ''
      const xs = [...d.matchAll(/[ML]([\d.]+) /g)].map((match) => Number(match[1]))
      return { paths: xs.length, from: Math.min(...xs), to: Math.max(...xs) }
    }
    const day = await drawn('Processors')
    // ninety minutes of a day are at its right end
    expect(day.from).toBeGreaterThan(200)
    expect(day.to).toBeLessThanOrEqual(240)
    await v.page.getByLabel('Span of time').selectOption('hour')
    await v.text('1 hour ago').first().waitFor()
    const hour = await drawn('Disk')
    expect(hour.paths).toBeGreaterThan(50)
    expect(hour.from).toBeLessThan(20)
    await v.text('in force').waitFor()
    // one number per disk; the server may report a new one between two reads
    await until('the same number on both pages', async () => {
      await v.goto('/servers')
      const inList = await v.text(/ [GT]B free$/).textContent()
      await v.goto(content.pages.server)
      return (await v.text(/ [GT]B free$/).textContent()) === inList || undefined
    })
    expect(v.complaints.splice(0)).toEqual([])
  })

  test("a fork's commit is approved by itself: a new push asks again", async () => {
    const v = visitor
    const { cp } = content.platform
    await cp.call('PUT', `/api/projects/${content.host.projectId}/environment_limit`, { limit: 9 })
    await v.goto(content.pages.project)
    await v.button('Review 77aa000').click()
    const dialog = v.page.getByRole('dialog', { name: 'Approve PR #51?' })
    await dialog.getByText(sha('77aa')).waitFor()
    expect(await findings(v.page)).toEqual([])
    const fork = { number: 51, title: 'Add coupon', fork: 99, author: 'mallory' }
    await content.host.updated({ ...fork, head: sha('88bb') })
    // the reviewed commit is not the current one
    await dialog.getByRole('button', { name: 'Approve 77aa000' }).click()
    await dialog.getByRole('alert').waitFor()
    await v.page.keyboard.press('Escape')
    await v.button('Review 88bb000').click()
    await v.button('Approve 88bb000').click()
    await v.text('Approved.').waitFor()
    await v.button('Review 88bb000').waitFor({ state: 'detached' })
    await v.link('pr-51').waitFor()
    await v.text('pr-51').locator('xpath=ancestor::tr').getByText('Running').waitFor()
    await content.host.updated({ ...fork, head: sha('99cc') })
    await v.button('Review 99cc000').waitFor()
    expect(v.complaints.splice(0)).toEqual([])
  })

  test('dialogs and the palette', async () => {
    const v = visitor
    await v.goto('/')
    await settled(v)
    await v.page.keyboard.press('Control+k')
    await v.page.getByRole('combobox').waitFor()
    expect(await findingsInBothThemes(v.page)).toEqual([])
    await v.page.keyboard.press('Escape')
    await v.page.keyboard.press('?')
    await v.page.getByRole('dialog', { name: 'Keyboard and help' }).waitFor()
    expect(await findingsInBothThemes(v.page)).toEqual([])
    for (const [page, button] of DIALOGS) {
      await v.goto(content.pages[page])
      await v.button(button).first().click()
      await v.page.getByRole('dialog').waitFor()
      expect([page, await findingsInBothThemes(v.page)]).toEqual([page, []])
    }
    expect(v.complaints.splice(0)).toEqual([])
  })

  test.each(['projects', 'project', 'environment', 'environment-logs', 'task-failed'] as const)(
    'every menu, open: %s',
    async (name) => {
      const v = visitor
      await v.goto(content.pages[name])
      await settled(v)
      const buttons = v.page.locator('[aria-haspopup=menu]')
      const menu = v.page.getByRole('menu')
      for (const button of await buttons.all()) {
        await button.click()
        await menu.getByRole('menuitem').first().waitFor()
        expect(await findingsInBothThemes(v.page)).toEqual([])
        await v.page.keyboard.press('Escape')
        await menu.waitFor({ state: 'detached' })
      }
      // the ones of the header, and those of the page
      expect(await buttons.count()).toBeGreaterThanOrEqual(name === 'projects' ? 2 : 3)
      expect(v.complaints.splice(0)).toEqual([])
    },
  )

  test('on a phone every row of links shows the open one', async () => {
    const v = await chrome.visit(content.platform.cp.url, {
      width: 390,
      height: 844,
      isPhone: true,
    })
    await v.signIn(ADA.email, ADA.password)
    for (const part of ['notifications', 'delete']) {
      await v.goto(`${content.pages['project-settings']}/${part}`)
      await settled(v)
      const hidden = await v.page.evaluate(
        `[...document.querySelectorAll('main nav [aria-current]')]
          .filter((e) => e.getBoundingClientRect().right > innerWidth || e.getBoundingClientRect().left < 0)
          .map((e) => e.textContent)`,
      )
      expect(hidden, part).toEqual([])
    }
    await v.close()
  })

  test('a schedule shows its next run and what became of the last ones', async () => {
    const v = visitor
    const page = content.pages['environment-actions']
    const environmentId = Number(/environments\/(\d+)/.exec(page)?.[1])
    const at = Date.UTC(2026, 0, 1, 2)
    const missed = { outcome: 'missed' as const, reason: 'staging is stopped.', taskId: null }
    await content.platform.cp.running.ctx.db
      .insertInto('scheduleRuns')
      .values({ environmentId, action: 'reset-demo', ...missed, dueAt: at, lastDueAt: at, runs: 3 })
      .execute()
    await v.goto(page)
    await v.text('0 3 1 1 *').waitFor()
    await v.text(/^Next run /).waitFor()
    await v.text(/^Missed 3 runs at .*: staging is stopped\.$/).waitFor()
    await v.button('Show history').click()
    const table = v.page.getByRole('table', { name: 'Scheduled runs of reset-demo' })
    await table.getByText('staging is stopped.').waitFor()
    expect(await findings(v.page)).toEqual([])
  })

  test('a file comes whole; expired or with its server away it is a sentence and no file', async () => {
    const v = visitor
    await v.goto(content.pages['environment-actions'])
    const download = v.button('Download exports/orders-2026-10.csv')
    const [file] = await Promise.all([v.page.waitForEvent('download'), download.click()])
    expect(readFileSync(await file.path(), 'utf8')).toHaveLength(44_013)
    await v.text('exports/orders-2026-09.csv').waitFor()
    expect(await v.button(/orders-2026-09/).count()).toBe(0)
    await v.text(/was available until/).waitFor()

    const downloads: unknown[] = []
    v.page.on('download', (one) => downloads.push(one))
    // one that expires while the page is open
    await content.platform.cp.running.ctx.db
      .updateTable('artifacts')
      .set({ expiresAt: 1 })
      .where('path', '=', 'exports/orders-2026-10.csv')
      .execute()
    await download.click()
    await v.text(/orders-2026-10.csv .*until/).waitFor()
    await content.platform.cp.running.ctx.db
      .updateTable('artifacts')
      .set({ expiresAt: Date.now() + 86_400_000 })
      .where('path', '=', 'exports/orders-2026-10.csv')
      .execute()
    content.platform.killAgent()
    await until('the end of its session', async () => {
      const { body } = await content.platform.cp.call('GET', '/api/servers/1')
      return body.status === 'online' ? undefined : true
    })
    await v.goto(content.pages['environment-actions'])
    await download.click()
    await v.text('The server is offline. Try again when it is back.').waitFor()
    expect(v.page.url()).toContain('/actions')
    expect(downloads).toEqual([])
    await content.platform.startAgent()
    await content.platform.online()
  })

  test('before anybody signed in', async () => {
    const cp = await TestControlPlane.start('sqlite')
    const v = await chrome.visit(cp.url)
    try {
      await v.goto('/setup#berth_setup_abc') // the link that the console shows
      await v.heading('Set up Berth')
      expect(await v.page.getByLabel('Set-up token').inputValue()).toBe('berth_setup_abc')
      const found = await inspect(v)
      await cp.setUp()
      for (const path of ['/login', '/reset', '/reset/x', '/invite/x']) {
        await v.goto(path)
        await settled(v)
        found.push(...(await inspect(v)))
      }
      expect(found).toEqual([])
      expect(v.complaints).toEqual([])
    } finally {
      await v.close()
      await cp.close()
    }
  })

  test('a missing label, faint text and a foreign script would be found', async () => {
    const v = await chrome.visit(content.platform.cp.url)
    await v.goto('/login')
    await v.heading('Sign in')
    await v.page.evaluate(SPOIL)
    const found = (await findings(v.page)).map((f) => f.split(':')[0])
    expect(found).toEqual(expect.arrayContaining(['label', 'color-contrast']))
    expect(await v.page.title()).toBe('refused')
    await v.close()
  })
})
