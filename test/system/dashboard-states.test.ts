// The other states of every page in a real browser, all inside the frame: loading, an error with a way to try again, no
// connection, no access. And words that are only true sometimes: removed.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import {
  ADA,
  type DashboardContent,
  makeDashboardContent,
  PAGES,
} from '../fixtures/people/dashboard-content.ts'
import { PASSWORD, person } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { until } from '../fixtures/server/installation.ts'

const NOT_FOUND = 'Not found, or you don’t have access'
/** Everything but who is signed in. */
const QUERIES = /\/trpc\/(?!me(\?|$)|session)/
const REQUEST = 'req_test'
/** Its style sheet arrived. */
const LOOK = `getComputedStyle(document.querySelector('[role=dialog]')).borderRadius`
/** Pages that show a form or a sentence without asking anything. */
const ASK_NOTHING = ['device']

/** A fault of the control plane, once for each question of a batch. */
const fault = (url: string, status = 500, message = 'Something went wrong.') => {
  const names = new URL(url).pathname.replace('/trpc/', '').split(',')
  const data = { code: 'internal_error', status, request_id: REQUEST }
  const one = { error: { message, code: -32603, data } }
  const isBatch = new URL(url).searchParams.has('batch')
  return { status, json: isBatch ? names.map(() => one) : one }
}

