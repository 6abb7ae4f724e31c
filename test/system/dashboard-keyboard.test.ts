// From the sign-in form to a rollback with the keyboard alone: no pointer, no script that moves the focus. At every stop of
// the Tab key on the way, the element with the focus shows it and is in view, not behind the header.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findings } from '../fixtures/people/axe.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Platform } from '../fixtures/platform/platform.ts'

const EMAIL = 'ada@example.com'
/** More stops than any page of the walk has. */
const STOPS = 80

interface Focus {
  /** What a person would call it. */
  name: string
  /** A heading has the focus after a change of the page: it is no stop, so it needs no ring. */
  isStop: boolean
  hasRing: boolean
  isInView: boolean
}

const FOCUS = `(() => {
  const e = document.activeElement
  const isStop = e !== document.body && e.tabIndex >= 0
  const named = e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent ?? ''
  const outlined = (one) => {
    const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(one)
    return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1 && !/, 0\\)$/.test(outlineColor)
  }
  const [line = e.getBoundingClientRect()] = e.getClientRects()
  const [left, right] = [Math.max(line.left, 0), Math.min(line.right, innerWidth)]
  const [top, bottom] = [Math.max(line.top, 0), Math.min(line.bottom, innerHeight)]
  const seen = document.elementFromPoint((left + right) / 2, (top + bottom) / 2)
  return {
    name: named.trim().replace(/\\s+/g, ' '),
    isStop,
    // a field without a border of its own: the box around it has the ring
    hasRing: outlined(e) || (e.matches('input') && outlined(e.parentElement)),
    isInView: right > left && bottom > top && (e.contains(seen) || e.labels?.[0]?.contains(seen) === true),
  }
})()`

/** A hand on the keyboard, and an eye on the focus. */
class Typist {
  readonly v: Visitor
  constructor(v: Visitor) {
    this.v = v
  }

  press = (key: string) => this.v.page.keyboard.press(key)
  type = (text: string) => this.v.page.keyboard.type(text)
  focus = async () => (await this.v.page.evaluate(FOCUS)) as Focus

  /** What is wrong with the focus as it is, and undefined if nothing is. */
  async problem(): Promise<string | undefined> {
    const { name, isStop, hasRing, isInView } = await this.focus()
    if (!isStop) return undefined
    if (!hasRing) return `${name}: no ring`
    return isInView ? undefined : `${name}: not in view`
  }

  /** Waits until the focus is inside what has just opened: it moves there a frame later. */
  async enters(role: string): Promise<void> {
    await this.v.page.locator(`[role=${role}]:focus, [role=${role}] :focus`).waitFor()
  }

  /** Presses a key until the focus has this name; every stop before it is looked at too. */
  async to(name: string | RegExp, key = 'Tab'): Promise<void> {
    const passed: string[] = []
    while (passed.length < STOPS) {
      expect(await this.problem()).toBeUndefined()
      const { name: now } = await this.focus()
      if (typeof name === 'string' ? now === name : name.test(now)) return
      passed.push(now)
      await this.press(key)
    }
    throw new Error(`${key} does not reach ${name}. It passed: ${passed.join(' · ')}`)
  }
}

