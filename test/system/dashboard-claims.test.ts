// What every page of the dashboard has in common, in a real browser: one primary action, weights of the type scale; and
// the places of what other parts of Berth have: schedules, backups, registries, notifications, metrics, variables by
// level. Addresses of a deployment lead to its phase.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import {
  ADA,
  type DashboardContent,
  makeDashboardContent,
  PAGES,
} from '../fixtures/people/dashboard-content.ts'
import { missing } from '../fixtures/platform/components.ts'

/** The texts of the primary actions in view. */
const PRIMARY = `[...document.querySelectorAll('[class*="_main_"]')]
  .filter((e) => e.matches('a, button') && e.checkVisibility()).map((e) => e.textContent.trim())`
/** Weights of text that are not in the scale, with an example each. */
const WEIGHTS = `[...new Set([...document.querySelectorAll('body *')]
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim() !== ''))
  .filter((e) => !['400', '500', '600'].includes(getComputedStyle(e).fontWeight))
  .map((e) => getComputedStyle(e).fontWeight + ' ' + e.textContent.slice(0, 40)))]`

describe.skipIf(missing('chromium'))('what the pages have in common', () => {
  let chrome: Chromium
  let content: DashboardContent
  let v: Visitor
  beforeAll(async () => {
    chrome = await Chromium.launch()
    content = await makeDashboardContent()
    v = await chrome.visit(content.platform.cp.url)
    await v.signIn(ADA.email, ADA.password)
  })
  afterEach(() => expect(v.complaints.splice(0)).toEqual([]))
  afterAll(async () => {
    await v?.close()
    await content?.close()
    await chrome?.close()
  })
  const project = (part = '') => `/projects/${content.host.projectId}${part}`
  const settled = async () => {
    await v.page.getByRole('heading', { level: 1 }).waitFor()
    await v.page.locator('[data-loading]').first().waitFor({ state: 'detached' })
  }
  const PARTS = [
    '',
    '/domains',
    '/access',
    '/limits',
    '/repository',
    '/pull-requests',
    '/registries',
    '/usage',
    '/schedules',
    '/backups',
    '/notifications',
    '/delete',
  ]

  test.each(PAGES)('at most one primary action, and three weights: %s', async (name) => {
    await v.goto(content.pages[name])
    await settled()
    const actions = (await v.page.evaluate(PRIMARY)) as string[]
    expect(actions.length, actions.join(', ')).toBeLessThanOrEqual(1)
    expect(await v.page.evaluate(WEIGHTS)).toEqual([])
  })

  test.each(PARTS)('settings have a side navigation and one "Save changes": %s', async (part) => {
    await v.goto(project(`/settings${part}`))
    await settled()
    const nav = v.page.getByRole('navigation', { name: /^Settings of/ })
    expect(await nav.getByRole('link').count()).toBe(PARTS.length)
    expect(await v.button('Save changes').count()).toBeLessThanOrEqual(1)
    const actions = (await v.page.evaluate(PRIMARY)) as string[]
    expect(actions.length, actions.join(', ')).toBeLessThanOrEqual(1)
  })

  test('schedules, backups, registries, notifications and metrics have their place', async () => {
    await v.goto(project('/settings'))
    const part = (name: string) =>
      v.page
        .getByRole('navigation', { name: /^Settings of/ })
        .getByRole('link', { name })
        .click()
    await part('Schedules')
    await v.page.getByRole('table', { name: 'Schedules' }).getByText('0 3 1 1 *').first().waitFor()
    await part('Backups')
    await v.page.getByRole('table', { name: 'Backups' }).getByText('staging').waitFor()
    await part('Notifications')
    await v.text('Team chat').waitFor()
    await part('Usage')
    // figures come with the first report of the agent, which may take a minute
    await v.page.getByRole('table', { name: 'Usage' }).getByText('staging').first().waitFor()
    await part('Image registries')
    const form = v.page.getByRole('form', { name: 'Credentials of a registry' })
    await form.getByLabel('Registry', { exact: true }).fill('ghcr.io')
    await form.getByLabel('User name').fill('acme-bot')
    await form.getByLabel('Password or token').fill('canary-registry')
    await form.getByRole('button', { name: 'Save credentials' }).click()
    await v.page.getByRole('table').getByText('ghcr.io').waitFor()
    await v.page.reload()
    await v.page.getByRole('table').getByText('acme-bot').waitFor()
    expect(await v.page.content()).not.toContain('canary-registry')
    // and on the page of an environment
    await v.goto(content.pages['environment-backups'])
    await v.button('Back up now').waitFor()
    await v.page.getByRole('form', { name: 'Schedule and retention' }).waitFor()
    await v.goto(content.pages.environment)
    for (const label of ['CPU', 'Memory', 'Requests by status', 'Response time']) {
      await v.page.getByRole('figure').filter({ hasText: label }).first().waitFor()
    }
  })

  test('variables are shown by level, with where each comes from and what it hides', async () => {
    await v.goto(project('/variables'))
    const level = (name: string) => v.page.getByRole('table', { name: `Variables of ${name}` })
    const shared = level('All environments').getByRole('row').filter({ hasText: 'LOG_LEVEL' })
    await shared.getByText('all previews').waitFor()
    const key = level('All environments').getByRole('row').filter({ hasText: 'APP_KEY' })
    await key.getByText('staging').waitFor()
    await level('All previews').getByText('API_URL').waitFor()
    expect(await level('All manual environments').getByText('API_URL').count()).toBe(0)

    await v.goto(content.pages['environment-variables'])
    const row = (of: string, name: string) =>
      v.page
        .getByRole('table', { name: `Variables of ${of}` })
        .getByRole('row')
        .filter({ hasText: name })
    await row('this environment', 'APP_KEY').getByText('Overrides all environments').waitFor()
    await row('all environments', 'APP_KEY').getByText('Overridden by this environment').waitFor()
    await row('all environments', 'LOG_LEVEL').waitFor()
    await row('all manual environments', 'SMTP_HOST').waitFor()
    expect(await v.page.getByText('API_URL').count()).toBe(0) // of previews
    await v.text(/SERVICE_ENV_IDENTIFIER/).waitFor()
  })

  test('an address leads to a phase, and an opened phase is in the address', async () => {
    await v.context.grantPermissions(['clipboard-read', 'clipboard-write'])
    const page = content.pages['task-succeeded']
    const { body } = await content.platform.cp.call<{
      phases: {
        name: string
        title: string
        steps: { title: string; first_line: number | null }[]
      }[]
    }>('GET', `/api${page}`)
    const phases = body.phases.filter(
      (p) => p.steps.length > 1 && p.steps.some((s) => s.first_line !== null),
    )
    const [phase] = phases
    if (!phase) throw new Error('no phase of the example has steps with lines')
    const line = phase.steps.find((s) => s.first_line !== null)?.first_line ?? 0
    await v.goto(`${page}?phase=${phase.name}`)
    await v.page.locator(`[data-n="${line}"]`).waitFor()
    const item = v.page.locator('details details', { hasText: phase.steps[0]?.title ?? '' })
    await item
      .getByText(phase.steps[0]?.title ?? '')
      .last()
      .waitFor()
    expect(await item.getAttribute('open')).not.toBeNull()
    // closed and opened by the reader
    await item.locator('summary').click()
    await v.page.waitForURL((url) => !url.searchParams.has('phase'))
    await item.locator('summary').click()
    await v.page.waitForURL((url) => url.searchParams.get('phase') === phase.name)
    await v.button('Share').click()
    await expect.poll(() => v.clipboard()).toMatch(new RegExp(`[?]phase=${phase.name}$`))
    // an unknown one changes nothing
    await v.goto(`${page}?phase=nowhere`)
    await v.page.locator('[data-n="1"]').waitFor()
  })

  test('the page of a preview names its commit, author, pull request and age', async () => {
    const preview = await content.host.environment('pr-42')
    await v.goto(`/environments/${preview?.id}`)
    const hero = v.page.getByRole('region', { name: 'Address and version' })
    await hero.getByText('c136499', { exact: true }).waitFor()
    await hero.getByRole('link', { name: '#42 Checkout v2' }).waitFor()
    await hero.getByText(/^(Grace Hopper|ada)$/).waitFor()
    await hero.getByRole('link', { name: /^Deployed .+ ago|^Deployed just now/ }).waitFor()
    await hero.getByRole('link', { name: 'fra-1' }).waitFor()
  })

  test('the first page lists approvals, failures and limits, and each leads to its place', async () => {
    await v.goto('/')
    const item = (why: RegExp) => v.page.locator('main').getByRole('link').filter({ hasText: why })
    await item(/Environment limit reached \(5\/5\)/).waitFor()
    await item(/needs approval/)
      .first()
      .waitFor()
    await item(/Deployment failed/)
      .first()
      .click()
    await v.heading(/^Deployment \d+/)
    await v.button('Jump to error').waitFor()
  })

  test('a deployment is compared with the last success: keys, image and duration', async () => {
    const { platform } = content
    const made = await platform.cp.environment(platform.projectId, 'compared')
    platform.executor.hasPlans = false
    const deploy = async (image: string) => {
      platform.executor.script = (attempt) => {
        attempt.checkedOut('a'.repeat(40))
        attempt.serve([{ name: 'web', image }])
        attempt.succeed()
      }
      const { body } = await platform.deploy(made.id)
      await platform.settled(body.id)
      return body.id
    }
    const first = await deploy('shop:1')
    const set = { CANARY_KEY: 'canary-value' }
    await platform.cp.call('PATCH', `/api/environments/${made.id}/variables`, { set })
    const second = await deploy('shop:2')
    await v.goto(`/tasks/${first}`)
    await v.text('No earlier deployment has succeeded.').waitFor()
    await v.goto(`/tasks/${second}`)
    const panel = v.page.locator('details', { hasText: 'Changes' }).last()
    await panel.getByRole('link', { name: `deployment ${first}` }).waitFor()
    await panel.getByText('Same commit').waitFor()
    await panel.getByText('CANARY_KEY').waitFor()
    await panel.getByText('shop:1').waitFor()
    await panel.getByText('→ shop:2').waitFor()
    await panel.getByRole('row', { name: /^Total/ }).waitFor()
    expect(await v.page.content()).not.toContain('canary-value')
  })

  test('the reference in the product needs no sign-in and has the examples', async () => {
    const w = await chrome.visit(content.platform.cp.url)
    await w.goto('/docs/service-file')
    await w.heading('.service.yml')
    await w.page.locator('pre', { hasText: 'docker:' }).first().waitFor()
    const answer = await w.page.goto(`${w.url}/docs/errors/domain_in_use`)
    expect(answer?.status()).toBe(200)
    await w.close()
  })
})
