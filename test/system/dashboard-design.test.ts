// The components in a real browser: every state on one page without a finding of axe-core in either theme, the keyboard in
// menus, dialogs and the palette, and what the first page loads.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dashboardDist } from '../../scripts/build-dashboard.ts'
import { findings, findingsInBothThemes } from '../fixtures/people/axe.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import {
  ADA,
  type DashboardContent,
  makeDashboardContent,
} from '../fixtures/people/dashboard-content.ts'
import { firstVisit } from '../fixtures/people/dashboard-files.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'

const FOCUSED = "document.activeElement?.getAttribute('name')"
const INSIDE = "document.querySelector('[role=dialog]')?.contains(document.activeElement)"

describe.skipIf(missing('chromium'))('the components', () => {
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

  const openDesign = async (v: Visitor) => {
    await v.goto('/design')
    await v.heading('Design')
    await v.page.locator('.u-wrap canvas').last().waitFor()
  }

  test.each(['light', 'dark'] as const)('all of them in the %s theme', async (theme) => {
    const v = await chrome.visit(content.platform.cp.url, { theme })
    await openDesign(v)
    expect(await findings(v.page)).toEqual([])
    await v.page.setViewportSize({ width: 390, height: 844 })
    expect(await findings(v.page)).toEqual([])
    const over = await v.page.evaluate(
      'Math.max(0, document.documentElement.scrollWidth - innerWidth)',
    )
    expect(over).toBeLessThanOrEqual(0)
    expect(v.complaints).toEqual([])
    await v.close()
  })

  test('only a control plane in development has the page', async () => {
    const cp = await TestControlPlane.start('sqlite', { config: { isDevelopment: false } })
    const v = await chrome.visit(content.platform.cp.url)
    try {
      expect((await fetch(`${cp.url}/design`)).status).toBe(404)
      // an address that the router knows, without the control plane's word
      await v.page.route('**/design/on', (route) => route.fulfill({ status: 404 }))
      await v.goto('/design')
      await v.heading(/^Not found/)
    } finally {
      await v.close()
      await cp.close()
    }
  })

  test('a menu by keyboard: arrows, typing ahead, Escape, and the focus returns', async () => {
    const v = visitor
    await openDesign(v)
    const button = v.button('Actions').first()
    await button.focus()
    await v.page.keyboard.press('Enter')
    const menu = v.page.getByRole('menu')
    await menu.waitFor()
    expect(await button.getAttribute('aria-expanded')).toBe('true')
    const focused = () => v.page.evaluate('document.activeElement?.textContent')
    await v.page.keyboard.press('ArrowDown')
    await v.page.getByRole('menuitem', { name: 'Stop' }).waitFor()
    await v.page.keyboard.type('set')
    await expect.poll(focused).toBe('Settings')
    await v.page.keyboard.press('Escape')
    await menu.waitFor({ state: 'detached' })
    await expect.poll(focused).toBe('Actions')
    // a press at its button closes it; the button itself is behind the menu
    await button.click()
    await menu.waitFor()
    expect(await findingsInBothThemes(v.page)).toEqual([])
    const at = await button.boundingBox()
    await v.page.mouse.click((at?.x ?? 0) + 5, (at?.y ?? 0) + 5)
    await menu.waitFor({ state: 'detached' })
    await button.click()
    await v.page.getByRole('menuitem', { name: 'Restart' }).click()
    await v.text('Restarted.').waitFor()
    expect(v.complaints.splice(0)).toEqual([])
  })

  test('a dialog keeps the focus and what was typed, and gives the focus back', async () => {
    const v = visitor
    await openDesign(v)
    await v.button('Open dialog').first().click()
    const dialog = v.page.getByRole('dialog', { name: 'Rename project' })
    const field = dialog.getByLabel('Name')
    await expect.poll(() => v.page.evaluate(FOCUSED)).toBe('title')
    expect(await findingsInBothThemes(v.page)).toEqual([])
    await field.fill('store')
    await v.page.mouse.click(5, 5)
    expect(await field.inputValue()).toBe('store')
    for (let presses = 0; presses < 5; presses++) await v.page.keyboard.press('Tab')
    expect(await v.page.evaluate(INSIDE)).toBe(true)
    await v.page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await expect
      .poll(() => v.page.evaluate('document.activeElement?.textContent'))
      .toBe('Open dialog')
    // from a menu, whose button would like the focus back
    await v.button('Actions').first().click()
    await v.page.getByRole('menuitem', { name: 'Rename…' }).click()
    await expect.poll(() => v.page.evaluate(FOCUSED)).toBe('title')
    await v.page.keyboard.type('x')
    expect(await field.inputValue()).toContain('x')
    await v.page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(v.complaints.splice(0)).toEqual([])
  })

  test('a notice is announced and can be dismissed', async () => {
    const v = visitor
    await openDesign(v)
    await v.button('Show toast').first().click()
    const region = v.page.locator('[aria-live="polite"]', { hasText: 'Saved.' })
    await region.waitFor()
    // the pointer over it keeps it
    await region.hover()
    expect(await findingsInBothThemes(v.page)).toEqual([])
    await v.button('Dismiss').click()
    await v.text('Saved.').waitFor({ state: 'detached' })
    expect(v.complaints.splice(0)).toEqual([])
  })

  test('a tip appears with the focus and goes with Escape', async () => {
    const v = visitor
    await openDesign(v)
    await v.button('Show toast').first().focus()
    await v.page.keyboard.press('Tab')
    await v.text('Copies the address').waitFor()
    expect(await findingsInBothThemes(v.page)).toEqual([])
    await v.page.keyboard.press('Escape')
    await v.text('Copies the address').waitFor({ state: 'detached' })
    expect(v.complaints.splice(0)).toEqual([])
  })

  test('a chart has a table, and tabs change with the arrows', async () => {
    const v = visitor
    await openDesign(v)
    await v.page.getByText('Show as table: Requests in light').click()
    const table = v.page.getByRole('table', { name: 'Requests in light' })
    await table.getByRole('columnheader', { name: '5xx' }).waitFor()
    expect(await table.getByRole('row').count()).toBe(61)
    await v.page.getByRole('tab', { name: 'Hour' }).first().focus()
    await v.page.keyboard.press('ArrowRight')
    await v.page.keyboard.press('Enter')
    await v.text('The last day.').first().waitFor()
    expect(v.complaints.splice(0)).toEqual([])
  })

  test('an error appears at its field, which gets the focus', async () => {
    const v = visitor
    await openDesign(v)
    const form = v.page.getByRole('form', { name: 'Example in light' })
    await form.getByLabel('Password', { exact: true }).fill('secret')
    await form.getByRole('button', { name: 'Save changes' }).click()
    await form.getByText('Use at most 63 characters.').waitFor()
    await expect.poll(() => v.page.evaluate(FOCUSED)).toBe('name')
    expect(await form.getByLabel('Password', { exact: true }).inputValue()).toBe('secret')
    expect(v.complaints.splice(0)).toEqual([])
  })

  test('the palette by keyboard', async () => {
    const v = visitor
    await v.goto('/')
    await v.heading('Projects')
    await v.page.keyboard.press('Control+k')
    const box = v.page.getByRole('combobox')
    await box.waitFor()
    expect(await findingsInBothThemes(v.page)).toEqual([])
    await box.fill('servers')
    await v.page.getByRole('option', { name: /^Servers/ }).waitFor()
    await v.page.keyboard.press('Enter')
    await v.heading('Servers')
    expect(await v.page.getByRole('dialog').count()).toBe(0)
    await v.page.keyboard.press('Control+k')
    await box.fill('no such page anywhere')
    await v.text('No results').waitFor()
    expect(await findings(v.page)).toEqual([])
    await v.page.keyboard.press('Escape')
    await box.waitFor({ state: 'detached' })
    expect(v.complaints.splice(0)).toEqual([])
  })

  test('on a phone the navigation is at the bottom, large enough for a thumb', async () => {
    const v = await chrome.visit(content.platform.cp.url, { width: 390, height: 844 })
    await v.signIn(ADA.email, ADA.password)
    const nav = v.page.getByRole('navigation', { name: 'Main' })
    const box = await nav.boundingBox()
    expect((box?.y ?? 0) + (box?.height ?? 0)).toBe(844)
    for (const link of await nav.getByRole('link').all()) {
      expect((await link.boundingBox())?.height).toBeGreaterThanOrEqual(44)
    }
    await nav.getByRole('link', { name: 'Servers' }).click()
    await v.heading('Servers')
    for (const name of ['Search', /^Account of/, /^Organization:/]) {
      const at = await v.button(name).boundingBox()
      expect(at?.height ?? 0, String(name)).toBeGreaterThanOrEqual(32)
      expect((at?.x ?? 0) + (at?.width ?? 0), String(name)).toBeLessThanOrEqual(390)
    }
    expect(v.complaints).toEqual([])
    await v.close()
  })

  test('a first visit fetches the files of the budget and no others, compressed', async () => {
    const v = await chrome.visit(content.platform.cp.url)
    const wire = await v.context.newCDPSession(v.page)
    const codings = new Map<string, string>()
    wire.on('Network.responseReceived', ({ response: { url, headers } }) => {
      const path = new URL(url).pathname.slice(1)
      if (path.startsWith('trpc')) return
      codings.set(path === 'login' ? 'index.html' : path, headers['content-encoding'] ?? '')
    })
    await wire.send('Network.enable')
    await v.signIn(ADA.email, ADA.password)
    await v.page.getByRole('region', { name: 'All projects' }).waitFor()
    await v.page.evaluate('document.fonts.ready.then(() => true)')
    expect([...codings.keys()].toSorted()).toEqual([...firstVisit()].toSorted())
    for (const [file, coding] of codings) {
      const bytes = readFileSync(join(dashboardDist, file))
      const isSmaller = !file.endsWith('.woff2') && gzipSync(bytes).length < bytes.length
      expect([file, coding]).toEqual([file, isSmaller ? 'gzip' : ''])
    }
    await v.close()
  })
})
