// Forms in a real browser: each refusal once and at its field, in the words of the form; what is typed is kept or asked
// about on every page; the end of a session loses nothing.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import {
  ADA,
  type DashboardContent,
  makeDashboardContent,
} from '../fixtures/people/dashboard-content.ts'
import { missing } from '../fixtures/platform/components.ts'
import { until } from '../fixtures/server/installation.ts'

interface Refused {
  page(): string
  /** Opens the dialog with the form. */
  open?: string
  /** Of the form; without it, the open dialog. */
  form?: string
  fields: Record<string, string>
  submit: string
  /** The label of the field that the message belongs to, or null: the top of the form. */
  at: string | null
  says: RegExp
}

describe.skipIf(missing('chromium'))('forms', () => {
  let chrome: Chromium
  let content: DashboardContent
  let v: Visitor
  beforeAll(async () => {
    chrome = await Chromium.launch()
    content = await makeDashboardContent()
    await content.platform.cp.environment(content.platform.projectId, 'taken')
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
  const environment = (part = '') => `/environments/${content.staging.id}${part}`
  const settled = async () => {
    await v.page.getByRole('heading', { level: 1 }).waitFor()
    await v.page.locator('[data-loading]').first().waitFor({ state: 'detached' })
  }

  test.each<[string, Refused]>([
    [
      'a new environment',
      {
        page: () => `/projects/${content.platform.projectId}`,
        open: 'New environment',
        fields: { Name: 'Not A Name' },
        submit: 'Create',
        at: 'Name',
        says: /^Must /,
      },
    ],
    [
      'an environment whose name is taken',
      {
        page: () => `/projects/${content.platform.projectId}`,
        open: 'New environment',
        fields: { Name: 'taken' },
        submit: 'Create',
        at: 'Name',
        says: /taken/,
      },
    ],
    [
      'a new server',
      {
        page: () => '/servers',
        open: 'Add server',
        fields: { Name: 'x', 'Host name or address': 'not a host' },
        submit: 'Add server',
        at: 'Host name or address',
        says: /must be a name such as fra-1\.example\.com/,
      },
    ],
    [
      'a variable',
      {
        page: () => environment('/variables'),
        open: 'Add',
        fields: { Key: '1 BAD', Value: 'typed' },
        submit: 'Save',
        at: 'Key',
        says: /^A key starts with/,
      },
    ],
    [
      'a reserved variable of a level',
      {
        page: () => project('/variables'),
        open: 'Add to All previews',
        fields: { Key: 'BERTH_X', Value: 'typed' },
        submit: 'Save',
        at: 'Key',
        says: /are reserved/,
      },
    ],
    [
      'the slug of the organization',
      {
        page: () => '/org/settings',
        form: 'General',
        fields: { Slug: 'Not A Slug' },
        submit: 'Save changes',
        at: 'Slug',
        says: /^Must /,
      },
    ],
    [
      'a registry',
      {
        page: () => project('/settings/registries'),
        form: 'Credentials of a registry',
        fields: { Registry: 'not a host', 'User name': 'ada', 'Password or token': 'typed' },
        submit: 'Save credentials',
        at: 'Registry',
        says: /./,
      },
    ],
    [
      'a channel',
      {
        page: () => '/org/notifications',
        form: 'New channel',
        fields: { Name: 'chat', Address: 'ftp://example.com' },
        submit: 'Add channel',
        at: 'Address',
        says: /./,
      },
    ],
    [
      'the schedule of backups',
      {
        page: () => environment('/backups'),
        form: 'Schedule and retention',
        fields: { Schedule: 'every day' },
        submit: 'Save changes',
        at: 'Schedule',
        says: /./,
      },
    ],
    [
      'the storage of backups',
      {
        page: () => '/org/settings',
        form: 'Storage',
        fields: {
          Endpoint: 'not an address',
          Bucket: 'backups',
          'Access key': 'key',
          'Secret key': 'typed',
        },
        submit: 'Save storage',
        at: 'Endpoint',
        says: /./,
      },
    ],
    [
      'an invitation of a member',
      {
        page: () => '/org/members',
        open: 'Invite',
        fields: { 'E-mail': 'grace@example.com' },
        submit: 'Send invitation',
        at: 'E-mail',
        says: /already/,
      },
    ],
    [
      'a password',
      {
        page: () => '/account',
        form: 'Password',
        fields: { 'Current password': 'wrong', 'New password': 'long enough, really' },
        submit: 'Change password',
        at: 'Current password',
        says: /wrong/,
      },
    ],
    [
      'domains',
      {
        page: () => project('/settings/domains'),
        form: 'Domains',
        fields: { 'Custom domains': 'www.example.org\nnot a domain' },
        submit: 'Save changes',
        at: 'Custom domains',
        says: /not a domain|host name/,
      },
    ],
    [
      'the address of a server',
      {
        page: () => `${content.pages.server}/settings`,
        form: 'Settings',
        fields: { 'Host name or address': 'not a host' },
        submit: 'Save changes',
        at: 'Host name or address',
        says: /must be a name such as fra-1\.example\.com/,
      },
    ],
  ])('a refusal of %s appears once, where it belongs', async (_what, refused) => {
    await v.goto(refused.page())
    await settled()
    if (refused.open) await v.button(refused.open).first().click()
    const form = refused.form
      ? v.page.getByRole('form', { name: refused.form, exact: true })
      : v.page.getByRole('dialog')
    for (const [label, value] of Object.entries(refused.fields)) {
      await form.getByLabel(label, { exact: true }).fill(value)
    }
    await form.getByRole('button', { name: refused.submit, exact: true }).click()
    const field = form.getByLabel(refused.at ?? '', { exact: true })
    await until(`a message at ${refused.at}`, async () => {
      if ((await field.getAttribute('aria-invalid')) === 'true') return true
      const top = form.getByRole('alert')
      if ((await top.count()) > 0) throw new Error(`at the top: ${await top.first().textContent()}`)
      return undefined
    })
    const ids = (await field.getAttribute('aria-describedby'))?.split(' ') ?? []
    const id = ids.find((one) => one.endsWith('-error'))
    const said = (await v.page.locator(`[id="${id}"]`).textContent()) ?? ''
    expect(said).toMatch(refused.says)
    expect(said).not.toMatch(/\b[a-z]+_[a-z]+\b|^[a-z.]+: /) // a name of the API
    expect(await v.page.getByText(said, { exact: true }).count()).toBe(1)
    expect(await form.getByRole('alert').count()).toBe(0)
    // the first field with a message has the focus, and nothing typed is lost
    expect(await v.page.evaluate('document.activeElement?.id')).toBe(await field.getAttribute('id'))
    for (const [label, value] of Object.entries(refused.fields)) {
      expect(await form.getByLabel(label, { exact: true }).inputValue(), label).toBe(value)
    }
  })

  test('several refusals are all shown, each at its own field', async () => {
    await v.goto('/projects/new')
    await settled()
    const form = v.page.getByRole('form', { name: 'New project' })
    await form.getByLabel('Name', { exact: true }).fill(' ')
    await form.getByLabel('Repository', { exact: true }).fill('nothing')
    await form.getByLabel('Domain', { exact: true }).fill('not a domain')
    await form.getByRole('button', { name: 'Create and set up' }).click()
    await form.locator('[aria-invalid=true]').first().waitFor()
    const wrong = await form.locator('[aria-invalid=true]').all()
    const messages = await form.locator('[id$="-error"]').allTextContents()
    expect(wrong.length).toBeGreaterThanOrEqual(2)
    expect(messages).toHaveLength(wrong.length)
    expect(new Set(messages).size).toBe(messages.length)
    expect(await form.getByRole('alert').count()).toBe(0)
  })

  /** A page, and the field that is typed into. */
  test.each<[string, () => string, string, string]>([
    ['the organization', () => '/org/settings', 'General', 'Name'],
    ['a new organization', () => '/org/settings', 'New organization', 'Name'],
    ['a registry', () => project('/settings/registries'), 'Credentials of a registry', 'Registry'],
    ['a token of a forge', () => project('/settings/repository'), 'Forge token', 'Token'],
    ['the storage of backups', () => '/org/settings', 'Storage', 'Endpoint'],
    [
      'the schedule of backups',
      () => environment('/backups'),
      'Schedule and retention',
      'Schedule',
    ],
    ['a channel', () => '/org/notifications', 'New channel', 'Name'],
    ['a token', () => '/account/tokens', 'New token', 'Name'],
    ['a password', () => '/account', 'Password', 'Current password'],
    ['general settings', () => project('/settings'), 'General', 'Name'],
    ['limits', () => project('/settings/limits'), 'Limits', 'Environment limit'],
    [
      'pull requests',
      () => project('/settings/pull-requests'),
      'Pull requests and pushes',
      'Base branches',
    ],
    ['a server', () => `${content.pages.server}/settings`, 'Settings', 'Name'],
    ['an environment', () => environment('/settings'), 'Settings', 'Branch'],
    ['a new project', () => '/projects/new', 'New project', 'Name'],
  ])('leaving asks before typed text is lost: %s', async (_what, page, name, label) => {
    await v.goto(page())
    await settled()
    const form = v.page.getByRole('form', { name, exact: true })
    const field = form.getByLabel(label, { exact: true })
    await field.fill('12')
    const elsewhere = v.page
      .getByRole('navigation', { name: 'Main' })
      .getByRole('link', { name: 'Members' })
    await elsewhere.click()
    const dialog = v.page.getByRole('dialog', { name: 'Discard changes?' })
    await dialog.getByRole('button', { name: 'Keep editing' }).click()
    await dialog.waitFor({ state: 'detached' })
    expect(await field.inputValue()).toBe('12')
    await elsewhere.click()
    await dialog.getByRole('button', { name: 'Discard changes' }).click()
    await v.heading('Members')
  })

  test('closing the tab asks as well, but only after something was typed', async () => {
    const asked: string[] = []
    v.page.on('dialog', (dialog) => {
      asked.push(dialog.type())
      void dialog.accept()
    })
    await v.goto(project('/settings'))
    await settled()
    await v.page.reload()
    await settled()
    expect(asked).toEqual([])
    // a browser asks only after the page was used
    await v.page.getByLabel('Name', { exact: true }).click()
    await v.page.keyboard.type('x')
    await v.page.reload()
    await settled()
    expect(asked).toEqual(['beforeunload'])
    v.page.removeAllListeners('dialog')
  })

  test('the end of a session is told over the page, and what was typed is still there', async () => {
    await v.goto(project('/settings'))
    await settled()
    const name = v.page.getByLabel('Name', { exact: true })
    await name.fill('shop-renamed')
    const cookies = await v.context.cookies()
    await v.context.clearCookies()
    await v.button('Save changes').click()
    const dialog = v.page.getByRole('dialog', { name: 'Your session has ended' })
    await dialog.getByLabel('Password', { exact: true }).fill(ADA.password)
    await dialog.getByRole('button', { name: 'Sign in' }).click()
    await dialog.waitFor({ state: 'detached' })
    expect(await name.inputValue()).toBe('shop-renamed')
    await v.button('Save changes').click()
    await v.text('Saved.').first().waitFor()
    const { body } = await content.platform.cp.call('GET', `/api${project()}`)
    expect(body.name).toBe('shop-renamed')
    await content.platform.cp.call('PATCH', `/api${project()}`, { name: 'shop' })
    expect(cookies.length).toBeGreaterThan(0)
  })
})
