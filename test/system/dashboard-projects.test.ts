// Projects, servers and the first run in a real browser: errors at their fields, unknown addresses, unsaved changes,
// one-time secrets, the list with what waits, the flow of a new project, settings and domains. Every page of this part is
// free of axe-core's findings in both themes and fits a phone.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { findings } from '../fixtures/people/axe.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import {
  ADA,
  type DashboardContent,
  makeDashboardContent,
} from '../fixtures/people/dashboard-content.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'
import { packageFolder } from '../fixtures/server/package-folder.ts'

const settled = async (v: Visitor) => {
  await v.page.getByRole('heading', { level: 1 }).waitFor()
  await v.page.locator('[data-loading]').first().waitFor({ state: 'detached' })
}

/** With BERTH_PICTURES, each page is kept as a picture, in both themes and three sizes. */
async function inspect(v: Visitor, name: string): Promise<string[]> {
  const found: string[] = []
  const folder = process.env.BERTH_PICTURES
  for (const theme of ['light', 'dark'] as const) {
    await v.page.emulateMedia({ colorScheme: theme })
    found.push(...(await findings(v.page)).map((one) => `${theme}: ${one}`))
    for (const [width, height] of [
      [390, 844],
      [1_440, 900],
      [1_280, 800],
    ] as const) {
      await v.page.setViewportSize({ width, height })
      const over = Number(
        await v.page.evaluate('Math.max(0, document.documentElement.scrollWidth - innerWidth)'),
      )
      if (over > 0) found.push(`${width}: scrolls sideways by ${over} px`)
      if (folder) {
        await v.page.screenshot({ path: `${folder}/${name}-${theme}-${width}.png`, fullPage: true })
      }
    }
  }
  await v.page.emulateMedia({ colorScheme: 'light' })
  return found
}

