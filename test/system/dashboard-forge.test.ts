// Forges in a real browser: an organization connects one, a new project is chosen from its repositories and connected, and
// the page of the project shows what broke and repairs it. The pages fit a wide and a narrow window.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'

describe.skipIf(missing('chromium'))('forges in a browser', () => {
  let chrome: Chromium
  let fixture: RepositoryFixture
  let v: Visitor
  beforeAll(async () => {
    chrome = await Chromium.launch()
    fixture = await RepositoryFixture.start('sqlite', 'gitea', PASSWORD)
    const listed = { isPrivate: true, isArchived: false }
    fixture.host.listed.push({ name: 'acme/shop', ...listed }, { name: 'acme/docs', ...listed })
    fixture.host.files.set('.service.yml', 'manual: { deploy: [ "true" ] }\n')
    v = await chrome.visit(fixture.cp.url)
    await v.signIn('ada@example.com', PASSWORD)
  })
  afterAll(async () => {
    await v?.close()
    await fixture?.close()
    await chrome?.close()
  })

  /** Nothing is wider than the window; with BERTH_PICTURES the page is also kept as a picture. */
  async function fits(name: string): Promise<void> {
    for (const [width, height] of [
      [390, 844],
      [1_280, 800],
    ] as const) {
      await v.page.setViewportSize({ width, height })
      const over = await v.page.evaluate(
        'Math.max(0, document.documentElement.scrollWidth - innerWidth)',
      )
      expect([name, width, Number(over)]).toEqual([name, width, 0])
      const folder = process.env.BERTH_PICTURES
      if (folder)
        await v.page.screenshot({ path: `${folder}/${name}-${width}.png`, fullPage: true })
    }
  }

  test('an organization connects a forge, and a wrong token is told at its field', async () => {
    await v.goto('/org/settings')
    const form = v.page.getByRole('form', { name: 'Connect a forge' })
    await form.getByLabel('Kind of forge').selectOption('gitea')
    await form.getByLabel('Address of the API').fill(`${fixture.host.url}/api/v1`)
    await form.getByLabel('Token', { exact: true }).fill('wrong')
    await form.getByRole('button', { name: 'Connect' }).click()
    await v
      .text(/wrong, expired or revoked/)
      .first()
      .waitFor()
    await form.getByLabel('Token', { exact: true }).fill(fixture.host.token)
    await form.getByRole('button', { name: 'Connect' }).click()
    await v.page.getByRole('table', { name: 'Forges' }).getByText('berth-bot').waitFor()
    await fits('organization')
  })

  test('a new project is chosen from its repositories and connected', async () => {
    await v.goto('/projects/new')
    await v.button('Choose acme/docs').waitFor()
    await v.button('Choose acme/shop').click()
    await v.text(/\.service\.yml on main: manual/).waitFor()
    await fits('new-project')
    const repository = v.page.getByLabel('Repository', { exact: true })
    expect(await repository.inputValue()).toBe('git@git.example.com:acme/shop.git')
    await repository.fill(fixture.host.repoUrl) // the name in the list exists only there
    await v.fill('Name', 'store')
    await v.fill('Domain', 'store.example.com')
    await v.button('Create and set up').click()
    await v.heading('Set up store')
    await v.text('Installed at the forge and checked.').waitFor()
    await v.text(/The repository can be read/).waitFor()
    await fits('connected')
    expect([fixture.host.keys.length, fixture.host.hooks.length]).toEqual([1, 1])
    expect(await v.page.content()).not.toContain(fixture.host.token)
  })

  test('the settings of a project show what broke, repair and disconnect it', async () => {
    await v.link('Open store').click()
    await v.link('Settings').click()
    await v.link('Repository and forge').click()
    await v.text('Deliveries arrive.').or(v.text('A test delivery arrived.')).first().waitFor()
    fixture.host.hooks.splice(0)
    await v.button('Check now').click()
    await v.text(/The webhook is not in the repository/).waitFor()
    await fits('broken')
    await v.button('Repair').click()
    await v.text('A test delivery arrived.').waitFor()
    expect(fixture.host.hooks).toHaveLength(1)
    await v.button('Disconnect').click()
    await v.page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click()
    await v.page.getByRole('form', { name: 'Connect a forge' }).waitFor()
    expect([fixture.host.keys, fixture.host.hooks]).toEqual([[], []])
    expect(v.complaints).toEqual([])
  })
})
