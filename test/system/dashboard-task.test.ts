// The deployment page in a real browser: a long log opened in its middle, output that arrives while the user reads,
// hostile output, a lost connection, and use by keyboard alone.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { ScriptedAttempt } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'

const LINES = 151_000
const BLOCK = 500
const BOX = '[aria-label^="Log of"]'
/** The rendered lines of the log: numbers and texts, in order. */
const SHOWN = `[...document.querySelectorAll('[data-n]')].map((r) => [Number(r.dataset.n), r.lastElementChild.textContent])`
const FOCUSED = `document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? ''`
const FROM_END = `(() => { const b = document.querySelector('${BOX}'); return b.scrollHeight - b.scrollTop - b.clientHeight })()`
const SELECT = `(() => {
  const rows = [...document.querySelectorAll('[data-n]')].slice(2, 5)
  getSelection().setBaseAndExtent(rows[0].lastElementChild, 0, rows[2].lastElementChild, 1)
  return getSelection().toString()
})()`

const block = (from: number): string =>
  Array.from(
    { length: BLOCK },
    (_, i) => `line ${from + i}${from + i === 77_777 ? ' needle' : ''}\n`,
  ).join('')

type Shown = [number, string][]

describe.skipIf(missing('chromium'))('the deployment page', () => {
  let chrome: Chromium
  let p: Platform
  let v: Visitor
  let environmentId: number
  /** The playing attempt; it continues until the test releases or stops it. */
  let attempt: ScriptedAttempt
  let letGo = () => {}
  beforeAll(async () => {
    chrome = await Chromium.launch()
    p = await Platform.start('sqlite', { password: PASSWORD })
    environmentId = (await p.environment('staging')).id
    v = await chrome.visit(p.cp.url)
    await v.context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await v.signIn('ada@example.com', PASSWORD)
  })
  afterAll(async () => {
    await v?.close()
    await p?.close()
    await chrome?.close()
  })
  const clipboard = () => v.page.evaluate('navigator.clipboard.readText()')
  const row = (n: number) => v.page.locator(`[data-n="${n}"]`)
  /** In the log; the running step shows its last line as well. */
  const said = (words: string) => v.page.locator(BOX).getByText(words)
  const shown = async () => (await v.page.evaluate(SHOWN)) as Shown

  /** Starts a deployment and opens its page. */
  async function play(): Promise<number> {
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    const { promise: over, resolve: end } = Promise.withResolvers<'end'>()
    letGo = () => end('end')
    p.executor.script = async (playing) => {
      attempt = playing
      playing.step('build:web', 'Build image web', 'build')
      begin()
      const how = await Promise.race([over, playing.stopAsked()])
      if (how === 'end') playing.succeed()
      else playing.cancel()
    }
    const { id } = (await p.deploy(environmentId)).body
    await begun
    await v.goto(`/tasks/${id}`)
    await v.heading(`Deployment ${id}`)
    return id
  }

  test('a long log: opened in its middle, searched, lines picked and copied', async () => {
    p.executor.script = (playing) => {
      for (let n = 1; n <= LINES; n += BLOCK) playing.say(block(n))
      playing.succeed()
    }
    const { id } = (await p.deploy(environmentId)).body
    await p.settled(id)
    await v.goto(`/tasks/${id}#L150000`)
    await row(150_000).waitFor()
    await row(150_000).getByText('line 150000').waitFor()
    await v.text('151,000 lines').waitFor()
    expect((await shown()).length).toBeLessThanOrEqual(150)
    expect(await v.page.title()).toMatch(new RegExp(`^✓ ${id} staging · shop`))

    await v.page.locator(BOX).focus()
    await v.page.keyboard.press('/')
    await v.page.keyboard.type('needle')
    await v.text('1/1').waitFor()
    await row(77_777).locator('mark', { hasText: 'needle' }).waitFor()
    await v.page.getByLabel('only matches').check()
    await until('one row', async () => (await shown()).length === 1 || undefined)
    await v.page.getByLabel('only matches').uncheck()
    await v.fill('Search in the log', '')

    await v.goto(`/tasks/${id}#L999`)
    await row(999).locator('a').click()
    await row(1_002)
      .locator('a')
      .click({ modifiers: ['Shift'] })
    await v.text('Lines 999–1002').waitFor()
    expect(v.page.url()).toMatch(/#L999-L1002$/)
    await v.button('Copy 4 lines').click()
    await v.text('4 lines copied.').waitFor()
    expect(await clipboard()).toBe('line 999\nline 1000\nline 1001\nline 1002\n')
    await v.page.locator(BOX).focus()
    await v.page.keyboard.press('End')
    await row(LINES).waitFor()
    await v.page.keyboard.press('Home')
    await row(1).waitFor()
  })

  test('follows until somebody scrolls up; what is selected stays while lines arrive', async () => {
    const id = await play()
    for (let n = 1; n <= 300; n++) attempt.say(`${n} first\n`)
    await row(300).waitFor()
    await until('the end', async () => Number(await v.page.evaluate(FROM_END)) <= 40 || undefined)
    attempt.say('\u001b[33m10 %\r20 %\r99 %\u001b[0m\n')
    await said('99 %').waitFor()
    expect(await said('10 %').count()).toBe(0)

    await v.page.locator(BOX).hover()
    await v.page.mouse.wheel(0, -1_500)
    await until('let go', async () => Number(await v.page.evaluate(FROM_END)) > 40 || undefined)
    await row(200).waitFor()
    const selected = String(await v.page.evaluate(SELECT))
    for (let n = 0; n < 50; n++) attempt.say(`${n} later\n`)
    await v.button('↓ 50 new lines').waitFor()
    expect(await v.page.evaluate('getSelection().toString()')).toBe(selected)
    expect(selected.split('\n').filter((line) => line !== '')).toHaveLength(3)
    await v.page.keyboard.press('Control+c')
    expect(String(await clipboard()).replaceAll('\r', '')).toBe(selected)
    await v.button('↓ 50 new lines').click()
    await said('49 later').waitFor()
    letGo()
    await v.text(/^Deployed in/).waitFor()
    await p.settled(id)
  })

  test('on a phone, lines wrap and the newest one is in view above the navigation', async () => {
    const id = await play()
    for (let n = 1; n <= 80; n++) attempt.say(`${n} ${'wraps '.repeat(n % 23)}end\n`)
    await row(80).waitFor()
    const phone = await chrome.visit(p.cp.url, { width: 390, height: 844, isPhone: true })
    try {
      await phone.signIn('ada@example.com', PASSWORD)
      await phone.goto(`/tasks/${id}`)
      const newest = phone.page.locator('[data-n="80"]')
      await newest.waitFor()
      await phone.page.waitForLoadState('networkidle')
      expect(Number(await phone.page.evaluate(FROM_END))).toBeLessThanOrEqual(40)
      const nav = phone.page.getByRole('navigation', { name: 'Main' })
      const [line, below] = [await newest.boundingBox(), await nav.boundingBox()]
      if (!line || !below) throw new Error('not shown')
      expect(line.y + line.height).toBeLessThanOrEqual(below.y)
      // the page is as high as the window
      const left = 'document.documentElement.scrollHeight - innerHeight'
      expect(Number(await phone.page.evaluate(left))).toBeLessThanOrEqual(0)
    } finally {
      await phone.close()
      letGo()
      await p.settled(id)
    }
  })

  test('output that means harm is text', async () => {
    const id = await play()
    attempt.say('<script>window.pwned=1</script><img src=x onerror="window.pwned=1">\n')
    attempt.say('\u001b]8;;javascript:window.pwned=1\u0007click me\u001b]8;;\u0007\n')
    attempt.say('\u001b]52;c;b3duZWQ=\u0007\u001b]0;owned\u0007\u001b[6nquiet\n')
    attempt.say('\u001b]8;;https://example.com/report\u0007report\u001b]8;;\u0007\n')
    await v.page.evaluate(`navigator.clipboard.writeText('mine')`)
    await v.link('report').waitFor()
    await said('click me').click()
    expect(await v.link('report').getAttribute('rel')).toBe('noopener noreferrer')
    expect((await shown()).map(([, text]) => text)).toEqual([
      '<script>window.pwned=1</script><img src=x onerror="window.pwned=1">',
      'click me',
      'quiet',
      'report',
    ])
    expect(await v.page.evaluate('window.pwned')).toBeUndefined()
    expect(await clipboard()).toBe('mine')
    expect(await v.page.title()).toContain(`${id} staging`)
    expect(v.complaints).toEqual([])
    letGo()
    await p.settled(id)
  })

  test('a connection that is cut loses and doubles no line', async () => {
    const id = await play()
    const expected: Shown = []
    const say = (n: number) => {
      attempt.say(`cut ${n}\n`)
      expected.push([n, `cut ${n}`])
    }
    for (let n = 1; n <= 10; n++) say(n)
    await row(10).waitFor()
    await v.context.setOffline(true)
    await v.text('Not live, reconnecting').waitFor()
    for (let n = 11; n <= 20; n++) say(n)
    attempt.say('part one, ')
    await v.context.setOffline(false)
    await row(21).waitFor()
    await v.text('Not live, reconnecting').waitFor({ state: 'detached' })
    await p.restartControlPlane()
    attempt.say('part two\n')
    expected.push([21, 'part one, part two'])
    say(22)
    await row(22).waitFor()
    expect(await shown()).toEqual(expected)
    letGo()
    await v.text(/^Deployed in/).waitFor()
    await p.settled(id)
  })

  test('the keyboard alone reaches the log and cancels', async () => {
    const id = await play()
    attempt.say('waiting\n')
    await row(1).waitFor()
    const tabTo = (name: string) =>
      until(`the focus on ${name}`, async () => {
        if (String(await v.page.evaluate(FOCUSED)).trim() === name) return true
        await v.page.keyboard.press('Tab')
        return undefined
      })
    await tabTo(`Log of Deployment ${id}`)
    await v.page.keyboard.press('Control+f')
    expect(await v.page.evaluate(FOCUSED)).toBe('Search in the log')
    await tabTo('Cancel')
    await v.page.keyboard.press('Enter')
    await v.text('Canceled by Ada.').waitFor()
    expect(await v.page.title()).toMatch(/^– /)
    expect(v.complaints).toEqual([])
    await p.settled(id)
  })
})