describe.skipIf(missing('chromium'))('projects in a browser', () => {
  let chrome: Chromium
  beforeAll(async () => {
    chrome = await Chromium.launch()
  })
  afterAll(() => chrome?.close())

  describe('with some of everything', () => {
    let content: DashboardContent
    let v: Visitor
    beforeAll(async () => {
      content = await makeDashboardContent()
      v = await chrome.visit(content.platform.cp.url)
      await v.signIn(ADA.email, ADA.password)
    })
    afterEach(() => expect(v.complaints.splice(0)).toEqual([]))
    afterAll(async () => {
      await v?.close()
      await content?.close()
    })
    const project = (part = '') => `/projects/${content.host.projectId}${part}`

    test.each([
      ['home', () => '/'],
      ['new-project', () => '/projects/new'],
      ['environments', () => project()],
      ['general', () => project('/settings')],
      ['domains', () => project('/settings/domains')],
      ['access', () => project('/settings/access')],
      ['limits', () => project('/settings/limits')],
      ['repository', () => project('/settings/repository')],
      ['pull-requests', () => project('/settings/pull-requests')],
      ['registries', () => project('/settings/registries')],
      ['usage', () => project('/settings/usage')],
      ['schedules', () => project('/settings/schedules')],
      ['backups', () => project('/settings/backups')],
      ['project-notifications', () => project('/settings/notifications')],
      ['delete', () => project('/settings/delete')],
      ['webhooks', () => project('/webhooks')],
      ['servers', () => '/servers'],
      ['server', () => content.pages.server],
      ['notifications', () => '/org/notifications'],
      ['audit', () => '/org/audit'],
      ['admin', () => '/admin'],
      ['service-file', () => '/docs/service-file'],
      ['not-found', () => '/nowhere/at/all'],
    ])('%s has no violation in either theme and fits every window', async (name, path) => {
      await v.goto(path())
      await settled(v)
      expect(await inspect(v, name)).toEqual([])
    })

    test('unknown addresses are a page, inside the frame for a person who is signed in', async () => {
      const answer = await v.page.goto(`${v.url}/nowhere/at/all`)
      expect(answer?.status()).toBe(404)
      await v.heading('Not found, or you don’t have access')
      await v.page.getByRole('navigation', { name: 'Main' }).waitFor()
      await v.goto(project('/settings/nowhere'))
      await v.heading('Not found, or you don’t have access')
      const stranger = await chrome.visit(content.platform.cp.url)
      await stranger.goto('/nowhere/at/all')
      await stranger.heading('Not found, or you don’t have access')
      await stranger.close()
    })

    test('projects are searched, and the page says what waits and what was deployed', async () => {
      await v.goto('/')
      const waiting = v.page.getByRole('region').or(v.page.locator('section'))
      await waiting.filter({ hasText: 'Needs attention' }).first().waitFor()
      await v.text('Deployment failed').first().waitFor()
      await v
        .text(/needs approval/)
        .first()
        .waitFor()
      await v.page.getByRole('heading', { name: 'Recent deployments' }).waitFor()
      await v.page.getByLabel('Search projects').fill('no such project')
      await v.text('No project matches “no such project”.').waitFor()
      await v.page.getByLabel('Search projects').fill('shop')
      await v.link('shop').first().waitFor()
    })

    test('each error is at its field, under the label of the form, once', async () => {
      await v.goto('/projects/new')
      const form = v.page.getByRole('form', { name: 'New project' })
      await form.getByLabel('Name', { exact: true }).fill('x')
      await form.getByLabel('Repository', { exact: true }).fill('ftp://example.com/x.git')
      await form.getByLabel('Domain', { exact: true }).fill('not a domain')
      /** The message at a field, which must be the only one with these words. */
      const message = async (label: string): Promise<string> => {
        const field = form.getByLabel(label, { exact: true })
        await v.button('Create and set up').click()
        await until(`a message at ${label}`, async () =>
          (await field.getAttribute('aria-invalid')) === 'true' ? true : undefined,
        )
        const ids = await field.getAttribute('aria-describedby')
        const id = ids?.split(' ').find((one) => one.endsWith('-error'))
        const said = (await v.page.locator(`[id="${id}"]`).textContent()) ?? ''
        expect(await v.page.getByText(said, { exact: true }).count()).toBe(1)
        return said
      }
      expect(await message('Domain')).toBe('Must be a host name such as shop.example.com.')
      await form.getByLabel('Domain', { exact: true }).fill('fields.example.com')
      const ofRepository = await message('Repository')
      expect(ofRepository).toBeTruthy()
      expect(ofRepository).not.toContain('repo_url')
      expect(await form.getByRole('alert').count()).toBe(0)
      await v.goto('/') // something was typed: the browser would ask, which a test page accepts
    })

    test('unsaved changes are asked about, and kept', async () => {
      await v.goto(project('/settings'))
      await settled(v)
      await v.fill('Name', 'renamed')
      await v.link('Domains').click()
      const dialog = v.page.getByRole('dialog', { name: 'Discard changes?' })
      await dialog.getByRole('button', { name: 'Keep editing' }).click()
      await dialog.waitFor({ state: 'detached' })
      expect(await v.page.getByLabel('Name', { exact: true }).inputValue()).toBe('renamed')
      // another person changes the project meanwhile
      const path = `/api/projects/${content.host.projectId}`
      await content.platform.cp.call('PATCH', path, { default_branch: 'trunk' })
      await v
        .text(/· trunk/)
        .first()
        .waitFor()
      expect(await v.page.getByLabel('Name', { exact: true }).inputValue()).toBe('renamed')
      await content.platform.cp.call('PATCH', path, { default_branch: 'main' })
      await v
        .text(/· main/)
        .first()
        .waitFor()
      await v.link('Domains').click()
      await dialog.getByRole('button', { name: 'Discard changes' }).click()
      await v.page.getByLabel('Custom domains').waitFor()
      await v.fill('Custom domains', 'www.example.org')
      await v.button('Save changes').click()
      await v.text('Saved.').first().waitFor()
      await v.link('Access').click()
      await v.page.getByRole('form', { name: 'Basic Auth' }).waitFor()
    })

    test('domains are not checked until asked, then say what is missing', async () => {
      await v.goto(project('/settings/domains'))
      await v.text('Not checked yet').first().waitFor()
      await v.button('Check now').click()
      await v.text('No record').first().waitFor()
      await v
        .text(/^Add a DNS record for /)
        .first()
        .waitFor()
    })

    test('a one-time secret survives a reload until it is confirmed', async () => {
      await v.goto(project('/webhooks'))
      await v.button('Regenerate secret').click()
      await v.page.getByRole('dialog').getByRole('button', { name: 'Regenerate' }).click()
      await v.page.waitForURL(/\/secrets\//)
      const address = new URL(v.page.url()).pathname
      const secret = await v.text(/^whsec_/).textContent()
      await v.page.reload()
      expect(await v.text(/^whsec_/).textContent()).toBe(secret)
      expect(await inspect(v, 'secret')).toEqual([])
      await v.button("I've saved it").click()
      await v.page.waitForURL(/\/webhooks$/)
      await v.goto(address)
      await v.text(/no longer shown/).waitFor()
      expect(await v.text(/^whsec_/).count()).toBe(0)
    })

    test('the reference in the product has the keys of the schema', async () => {
      await v.goto('/docs/service-file')
      await v.page
        .getByRole('table', { name: 'Keys of docker.services.<name>', exact: true })
        .waitFor()
      await v.page
        .getByRole('table', { name: 'Keys of actions.<name>', exact: true })
        .getByText('schedule', { exact: true })
        .waitFor()
    })

    test('deleting a project returns to the list', async () => {
      const { cp } = content.platform
      const servers = await cp.call<{ id: number }[]>('GET', '/api/servers')
      const made = await cp.project('short-lived', servers.body[0]?.id ?? 0)
      await v.goto(`/projects/${made.id}/settings/delete`)
      await v.button('Delete project').click()
      await v.fill('Type short-lived to confirm', 'short-lived')
      await v.page.getByRole('dialog').getByRole('button', { name: 'Delete project' }).click()
      await v.heading('Projects')
      expect(new URL(v.page.url()).pathname).toBe('/')
      await v.link('short-lived').waitFor({ state: 'detached' })
    })
  })

  test('adding a server says what is missing before a token is made, then leads to the join', async () => {
    const platform = await Platform.bare('sqlite', {
      password: PASSWORD,
      env: { BERTH_AGENT_PACKAGES: packageFolder(['linux-x64']) },
    })
    await platform.cp.setUp()
    const v = await chrome.visit(platform.cp.url)
    await v.signIn('ada@example.com', PASSWORD)
    await v.page.getByRole('heading', { name: /Get started 0 of 5/ }).waitFor()
    expect(await inspect(v, 'first-run')).toEqual([])
    await v.link('Add a server').click()
    const dialog = v.page.getByRole('dialog')
    await v.fill('Name', 'fra-1')
    await v.fill('Host name or address', 'fra-1.example.com')
    await dialog.getByRole('button', { name: 'Add server' }).click()
    await dialog.getByText(/which fra-1\.example\.com cannot reach/).waitFor()
    const { db } = platform.cp.running.ctx
    const made = async () => [
      (await db.selectFrom('servers').select('id').execute()).length,
      (await db.selectFrom('joinTokens').select('id').execute()).length,
    ]
    expect(await made()).toEqual([0, 0])

    await v.fill('Host name or address', '127.0.0.1')
    await dialog.getByRole('button', { name: 'Add server' }).click()
    const command = await v.text(/berth_join_/).textContent()
    await v.text(/no package for arm64/).waitFor()
    await v.page.reload()
    expect(await v.text(/berth_join_/).textContent()).toBe(command)
    expect(await inspect(v, 'join')).toEqual([])
    const [token = ''] = /berth_join_[\w.-]+/.exec(command ?? '') ?? []
    await platform.joinAgent(token)
    await v.text('fra-1 has joined and is online.').waitFor()
    await until('the secret to be deleted', async () => {
      const left = await db.selectFrom('oneTimeSecrets').select('id').execute()
      return left.length === 0 || undefined
    })
    await v.goto('/')
    await v.page.getByRole('heading', { name: /Get started 1 of 5/ }).waitFor()
    await v.link('Connect a forge').waitFor()
    await v.button('Dismiss').click()
    await v.page.reload()
    await v.text('No projects yet').waitFor()
    expect(await v.page.getByRole('heading', { name: /Get started/ }).count()).toBe(0)
    expect(v.complaints).toEqual([])
    await v.close()
    await platform.close()
  })

  test('a new project is one flow: repository, file, server, key and webhook, first deployment', async () => {
    const fixture = await RepositoryFixture.start('sqlite', 'gitea', PASSWORD)
    const { host, cp, platform } = fixture
    host.listed.push({ name: 'acme/shop', isPrivate: true, isArchived: false })
    host.files.set('.service.yml', 'manual: { deploy: [ "true" ] }\n')
    const connected = await cp.call('POST', '/api/organizations/1/forges', {
      provider: 'gitea',
      api_url: `${host.url}/api/v1`,
      token: host.token,
    })
    expect(connected.status, connected.text).toBe(201)
    const v = await chrome.visit(cp.url)
    await v.signIn('ada@example.com', PASSWORD)
    await v.link('New project').click()
    await v.button('Choose acme/shop').click()
    await v.text(/\.service\.yml on main: manual/).waitFor()
    await v.text('as .service.yml says').waitFor()
    await v.text(/Ready for manual/).waitFor()
    expect(await inspect(v, 'new-project-file')).toEqual([])
    await v.fill('Repository', host.repoUrl) // the name in the list exists only there
    await v.fill('Name', 'store')
    await v.fill('Domain', 'store.example.com')
    await v.button('Create and set up').click()
    await v.heading('Set up store')
    await v.text('Installed at the forge and checked.').waitFor()
    expect([host.keys.length, host.hooks.length]).toEqual([1, 1])
    await v.text(/The repository can be read/).waitFor()
    const { id } = (
      await cp.call<{ id: number; name: string }[]>('GET', '/api/projects')
    ).body.find((one) => one.name === 'store') ?? { id: 0 }
    expect((await cp.call(`GET`, `/api/projects/${id}`)).body.default_recipe).toBe('manual')

    let end = (): void => {}
    const held = new Promise<void>((resolve) => {
      end = resolve
    })
    platform.executor.script = async (attempt) => {
      await held
      attempt.succeed()
    }
    await v.button('Deploy').click()
    await v.text(/^Deployment \d+$/).waitFor()
    expect(await inspect(v, 'set-up')).toEqual([])
    end()
    await v.link('Open production').waitFor()
    expect(new URL(v.page.url()).pathname).toBe('/projects/new')
    await v.page.reload()
    await v.link('Open production').waitFor()
    expect(v.complaints).toEqual([])
    await v.close()
    await fixture.close()
  })
})
