// The checklist in a real browser, from the set-up link to the first preview: each step leads to the page that does it
// and ticks itself in a tab that is open all the time. And what "Add server" says when no line could work.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { reconcileProject } from '../../control-plane/src/app/forges/reconcile.ts'
import { FakeForge } from '../fixtures/forge/fake-forge.ts'
import { Chromium, Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { Repository } from '../fixtures/server/deployment.ts'
import { packageFolder } from '../fixtures/server/package-folder.ts'

const ADA = 'ada@example.com'

describe.skipIf(missing('chromium'))('the first run', () => {
  let chrome: Chromium
  let p: Platform
  let v: Visitor
  beforeAll(async () => {
    chrome = await Chromium.launch()
  })
  afterAll(() => chrome?.close())
  afterEach(async () => {
    await v?.close()
    await p?.close()
  })

  test('from the set-up link to the first preview, step by step', async () => {
    const root = mkdtempSync(join(tmpdir(), 'berth-first-run-'))
    const repository = new Repository(join(root, 'acme', 'shop.git'))
    const file = 'manual: { deploy: [ "true" ] }\n'
    repository.commit({ '.service.yml': file }, 'First')
    const forge = await FakeForge.start('gitea', root)
    forge.listed.push({ name: 'acme/shop', isPrivate: true, isArchived: false })
    forge.files.set('.service.yml', file)
    p = await Platform.bare('sqlite', { env: { BERTH_AGENT_PACKAGES: packageFolder() } })
    p.executor.script = (attempt) => attempt.succeed()
    v = await chrome.visit(p.cp.url)
    await v.goto(`/setup#${p.cp.running.setupToken}`)
    await v.fill('Your name', 'Ada')
    await v.fill('E-mail', ADA)
    await v.fill('Password', PASSWORD)
    await v.fill('Organization', 'Acme')
    await v.button('Set up').click()
    await v.heading('Projects')

    // a second tab shows the list from here on and is never reloaded
    const list = new Visitor(v.context, await v.context.newPage(), v.url)
    await list.goto('/')
    const done = (n: number) =>
      list.page.getByRole('heading', { name: new RegExp(`Get started ${n} of 5`) }).waitFor()
    /** The open step has the client's command and a link; those before it are ticked. */
    const open = async (title: string) => {
      const step = list.page.getByRole('listitem').filter({ hasText: title })
      await step.getByRole('button', { name: 'Copy command' }).waitFor()
      expect(await list.button('Copy command').count()).toBe(1)
    }
    await done(0)
    await open('Add a server')

    await v.link('Add a server').click()
    await v.fill('Name', 'fra-1')
    await v.fill('Host name or address', '127.0.0.1')
    await v.page.getByRole('dialog').getByRole('button', { name: 'Add server' }).click()
    const command = await v.text(/berth_join_/).textContent()
    await p.joinAgent(/berth_join_[\w.-]+/.exec(command ?? '')?.[0] ?? '')
    await done(1)
    await open('Connect a forge')

    await v.goto('/')
    await v.link('Connect a forge').click()
    const form = v.page.getByRole('form', { name: 'Connect a forge' })
    await form.getByLabel('Kind of forge').selectOption('gitea')
    await form.getByLabel('Address of the API').fill(`${forge.url}/api/v1`)
    await form.getByLabel('Token', { exact: true }).fill(forge.token)
    await form.getByRole('button', { name: 'Connect' }).click()
    await v.page.getByRole('table', { name: 'Forges' }).waitFor()
    await done(2)
    await open('Create a project')

    await v.goto('/')
    await v.link('Create a project').click()
    await v.button('Choose acme/shop').click()
    await v.fill('Repository', forge.repoUrl) // the name in the list exists only there
    await v.fill('Name', 'shop')
    await v.fill('Domain', 'shop.example.com')
    await v.button('Create and set up').click()
    await v.heading('Set up shop')
    await done(3)
    await open('Deploy it')

    await v.goto('/')
    await v.link('Deploy').click()
    await v.heading('Set up shop')
    await v.button('Deploy').click()
    await v.link('Open production').waitFor()
    await done(4)
    await open('Open a pull request')

    repository.git('switch', '--quiet', '-c', 'try-berth')
    const headSha = repository.commit({}, 'Try it')
    repository.git('switch', '--quiet', 'main')
    forge.pull({ number: 1, headSha, headBranch: 'try-berth' })
    const { ctx } = p.cp.running
    const { id } = await ctx.db.selectFrom('projects').select('id').executeTakeFirstOrThrow()
    await reconcileProject(ctx, id)
    // every step is done: the list has nothing left to say
    await list.page.getByRole('heading', { name: /Get started/ }).waitFor({ state: 'detached' })
    await list.link(/^pr-1/).waitFor()
    expect([...v.complaints, ...list.complaints]).toEqual([])
    await forge.close()
    rmSync(root, { recursive: true, force: true })
  })

  test('without a package, a server gets no line that cannot work', async () => {
    p = await Platform.bare('sqlite', {
      password: PASSWORD,
      env: { BERTH_AGENT_PACKAGES: packageFolder([]) },
    })
    await p.cp.setUp()
    v = await chrome.visit(p.cp.url)
    await v.signIn(ADA, PASSWORD)
    await v.goto('/servers')
    await v.button('Add server').click()
    const dialog = v.page.getByRole('dialog')
    await v.fill('Name', 'fra-1')
    await v.fill('Host name or address', '127.0.0.1')
    await dialog.getByRole('button', { name: 'Add server' }).click()
    await dialog.getByText(/has no agent package to install/).waitFor()
    // both problems at once for another machine, and no server was made
    await v.fill('Host name or address', 'fra-1.example.com')
    await dialog.getByRole('button', { name: 'Add server' }).click()
    await dialog.getByText(/which fra-1\.example\.com cannot reach/).waitFor()
    await dialog.getByText(/has no agent package to install/).waitFor()
    const { db } = p.cp.running.ctx
    expect(await db.selectFrom('servers').select('id').execute()).toEqual([])
    expect(await v.text(/berth_join_/).count()).toBe(0)

    // a server that exists is told the same in place of a line
    const made = await p.cp.server('ams-2')
    await v.goto(`/servers/${made.id}`)
    await v.button('Show join command').click()
    await v.page
      .getByRole('alert')
      .getByText(/has no agent package to install/)
      .waitFor()
    expect(await v.text(/berth_join_/).count()).toBe(0)
    expect(await db.selectFrom('joinTokens').select('id').execute()).toEqual([])
    expect(v.complaints).toEqual([])
  })
})
