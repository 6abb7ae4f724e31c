// The layout of the deployment page, measured in a real browser: the newest line and the error line are in the window,
// nothing moves when phases arrive or wrapping is switched, search shows its match, versions can be chosen by keyboard
// and by thumb.
import { FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { findings } from '../fixtures/people/axe.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import type { Script, ScriptedAttempt } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'

const BOX = '[aria-label^="Log of"]'
const SIZES = [
  [1_280, 800],
  [1_280, 650],
] as const

/** The first row that is wholly inside the log, and how far its top is from the log's top. */
const FIRST_ROW = `(() => {
  const top = document.querySelector('${BOX}').getBoundingClientRect().top
  for (const row of document.querySelectorAll('[data-n]')) {
    const at = row.getBoundingClientRect().top - top
    if (at >= -1) return { n: Number(row.dataset.n), at }
  }
})()`
const EMPTY_ROWS = `[...document.querySelectorAll('[data-n]')].filter((r) => r.lastElementChild.textContent.trim() === '').length`

interface Box {
  x: number
  y: number
  width: number
  height: number
}

describe.skipIf(missing('chromium'))('the layout of the deployment page', () => {
  let chrome: Chromium
  let fixture: RepositoryFixture
  let v: Visitor
  let environmentId: number
  let attempt: ScriptedAttempt
  let letGo = () => {}
  beforeAll(async () => {
    chrome = await Chromium.launch()
    fixture = await RepositoryFixture.start('sqlite', 'gitea', PASSWORD)
    // a reconcile round must not deploy in the middle of a test
    environmentId = (await fixture.environment('main', { auto_deploy: false })).id
    v = await chrome.visit(fixture.cp.url)
    await v.context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await v.signIn('ada@example.com', PASSWORD)
  })
  afterAll(async () => {
    await v?.close()
    await fixture?.close()
    await chrome?.close()
  })

  const row = (n: number) => v.page.locator(`[data-n="${n}"]`)
  const boxOf = async (of: ReturnType<typeof row>): Promise<Box> => {
    const box = await of.boundingBox()
    if (!box) throw new Error('it is not on the page')
    return box
  }
  /** Wholly inside the log, and inside the window. */
  async function isSeen(n: number): Promise<boolean> {
    if ((await row(n).count()) === 0) return false
    const [line, log] = [await boxOf(row(n)), await boxOf(v.page.locator(BOX))]
    const bottom = Math.min(log.y + log.height, v.page.viewportSize()?.height ?? 0)
    return line.y >= log.y - 1 && line.y + line.height <= bottom + 1
  }
  const seen = (n: number) => until(`line ${n} in view`, async () => (await isSeen(n)) || undefined)
  /** How far the log ends above the bottom of the window. */
  async function below(): Promise<number> {
    const { y, height } = await boxOf(v.page.locator(BOX))
    return (v.page.viewportSize()?.height ?? 0) - (y + height)
  }

  async function play(script: Script): Promise<number> {
    fixture.platform.executor.script = script
    const { id } = (await fixture.platform.deploy(environmentId)).body
    await fixture.platform.settled(id)
    return id
  }

  /** Starts a deployment that goes on until it is let go. */
  async function begin(): Promise<number> {
    const { promise: begun, resolve: started } = Promise.withResolvers<void>()
    const { promise: over, resolve: end } = Promise.withResolvers<'end'>()
    letGo = () => end('end')
    fixture.platform.executor.hasPlans = true
    fixture.platform.executor.script = async (playing) => {
      attempt = playing
      started()
      const how = await Promise.race([over, playing.stopAsked()])
      if (how === 'end') playing.succeed()
      else playing.cancel()
    }
    const { id } = (await fixture.platform.deploy(environmentId)).body
    await begun
    fixture.platform.executor.hasPlans = false
    return id
  }

  const lines = (from: number, to: number, text = 'line'): string =>
    Array.from({ length: to - from + 1 }, (_, i) => `${text} ${from + i}\n`).join('')

  /** In pieces, because a record of the log has a bound. */
  const write = (a: ScriptedAttempt, text: string): void => {
    const all = text.split(/(?<=\n)/)
    for (let i = 0; i < all.length; i += 20) a.say(all.slice(i, i + 20).join(''))
  }

  const fail: Script = (a) => {
    a.checkedOut('a'.repeat(40))
    a.step('build:web', 'Build web', 'build')
    a.say(lines(1, 400))
    a.say('src/cart.ts(14,7): \u001b[31merror\u001b[0m TS2322: not a number\n')
    a.say(lines(402, 600))
    for (const code of ['one', 'two', 'three']) {
      a.emit({ case: 'warning', value: { code, message: `warning ${code}`, stepId: '' } })
    }
    a.fail('\u001b[1m`npm run build` exited with 2.\u001b[0m', 2, FailureCode.STEP_FAILED)
  }

  test.each(SIZES)(
    'at %i×%i the newest line and the error line are in view',
    async (width, height) => {
      await v.page.setViewportSize({ width, height })
      const running = await begin()
      await v.goto(`/tasks/${running}`)
      await v.heading(`Deployment ${running}`)
      attempt.step('build:web', 'Build web', 'build')
      attempt.say(lines(1, 500))
      await seen(500)
      expect(await below()).toBeGreaterThanOrEqual(0)
      expect(await below()).toBeLessThanOrEqual(16)
      attempt.say(lines(501, 520))
      await seen(520)
      letGo()
      await v.text(/^Deployed in/).waitFor()
      await fixture.platform.settled(running)

      const id = await play(fail)
      await v.goto(`/tasks/${id}`)
      await seen(401)
      expect(await below()).toBeLessThanOrEqual(16)
      await v.page.locator(BOX).focus()
      await v.page.keyboard.press('Home')
      await seen(1)
      await v.button('Jump to error').click()
      await seen(401)
      expect(v.page.url()).toMatch(/#L401$/)
      // the page itself does not scroll, so nothing of it is out of the window
      expect(await v.page.evaluate('document.documentElement.scrollHeight - innerHeight')).toBe(0)
      const headline = await v.page
        .getByText(/npm run build exited with 2\./)
        .first()
        .textContent()
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(headline).not.toMatch(/\u001b|\[1m/)
    },
  )

  test('wrapping keeps the first line in view, switched on and off', async () => {
    await v.page.setViewportSize({ width: 1_280, height: 800 })
    const long = (n: number) => `${n} ${n % 3 === 0 ? 'long words '.repeat(60) : 'short'}\n`
    const id = await play((a) => {
      write(a, Array.from({ length: 2_000 }, (_, i) => long(i + 1)).join(''))
      a.succeed()
    })
    await v.goto(`/tasks/${id}#L1200`)
    await seen(1_200)
    const first = async () => (await v.page.evaluate(FIRST_ROW)) as { n: number; at: number }
    const before = await first()
    for (const is of [true, false, true, false]) {
      await v.page.getByLabel('Wrap').setChecked(is)
      await until(`wrapping ${is} with the same first line`, async () => {
        const tall = (await row(before.n).count()) > 0 ? await boxOf(row(before.n)) : undefined
        const next = await first()
        const isLong = before.n % 3 === 0
        if (is && isLong && (tall?.height ?? 0) <= 20) return undefined
        return next?.n === before.n && next.at < 20 ? true : undefined
      })
    }
    // a reader in the middle of a wrapped log stays there as well
    await v.page.getByLabel('Wrap').check()
    await v.page.locator(BOX).hover()
    await v.page.mouse.wheel(0, 3_000)
    let last = before.n
    const there = await until('another line, at rest', async () => {
      const { n } = await first()
      const isStill = n === last && n !== before.n
      last = n
      return isStill ? n : undefined
    })
    await v.page.getByLabel('Wrap').uncheck()
    await until('the same line', async () => ((await first()).n === there ? true : undefined))
  })

  test('only matches have their text at once, also in ranges that are not loaded', async () => {
    const id = await play((a) => {
      for (let n = 1; n <= 40_000; n += 500)
        a.say(lines(n, n + 499).replace(/line (\d+000)\n/, 'needle $1\n'))
      a.succeed()
    })
    await v.goto(`/tasks/${id}`)
    await row(1).waitFor()
    // ranges never arrive: the search itself has to bring the text
    const RANGES = /\/trpc\/task\.log(,task\.log)*\?/
    await v.page.route(RANGES, () => {})
    await v.fill('Search in the log', 'needle')
    await v.page.getByLabel('Only matches').check()
    await row(40_000).getByText('needle 40000').waitFor()
    expect(await v.page.evaluate(EMPTY_ROWS)).toBe(0)
    expect(await v.page.locator('[data-n]').count()).toBe(40)
    await v.page.unroute(RANGES)
    await v.page.getByLabel('Only matches').uncheck()
  })

  test('a search goes to its first match and marks it; an address brings the search along', async () => {
    const id = await play((a) => {
      write(a, lines(1, 3_000).replaceAll(/line (\d*7{3})\n/g, 'needle $1\n'))
      a.succeed()
    })
    await v.goto(`/tasks/${id}`)
    await row(1).waitFor()
    await v.page.locator(BOX).focus()
    await v.page.keyboard.press('/')
    await v.page.keyboard.type('needle')
    await v.text('1/3').waitFor()
    await seen(777)
    await row(777).locator('mark', { hasText: 'needle' }).waitFor()
    await v.page.keyboard.press('Enter')
    await v.text('2/3').waitFor()
    await seen(1_777)
    await row(1_777).locator('a').click()
    await row(1_780)
      .locator('a')
      .click({ modifiers: ['Shift'] })
    await v.button('Share').click()
    await v.text('Link copied.').waitFor()
    const link = String(await v.page.evaluate('navigator.clipboard.readText()'))
    expect(link).toMatch(new RegExp(`/tasks/${id}\\?q=needle#L1777-L1780$`))
    await v.page.goto('about:blank')
    await v.page.goto(link)
    await seen(1_777)
    await v.text('3 found').waitFor()
    expect(await v.page.getByLabel('Search in the log').inputValue()).toBe('needle')
  })

  test('nothing jumps when the first phase arrives, and a running step shows its last line', async () => {
    const id = await begin()
    await v.goto(`/tasks/${id}`)
    await v.heading(`Deployment ${id}`)
    const panel = v.page.locator('details', { hasText: 'Phases' }).first()
    await v.page.getByLabel('Phases are not known yet').waitFor()
    const log = v.page.getByText('No output yet.')
    await log.waitFor()
    const viewer = v.page.locator('main search').locator('xpath=../..')
    const [before, panelBefore] = [await boxOf(viewer), await boxOf(panel)]
    attempt.plan([
      { name: 'checkout', title: 'Check out', steps: [{ stepId: 'fetch', title: 'Fetch' }] },
      { name: 'build', title: 'Build', steps: [{ stepId: 'build:web', title: 'Build web' }] },
    ])
    attempt.step('fetch', '')
    attempt.say('\u001b[32mHEAD is now at c136499\u001b[0m\n')
    await v.page.getByText('Check out', { exact: true }).waitFor()
    await v.page.locator('[data-last-line]', { hasText: 'HEAD is now at c136499' }).waitFor()
    expect(await boxOf(viewer)).toEqual(before)
    const { x, y, width } = await boxOf(panel)
    expect({ x, y, width }).toEqual({
      x: panelBefore.x,
      y: panelBefore.y,
      width: panelBefore.width,
    })
    attempt.step('build:web', '')
    attempt.say('compiling 1\ncompiling 2\n')
    await v.page.locator('[data-last-line]', { hasText: 'compiling 2' }).waitFor()
    expect(await v.page.locator('[data-last-line]').count()).toBe(1)
    await v.button('Cancel').click()
    await v.text('Canceled by Ada.').waitFor()
    await fixture.platform.settled(id)
  })

  test('compares with the last success, and deploys a chosen commit of a chosen branch', async () => {
    const base = fixture.head()
    const good = (sha: string): Script => {
      return (a) => {
        a.checkedOut(sha)
        a.serve([{ name: 'web', image: `shop:${sha.slice(0, 7)}` }])
        a.succeed()
      }
    }
    await play(good(base))
    const next = fixture.repository.commit({ 'src/cart.ts': 'x\n' }, 'Change the cart')
    const id = await play(good(next))
    await v.goto(`/tasks/${id}`)
    await v.text('src/cart.ts').waitFor()
    await v.text('by Grace Hopper').waitFor()
    const feature = fixture.push('feature', 'Try the feature')
    fixture.platform.executor.script = (a) => {
      a.checkedOut(a.assignment.spec?.repository?.commitSha ?? '')
      a.succeed()
    }
    await v.button('Redeploy').click()
    const dialog = v.page.getByRole('dialog', { name: 'Deploy to main' })
    await dialog.getByLabel('Another commit').check()
    await dialog.getByLabel('Branch').selectOption('feature')
    await dialog.getByRole('radio', { name: /Try the feature/ }).check()
    await dialog.getByRole('button', { name: 'Deploy' }).click()
    await v.text('Deployment started.').waitFor()
    const redeployed = Number(/\/tasks\/(\d+)/.exec(v.page.url())?.[1])
    expect(redeployed).not.toBe(id)
    expect((await fixture.platform.settled(redeployed)).commit_sha).toBe(feature)

    await v.goto(`/tasks/${redeployed}`)
    await v.button('Roll back').click()
    const back = v.page.getByRole('dialog', { name: 'Roll back main' })
    await back.getByRole('radio', { name: new RegExp(base.slice(0, 7)) }).check()
    await back.getByRole('button', { name: 'Roll back' }).click()
    await v.text('Rollback started.').waitFor()
    const backTo = Number(/\/tasks\/(\d+)/.exec(v.page.url())?.[1])
    const rolled = await fixture.platform.settled(backTo)
    expect(rolled).toMatchObject({ commit_sha: base, status: 'succeeded' })
    expect(rolled.message).toMatch(/^Rollback to deployment \d+$/)
    // the page of an earlier version offers to go back to it
    await v.goto(`/tasks/${redeployed}`)
    await v.button(`Roll back to ${feature.slice(0, 7)}`).waitFor()
    expect(v.complaints).toEqual([])
  })

  test('on a phone: phases fold above the log, actions are in one row, the error is in view', async () => {
    const id = await play(fail)
    const phone = await chrome.visit(fixture.cp.url, { width: 390, height: 844 })
    const desk = v
    try {
      await phone.signIn('ada@example.com', PASSWORD)
      v = phone
      await v.goto(`/tasks/${id}`)
      await v.button('Jump to error').click()
      await seen(401)
      const over = 'Math.max(0, document.documentElement.scrollWidth - innerWidth)'
      expect(Number(await v.page.evaluate(over))).toBeLessThanOrEqual(0)
      const tops = await Promise.all(
        [v.button('Redeploy'), v.button('Share'), v.button('More actions')].map(
          async (b) => (await b.boundingBox())?.y,
        ),
      )
      expect(new Set(tops).size).toBe(1)
      const phases = await boxOf(v.page.locator('details', { hasText: 'Phases' }).first())
      expect(phases.height).toBeLessThan(64)
      expect(phases.y).toBeLessThan((await boxOf(v.page.locator(BOX))).y)
      // a row of a list has two lines
      await v.goto(`/environments/${environmentId}/deployments`)
      const link = v.link(`Deployment ${id}`)
      await link.waitFor()
      const tr = await boxOf(v.page.locator('tr', { has: link }))
      expect(tr.height).toBeLessThan(80)
    } finally {
      v = desk
      await phone.close()
    }
  })

  test('no finding of axe-core in either theme, with a dialog open as well', async () => {
    const id = await play(fail)
    for (const colorScheme of ['light', 'dark'] as const) {
      await v.page.emulateMedia({ colorScheme })
      await v.goto(`/tasks/${id}#L401`)
      await seen(401)
      expect(await findings(v.page)).toEqual([])
      await v.button('Redeploy').click()
      await v.page.getByRole('dialog').getByLabel('Another commit').check()
      await v.page
        .getByRole('dialog')
        .getByRole('radio', { name: /Change the cart/ })
        .waitFor()
      expect(await findings(v.page)).toEqual([])
      await v.page.keyboard.press('Escape')
    }
    await v.page.emulateMedia({ colorScheme: 'light' })
    expect(v.complaints).toEqual([])
  })
})
