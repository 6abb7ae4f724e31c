// The page of an environment in a real browser: its address, actions, services, deployments and metrics; its settings with
// one "Save changes"; on a phone; and without a violation of accessibility in both themes.

import { HostUsageSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findings } from '../fixtures/people/axe.ts'
import { Chromium, type Look, type Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { reportUsage } from '../fixtures/platform/usage.ts'

const MINUTE = 60_000

describe.skipIf(missing('chromium'))('the page of an environment', () => {
  let chrome: Chromium
  let p: Platform
  let id: number
  let open: Visitor[] = []
  beforeAll(async () => {
    chrome = await Chromium.launch()
    p = await Platform.start('sqlite', { password: PASSWORD })
    id = (await p.environment('staging', { title: 'Staging' })).id
  })
  afterAll(async () => {
    await chrome.close()
    await p.close()
  })
  afterEach(async () => {
    const complaints = open.flatMap((v) => v.complaints)
    for (const v of open) await v.close()
    open = []
    expect(complaints).toEqual([])
  })
  const visit = async (look?: Look) => {
    const v = await chrome.visit(p.cp.url, look)
    open.push(v)
    await v.signIn('ada@example.com', PASSWORD)
    return v
  }
  const goto = async (v: Visitor, tab = '') => {
    await v.goto(`/environments/${id}${tab}`)
    await v.heading(/^staging/)
  }
  const deploy = async (commit: string, end: 'succeed' | 'fail' = 'succeed') => {
    p.executor.script = (attempt) => {
      attempt.serve([{ name: 'web', port: 20_000 }, { name: 'worker' }])
      if (end === 'succeed') attempt.succeed()
      else attempt.fail('It did not work.')
    }
    const { body } = await p.deploy(id, { commit_sha: commit.repeat(40) })
    await p.settled(body.id)
    return body.id
  }
  /** As the server's agent reports it. */
  const report = (at: number, requests: number) =>
    reportUsage(
      { ...p.cp.running.ctx, clock: { now: () => at } },
      p.serverId,
      create(HostUsageSchema, {
        at: timestampFromMs(at),
        environments: [
          {
            environmentId: id,
            memoryBytes: 200n * 1_048_576n,
            cpuPermille: 125,
            services: [{ name: 'web', memoryBytes: 150n * 1_048_576n, cpuPermille: 100 }],
          },
        ],
        requestsUntil: timestampFromMs(Math.floor(at / MINUTE) * MINUTE),
        requestMinutes: [
          {
            minute: timestampFromMs((Math.floor(at / MINUTE) - 1) * MINUTE),
            environments: [
              {
                environmentId: id,
                requests,
                status2xx: requests - 2,
                status5xx: 2,
                latencies: [requests],
              },
            ],
          },
        ],
      }),
      { dockerOk: true, proxyOk: true },
    )

  test('before the first deployment it says what to do', async () => {
    const v = await visit()
    await goto(v)
    await v.text('Nothing deployed yet').waitFor()
    await v.text('Not deployed yet').waitFor()
    await v.button('Deploy').waitFor()
    for (const name of ['Restart', 'Roll back']) expect(await v.button(name).count()).toBe(0)
    expect(await v.link('Visit').count()).toBe(0)
    expect(await v.page.getByRole('heading', { name: 'Metrics' }).count()).toBe(0)
  })

  test('shows its address, version, services, deployments and metrics, and rolls back', async () => {
    await deploy('a')
    await deploy('b', 'fail')
    const last = await deploy('c')
    await p.cp.running.ctx.db.deleteFrom('serverUsage').execute()
    for (let ago = 10; ago >= 0; ago--) await report(Date.now() - ago * MINUTE, 60)
    const v = await visit()
    await goto(v)
    const hero = v.page.getByRole('region', { name: 'Address and version' })
    await hero.getByText('ccccccc').waitFor()
    await v.button('Copy address').waitFor()
    for (const name of ['Deploy', 'Restart', 'Roll back', 'Shell: copy the command']) {
      await hero.getByRole('button', { name, exact: true }).waitFor()
    }
    await hero.getByRole('link', { name: 'Logs' }).waitFor()
    // bars, newest last
    const bars = v.page.getByRole('list', { name: /^Last deployments/ }).getByRole('link')
    expect(await bars.count()).toBe(3)
    await v.link(new RegExp(`^Deployment ${last} succeeded in `)).waitFor()
    await v.link(/^Deployment \d+ failed/).waitFor()
    // services with what they use
    await v.text('10% CPU').waitFor()
    await v.text('150 MB').waitFor()
    // an hour has eleven minutes of sixty requests
    await v.text('660').first().waitFor()
    for (const label of ['CPU', 'Memory', 'Requests by status', 'Response time']) {
      await v.page.getByRole('figure').filter({ hasText: label }).first().waitFor()
    }
    await v.button('Week').click()
    await v.page.waitForURL(/range=week/)
    await v.text('last week').waitFor()
    await v.page.reload()
    expect(await v.button('Week').getAttribute('aria-pressed')).toBe('true')

    await v.button('Roll back').click()
    const dialog = v.page.getByRole('dialog')
    await dialog.getByText('aaaaaaa').waitFor()
    expect(await dialog.getByRole('radio').count()).toBe(1) // the failed one and the present one are no choice
    await dialog.getByRole('button', { name: 'Roll back' }).click()
    await v.page.waitForURL(/\/tasks\/\d+/)
  })

  test('copies the command for a shell', async () => {
    const v = await visit()
    await v.context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await goto(v)
    await v.button('Shell: copy the command').click()
    await expect.poll(() => v.clipboard()).toBe('berth ssh -p shop -e staging')
  })

  test('says what is wrong with its server', async () => {
    const v = await visit()
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: true })
    await goto(v)
    await v.text(/is paused by Ada\. Deployments wait until it is resumed/).waitFor()
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: false })
    await v.text(/is paused by/).waitFor({ state: 'detached' })
  })

  test('settings are saved together; what is typed stays, and leaving asks', async () => {
    const v = await visit()
    await goto(v, '/settings')
    const saved = () => v.button('Save changes').getAttribute('aria-disabled')
    expect(await saved()).toBe('true')
    await v.fill('Title', 'Staging of the shop')
    await v.page.getByLabel('Sticky').check()
    await v.text('Unsaved changes').waitFor()
    // a change from elsewhere does not replace what is typed
    await p.cp.call('PATCH', `/api/environments/${id}`, { auto_deploy: true })
    await v.text('Deploys on push to main').waitFor()
    expect(await v.page.getByLabel('Title').inputValue()).toBe('Staging of the shop')
    await v.link('Variables').click()
    await v.text('Discard changes?').waitFor()
    await v.button('Keep editing').click()
    expect(await v.page.getByLabel('Title').inputValue()).toBe('Staging of the shop')
    await v.button('Save changes').click()
    await v.text('Unsaved changes').waitFor({ state: 'detached' })
    const { body } = await p.cp.call('GET', `/api/environments/${id}`)
    expect(body).toMatchObject({ title: 'Staging of the shop', sticky: true, auto_deploy: true })
    await v.fill('Title', 'x')
    await v.button('Discard').click()
    expect(await v.page.getByLabel('Title').inputValue()).toBe('Staging of the shop')
    await v.link('Variables').click() // nothing is lost, so nothing is asked
    await v.page.waitForURL(/variables/)
  })

  test('a refused setting is shown at its field, and nothing typed is lost', async () => {
    const v = await visit()
    await goto(v, '/settings')
    await v.page.getByLabel('Basic Auth').selectOption('own')
    await v.fill('User', 'preview')
    await v.fill('Password', 'short')
    await v.button('Save changes').click()
    await v.page.locator('[aria-invalid=true], [role=alert]').first().waitFor()
    expect(await v.page.getByLabel('User').inputValue()).toBe('preview')
    await v.button('Discard').click()
  })

  test.each(['light', 'dark'] as const)(
    'has no violation of accessibility (%s), and fits a phone',
    async (theme) => {
      const v = await visit({ theme, width: 390, height: 844 })
      for (const tab of ['', '/deployments', '/variables', '/actions', '/backups', '/settings']) {
        await goto(v, tab)
        await v.page.locator('[data-loading]').first().waitFor({ state: 'detached' })
        expect(await findings(v.page), `${tab} ${theme}`).toEqual([])
        const wide = await v.page.evaluate(
          'Math.max(0, document.documentElement.scrollWidth - innerWidth)',
        )
        expect(wide, tab).toBeLessThanOrEqual(0)
      }
      await goto(v)
      const small = await v.page.evaluate(
        `[...document.querySelectorAll('[aria-label="Address and version"] > div:last-child > *')]
          .filter((e) => e.textContent !== '' && getComputedStyle(e).position !== 'absolute')
          .filter((e) => e.getBoundingClientRect().height < 40).map((e) => e.outerHTML)`,
      )
      expect(small).toEqual([])
    },
  )
})
