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
/** Every answer takes this long, and nothing is cached: what arrives later is seen later. */
const LATENCY_MS = 160

/** What arrives last on a page, where that is neither announced by a skeleton nor an answer over HTTP. */
const LAST: Partial<Record<PageName, string>> = {
  environment: 'canvas',
  'environment-logs': '[role=listitem]',
  task: '[role=listitem]',
  'task-failed': '[role=listitem]',
  'task-succeeded': '[role=listitem]',
}

/** Adds up shifts from the start of each document; those right after an input are the answer to it. */
const WATCH = `
  window.shifts = []
  const take = (entries) => {
    for (const entry of entries) {
      if (!entry.hadRecentInput) window.shifts.push([entry.value, ...entry.sources.map((s) => (s.node?.className ?? s.node?.nodeName) + ' ' + s.previousRect.y + '>' + s.currentRect.y)])
    }
  }
  window.shiftObserver = new PerformanceObserver((list) => take(list.getEntries()))
  window.shiftObserver.observe({ type: 'layout-shift', buffered: true })
  window.readShifts = () => { take(window.shiftObserver.takeRecords()); return window.shifts }
`
/** Two frames later everything that was rendered has been painted and observed. */
const READ = `new Promise((resolve) =>
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(window.readShifts()))))`

/** Moves the page when its charts are drawn, whose script is the last to arrive. */
const PUSH = `
  new MutationObserver((_, watch) => {
    if (!document.querySelector('canvas')) return
    watch.disconnect()
    const block = document.createElement('div')
    block.style.height = '300px'
    document.getElementById('root').before(block)
  }).observe(document, { childList: true, subtree: true })
`

type Shift = [number, ...string[]]

async function shiftsOf(v: Visitor, path: string, last = 'h1'): Promise<Shift[]> {
  await v.goto(path)
  await v.page.getByRole('heading', { level: 1 }).waitFor()
  await v.page.locator(last).first().waitFor()
  // half a second without a request, which is longer than an answer can lead to the next request
  await v.page.waitForLoadState('networkidle')
  await v.page.locator('[data-loading]').first().waitFor({ state: 'detached' })
  return (await v.page.evaluate(READ)) as Shift[]
}

/** A connection with a delay, and no cache, as on a first visit. */
async function slowDown(v: Visitor): Promise<void> {
  const wire = await v.context.newCDPSession(v.page)
  const conditions = { latency: LATENCY_MS, downloadThroughput: -1, uploadThroughput: -1 }
  await wire.send('Network.enable')
  await wire.send('Network.setCacheDisabled', { cacheDisabled: true })
  await wire.send('Network.emulateNetworkConditions', { offline: false, ...conditions })
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
      await slowDown(visitor)
    })
    afterAll(() => visitor?.close())

    test.each(PAGES)('%s', async (name) => {
      const shifts = await shiftsOf(visitor, content.pages[name], LAST[name])
      expect(sum(shifts), JSON.stringify(shifts)).toBeLessThan(MOST)
    })
  })

  test('a page that moves with the last thing that arrives would be found', async () => {
    const v = await chrome.visit(content.platform.cp.url)
    await v.context.addInitScript(WATCH)
    await v.context.addInitScript(PUSH)
    await v.signIn(ADA.email, ADA.password)
    await slowDown(v)
    const shifts = await shiftsOf(v, content.pages.environment)
    expect(sum(shifts), JSON.stringify(shifts)).toBeGreaterThan(MOST)
    await v.close()
  })
})