describe.skipIf(missing('chromium'))('the keyboard alone', () => {
  let chrome: Chromium
  let p: Platform
  let id: number
  const tasks: number[] = []
  const [first, second, third] = ['a', 'b', 'c'].map((c) => c.repeat(40))
  beforeAll(async () => {
    chrome = await Chromium.launch()
    p = await Platform.start('sqlite', { password: PASSWORD })
    p.executor.script = (attempt) => {
      attempt.serve([{ name: 'web', port: 20_000 }, { name: 'worker' }])
      attempt.say('ready\n')
      attempt.succeed()
    }
    id = (await p.environment('staging', { title: 'Staging' })).id
    for (const commit_sha of [first, second, third]) {
      const { body } = await p.deploy(id, { commit_sha })
      await p.settled(body.id)
      tasks.push(body.id)
    }
  })
  afterAll(async () => {
    await chrome?.close()
    await p?.close()
  })
  const deployed = async () =>
    (await p.cp.call<{ commit_sha: string }>('GET', `/api/environments/${id}`)).body.commit_sha

  test('signs in, finds a deployment and rolls back', async () => {
    const v = await chrome.visit(p.cp.url)
    const hand = new Typist(v)
    await v.goto('/login')
    await v.heading('Sign in')
    await hand.to('E-mail')
    await hand.type(EMAIL)
    await hand.to('Password')
    await hand.type(PASSWORD)
    await hand.to('Sign in')
    await hand.press('Enter')
    await v.heading('Projects')

    await hand.to('Skip to content')
    await hand.press('Enter')
    await hand.to('shop')
    await hand.press('Enter')
    await v.heading('shop')

    await v.link('staging').waitFor()
    await hand.to('staging')
    await hand.press('Enter')
    await v.heading(/^staging/)

    // a menu: opened, walked, left; the focus is back at its button
    await v.button('Roll back').waitFor()
    await hand.to('More actions for staging')
    await hand.press('ArrowDown')
    await hand.enters('menu')
    await hand.to('Stop staging', 'ArrowDown')
    await hand.press('Escape')
    await v.page.getByRole('menu').waitFor({ state: 'detached' })
    expect((await hand.focus()).name).toBe('More actions for staging')

    await hand.to(new RegExp(`^Deployment ${tasks[0]} succeeded`))
    await hand.press('Enter')
    await v.heading(new RegExp(`${tasks[0]}`))
    expect(await deployed()).toBe(third)

    await v.button('Roll back to aaaaaaa').waitFor()
    await hand.to('Roll back to aaaaaaa')
    await hand.press('Space')
    const dialog = v.page.getByRole('dialog', { name: 'Roll back staging' })
    await dialog.getByRole('radio').first().waitFor()
    // left once: nothing happens, and the focus is where it was
    await hand.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect((await hand.focus()).name).toBe('Roll back to aaaaaaa')
    expect(await deployed()).toBe(third)

    await hand.press('Enter')
    await dialog.getByRole('radio').first().waitFor()
    await hand.enters('dialog')
    await hand.to(/^aaaaaaa/)
    await hand.to(/^bbbbbbb/, 'ArrowUp')
    expect(await dialog.getByRole('radio', { name: /^bbbbbbb/ }).isChecked()).toBe(true)
    await hand.to('Roll back')
    await hand.press('Enter')
    await v.page.waitForURL(
      (url) => /^\/tasks\/\d+$/.test(url.pathname) && !url.pathname.endsWith(`/${tasks[0]}`),
    )
    await v.text('Rollback started.').waitFor()
    await expect.poll(async () => (await hand.focus()).name).toMatch(/^Deployment \d+$/)
    // F6 goes to the notice, which waits as long as it has the focus
    await hand.press('F6')
    await hand.to(/Rollback started\./)
    // after F6 the list has ends that are hidden from readers and pass the focus on as soon as they have it; the library
    // has no option for them, and axe-core accepts such an element only with a handler in its own property `onfocus`
    expect(await findings(v.page, '[data-base-ui-focus-guard]')).toEqual([])
    await hand.to('Dismiss')
    await hand.press('Enter')
    await v.text('Rollback started.').waitFor({ state: 'detached' })
    const asked = await p.settled(Number(/\d+$/.exec(new URL(v.page.url()).pathname)?.[0]))
    expect(asked).toMatchObject({ commit_sha: second, status: 'succeeded' })
    expect(await deployed()).toBe(second)

    expect(v.complaints).toEqual([])
    await v.close()
  })

  test('a stop without a ring, and one behind something else, would be found', async () => {
    const v = await chrome.visit(p.cp.url)
    const hand = new Typist(v)
    await v.goto('/login')
    await v.heading('Sign in')
    await hand.to('Sign in')
    await v.page.evaluate(`{
      const cover = document.createElement('div')
      cover.style.cssText = 'position: fixed; inset: 0; z-index: 99'
      document.body.append(cover)
    }`)
    expect(await hand.problem()).toBe('Sign in: not in view')
    await v.page.evaluate(`document.activeElement.style.outline = 'none'`)
    expect(await hand.problem()).toBe('Sign in: no ring')
    await v.close()
  })
})