describe.skipIf(missing('chromium'))('states of the pages', () => {
  let chrome: Chromium
  let content: DashboardContent
  let v: Visitor
  beforeAll(async () => {
    chrome = await Chromium.launch()
    content = await makeDashboardContent()
    v = await chrome.visit(content.platform.cp.url)
    await v.signIn(ADA.email, ADA.password)
  })
  afterEach(async () => {
    await v.page.unrouteAll({ behavior: 'ignoreErrors' })
    expect(v.complaints.splice(0)).toEqual([])
  })
  afterAll(async () => {
    await v?.close()
    await content?.close()
    await chrome?.close()
  })
  const main = (w = v) => w.page.locator('main')
  const frame = (w = v) => w.page.getByRole('navigation', { name: 'Main' })

  test.each(PAGES.filter((name) => !ASK_NOTHING.includes(name)))(
    'loading and an error are inside the frame: %s',
    async (name) => {
      await v.page.route(QUERIES, () => {}) // no answer
      await v.goto(content.pages[name])
      await main().locator('[data-loading]').first().waitFor()
      await main().getByText('Loading…').first().waitFor()
      await frame().waitFor()
      expect(await v.page.getByRole('alert').count()).toBe(0)

      await v.page.unrouteAll({ behavior: 'ignoreErrors' })
      await v.page.route(QUERIES, (route) => route.fulfill(fault(route.request().url())))
      await v.goto(content.pages[name])
      const alert = main().getByRole('alert').filter({ hasText: 'could not be loaded' })
      await alert.first().waitFor()
      expect(await alert.first().textContent()).toContain(`(${REQUEST})`)
      await frame().waitFor()
      expect(await main().locator('[data-loading]').count()).toBe(0)
    },
  )

  test('an error goes when the page is asked to try again', async () => {
    await v.page.route(QUERIES, (route) => route.fulfill(fault(route.request().url())))
    await v.goto('/servers')
    await v.text(/^Servers could not be loaded/).waitFor()
    await v.page.unrouteAll({ behavior: 'ignoreErrors' })
    await v.button('Try again').click()
    await v.page.getByRole('table', { name: 'Servers' }).waitFor()
    expect(await main().getByRole('alert').count()).toBe(0)
  })

  test('without a connection the frame stays, and the page comes with the connection', async () => {
    const w = await chrome.visit(content.platform.cp.url) // has nothing of the other pages in its cache
    await w.signIn(ADA.email, ADA.password)
    await w.page.evaluate('window.isSame = true')
    await w.context.setOffline(true)
    await frame(w).getByRole('link', { name: 'Servers' }).click()
    const alert = main(w).getByRole('alert')
    await alert.getByText('The page could not be loaded.').waitFor()
    await alert.getByText(/Check your connection/).waitFor()
    await w.text('Not live, reconnecting').waitFor()
    await frame(w).waitFor()
    await w.button('Try again').click()
    await alert.waitFor()
    await w.context.setOffline(false)
    await w.page.getByRole('table', { name: 'Servers' }).waitFor()

    // a page that is here without its data, and a dialog that is not here
    await w.context.setOffline(true)
    await w.button('Add server').click()
    await main(w).getByText('This could not be loaded. Check your connection.').waitFor()
    await w.context.setOffline(false)
    const dialog = w.page.getByRole('dialog', { name: 'Add a server' })
    await dialog.waitFor()
    expect(await w.page.evaluate(LOOK)).not.toBe('0px')
    await w.page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await w.link('fra-1').click()
    await w.heading('fra-1')
    await w.page.goBack()
    await w.heading('Servers')
    await w.context.setOffline(true)
    await w.link('ams-2').click()
    await alert
      .getByText(/could not be loaded/)
      .first()
      .waitFor()
    await frame(w).waitFor()
    await w.context.setOffline(false)
    await w.heading('ams-2')
    expect(await w.page.evaluate('window.isSame')).toBe(true)
    expect(w.complaints).toEqual([])
    await w.close()
  })

  test('an unknown address below /api is a page as well', async () => {
    for (const path of ['/api/nowhere', '/trpc2', '/assets/none.js']) {
      const answer = await v.page.goto(v.url + path)
      expect([answer?.status(), answer?.headers()['content-type']]).toEqual([
        404,
        'text/html; charset=utf-8',
      ])
      await v.heading(NOT_FOUND)
    }
  })

  test('empty pages say what comes next', async () => {
    const { cp } = content.platform
    const empty = await cp.project('empty', content.platform.serverId)
    await v.goto(`/projects/${empty.id}`)
    await v.text('No environments yet').waitFor()
    await v.goto(`/projects/${empty.id}/deployments`)
    await main().getByText('Nothing deployed yet').waitFor()
    await v.goto(`/projects/${empty.id}/variables`)
    await main().getByText('No variables yet.').first().waitFor()
    expect(await main().getByText('No variables yet.').count()).toBe(3)
    await frame().waitFor()
  })

  test('what a person may not see is one page inside the frame, with a way on', async () => {
    const { cp } = content.platform
    const other = await cp.make<{ id: number }>('/api/organizations', { name: 'Elsewhere' })
    const stranger = await person(cp, 'Niklaus', 'owner', other.id)
    const viewer = await person(cp, 'Barbara', 'viewer')
    const x = await chrome.visit(cp.url)
    await x.signIn(stranger.email, PASSWORD)
    const { pages } = content
    for (const path of [pages.project, pages.environment, pages.task, pages.server]) {
      await x.goto(path)
      await x.heading(NOT_FOUND)
      await frame(x).waitFor()
    }
    await x.link('All projects').click()
    await x.heading('Projects')
    expect(x.complaints).toEqual([])
    await x.close()

    const w = await chrome.visit(cp.url)
    await w.signIn(viewer.email, PASSWORD)
    await w.goto('/admin')
    await main(w).getByText('Only platform administrators see this page').waitFor()
    await frame(w).waitFor()
    const why = 'Your role does not show you servers.'
    await w.page.route(/\/trpc\/.*server\.list/, (route) =>
      route.fulfill(fault(route.request().url(), 403, why)),
    )
    await w.goto('/servers')
    await w.heading('Servers')
    await main(w).getByText("Not found, or you don't have access").waitFor()
    await main(w).getByText(why).waitFor()
    expect(await w.button('Try again').count()).toBe(0)
    await w.page.unrouteAll({ behavior: 'ignoreErrors' })
    await frame(w).waitFor()
    // a viewer reads, and can press nothing that would be refused
    await w.goto(content.pages['environment-failed'])
    await w.text('Last failure').first().waitFor()
    expect(await w.button('Deploy').getAttribute('aria-disabled')).toBe('true')
    await w.goto('/servers')
    await w.page.getByRole('table', { name: 'Servers' }).waitFor()
    expect(await w.button('Add server').count()).toBe(0)
    expect(w.complaints).toEqual([])
    await w.close()
  })

  test('no headline has an escape sequence, wherever the failure is told', async () => {
    const { platform } = content
    const made = await platform.cp.environment(platform.projectId, 'escapes')
    platform.executor.hasPlans = false
    platform.executor.script = (attempt) => {
      attempt.say('\u001b[31merror\u001b[0m: cart.ts is broken\n')
      attempt.fail('\u001b[1m`npm run build` \u001b[31mexited\u001b[0m with 2.', 2)
    }
    const { body } = await platform.deploy(made.id)
    await platform.settled(body.id)
    const pages = [`/tasks/${body.id}`, `/environments/${made.id}`]
    for (const path of [...pages, `/environments/${made.id}/deployments`, '/']) {
      await v.goto(path)
      await v.page.getByRole('heading', { level: 1 }).waitFor()
      await v.page.locator('[data-loading]').first().waitFor({ state: 'detached' })
      if (pages.includes(path))
        await v
          .text(/npm run build exited with 2\./)
          .first()
          .waitFor()
      const said = String(await v.page.evaluate('document.title + document.body.innerText'))
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(said, path).not.toMatch(/\u001b|\[\d+m/)
    }
  })

  test('"removed" is said of a removed environment, and of no other', async () => {
    const { platform } = content
    const { cp } = platform
    const made = await cp.environment(platform.projectId, 'leaving')
    platform.executor.script = (attempt) => attempt.succeed()
    const { id } = (await platform.deploy(made.id)).body
    await platform.settled(id)
    // it cannot be read for a moment, but it exists
    await v.page.route(/\/trpc\/.*environment\.get/, (route) =>
      route.fulfill(fault(route.request().url())),
    )
    await v.goto(`/tasks/${id}`)
    await v.heading(`Deployment ${id}`)
    await v.page.locator('header').getByText('Environment', { exact: false }).first().waitFor()
    expect(await v.text('Environment removed').count()).toBe(0)
    await v.page.unrouteAll({ behavior: 'ignoreErrors' })

    const removal = await cp.call<{ id: number }>('DELETE', `/api/environments/${made.id}`)
    expect(removal.status, removal.text).toBe(202)
    await platform.settled(removal.body.id)
    await until('the end of the removal', async () => {
      const answer = await cp.call('GET', `/api/environments/${made.id}`)
      return answer.status === 404 || undefined
    })
    await v.text('Environment removed').waitFor() // without a reload
    await v.goto(`/environments/${made.id}`)
    await v.heading(NOT_FOUND)
  })
})
