// Nothing on a page moves after it was shown: the sum of all layout shifts stays below 0.05, on a desktop and on a phone.
// The fonts, the lists and the charts have their places before they arrive.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import {
  ADA,
  type DashboardContent,
  makeDashboardContent,
  PAGES,
  type PageName,
} from '../fixtures/people/dashboard-content.ts'
import { missing } from '../fixtures/platform/components.ts'

const MOST = 0.05
/** Pages with a part that arrives late and is not announced by a skeleton yet. A page that is fixed leaves this list. */
const LATE: Partial<Record<PageName, number>> = {
  'environment-failed': 0.15,
  'environment-logs': 0.1,
  'environment-actions': 0.1,
  'task-failed': 0.1,
  'task-succeeded': 0.1,
  server: 0.1,
}

/** Adds up shifts from the start of each document; those right after an input are the answer to it. */
const WATCH = `
  window.shifts = []
  const take = (entries) => {
    for (const entry of entries) {
      if (!entry.hadRecentInput) window.shifts.push([entry.value, ...entry.sources.map((s) => s.node?.className ?? s.node?.nodeName)])
    }
  }
  window.shiftObserver = new PerformanceObserver((list) => take(list.getEntries()))
  window.shiftObserver.observe({ type: 'layout-shift', buffered: true })
  window.readShifts = () => { take(window.shiftObserver.takeRecords()); return window.shifts }
`
/** Two frames later everything that was rendered has been painted and observed. */
const READ = `new Promise((resolve) =>
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(window.readShifts()))))`

type Shift = [number, ...string[]]

async function shiftsOf(v: Visitor, path: string): Promise<Shift[]> {
  await v.goto(path)
  await v.page.getByRole('heading', { level: 1 }).waitFor()
  await v.page.locator('[data-loading]').first().waitFor({ state: 'detached' })
  await v.page.waitForLoadState('networkidle')
  return (await v.page.evaluate(READ)) as Shift[]
}

const sum = (shifts: Shift[]): number => shifts.reduce((all, [value]) => all + value, 0)

const SIZES = [
  { width: 1_280, height: 800 },
  { width: 390, height: 844 },
] as const

describe.skipIf(missing('chromium'))('layout shift', () => {
  let chrome: Chromium
  let content: DashboardContent
  beforeAll(async () => {
    chrome = await Chromium.launch()
    content = await makeDashboardContent()
  })
  afterAll(async () => {
    await content?.close()
    await chrome?.close()
  })

  describe.each(SIZES)('at $width px', (size) => {
    let visitor: Visitor
    beforeAll(async () => {
      visitor = await chrome.visit(content.platform.cp.url, size)
      await visitor.context.addInitScript(WATCH)
      await visitor.signIn(ADA.email, ADA.password)
    })
    afterAll(() => visitor?.close())

    test.each(PAGES)('%s', async (name) => {
      const shifts = await shiftsOf(visitor, content.pages[name])
      expect(sum(shifts), JSON.stringify(shifts)).toBeLessThan(LATE[name] ?? MOST)
    })
  })

  test('a page that moves would be found', async () => {
    const v = await chrome.visit(content.platform.cp.url)
    await v.context.addInitScript(WATCH)
    await v.goto('/login')
    await v.heading('Sign in')
    await v.page.evaluate(`{
      const block = document.createElement('div')
      block.style.height = '300px'
      document.getElementById('root').before(block)
    }`)
    expect(sum((await v.page.evaluate(READ)) as Shift[])).toBeGreaterThan(MOST)
    await v.close()
  })
})
