// The main journeys in a real browser, against a real control plane and a real agent's daemon: from the set-up token to
// the deletion of a project; two concurrent browsers; a lost connection; a value that must not appear anywhere.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD, person } from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { Script } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'
import { packageFolder } from '../fixtures/server/package-folder.ts'

const VALUE = 'canary-9f2c1e07b3f1'
const ADA = 'ada@example.com'

/** Everything a page holds: its elements, the content of its fields, its storage, its address. */
const EVERYTHING = `[
  document.documentElement.outerHTML,
  ...[...document.querySelectorAll('input, textarea')].map((e) => e.value),
  JSON.stringify([{ ...localStorage }, { ...sessionStorage }]),
  location.href,
].join('\\n')`
const FOCUSED = `document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? ''`

/** A deployment that continues until the test decides its end. */
function held(): { script: Script; end(how: 'succeed' | 'fail'): void } {
  const { promise, resolve } = Promise.withResolvers<'succeed' | 'fail'>()
  return {
    end: resolve,
    script: async (attempt) => {
      attempt.step('build:web', 'Build image web', 'build')
      attempt.say('compiling\n')
      const stop = attempt.stopAsked().then(() => 'cancel' as const)
      const how = await Promise.race([promise, stop])
      if (how === 'cancel') return attempt.cancel()
      if (how === 'succeed') return attempt.succeed()
      attempt.say('src/cart.ts(14,7): error TS2322\n')
      attempt.fail('`RUN npm run build` exited with 1.')
    },
  }
}

describe.skipIf(missing('chromium'))('the dashboard in a browser', () => {
  let chrome: Chromium
  let p: Platform
  const visitors: Visitor[] = []
  const visit = async (): Promise<Visitor> => {
    const visitor = await chrome.visit(p.cp.url)
    visitors.push(visitor)
    return visitor
  }
  const signedIn = async (email = ADA): Promise<Visitor> => {
    const visitor = await visit()
    await visitor.signIn(email, PASSWORD)
    return visitor
  }
  const deployButton = (v: Visitor) => v.page.getByRole('button', { name: 'Deploy', exact: true })
  const isLocked = (v: Visitor) =>
    v.page.locator('button[aria-disabled="true"]', { hasText: /^Deploy$/ })
  const isFree = (v: Visitor) =>
    v.page.locator('button:not([aria-disabled])', { hasText: /^Deploy$/ })

  beforeAll(async () => {
    chrome = await Chromium.launch()
  })
  afterAll(() => chrome.close())
  beforeEach(() => {
    visitors.length = 0
  })
  afterEach(async () => {
    const complaints = visitors.flatMap((v) => v.complaints)
    for (const visitor of visitors) await visitor.close()
    await p.close()
    expect(complaints).toEqual([])
  })

  test('set up, join a server, create a project, deploy, watch, fail, diagnose, fix, redeploy, protect, delete', async () => {
    p = await Platform.bare('sqlite', { env: { BERTH_AGENT_PACKAGES: packageFolder() } })
    const v = await visit()
    await v.goto('/')
    await v.heading('Set up Berth')
    await v.fill('Set-up token', p.cp.running.setupToken ?? '')
    await v.fill('Your name', 'Ada')
    await v.fill('E-mail', ADA)
    await v.fill('Password', PASSWORD)
    await v.fill('Organization', 'Acme')
    await v.button('Set up').click()
    await v.text('No projects yet').waitFor()

    await v.link('Add a server').click()
    await v.fill('Name', 'fra-1')
    await v.fill('Host name or address', '127.0.0.1')
    await v.page.getByRole('dialog').getByRole('button', { name: 'Add server' }).click()
    await v.text('Waiting for the server…').waitFor()
    const command = await v.text(/berth_join_/).textContent()
    const [token = ''] = /berth_join_[\w.-]+/.exec(command ?? '') ?? []
    await p.joinAgent(token)
    await v.text('fra-1 has joined and is online.').waitFor()

    await v.goto('/projects/new')
    await v.fill('Name', 'shop')
    await v.fill('Repository', 'https://git.example.com/acme/shop.git')
    await v.fill('Domain', 'shop.example.com')
    await v.page.getByLabel('Recipe').selectOption('manual')
    await v.button('Create and set up').click()
    await v.text(/^whsec_/).waitFor()
    await v.link('Open shop').click()
    await v.heading('shop')

    const first = held()
    p.executor.script = first.script
    await v.button('New environment').click()
    await v.fill('Name', 'staging')
    await v.button('Create').click()
    await v.heading('staging')
    await v
      .text(/Deployment \d+ is (queued|running) \(started from the dashboard\)/)
      .first()
      .waitFor()
    await v
      .text(/is running/)
      .first()
      .waitFor()
    first.end('fail')
    await v.text('Last failure').waitFor()
    await v.text('src/cart.ts(14,7): error TS2322').waitFor()
    await isFree(v).waitFor()

    await v.link('Variables').click()
    await v.button('Add').click()
    await v.fill('Key', 'APP_KEY')
    await v.fill('Value', VALUE)
    await v.button('Save').click()
    await v.text('Variables changed since the last deployment: APP_KEY.').waitFor()
    p.executor.script = (attempt) => attempt.succeed()
    await v.button('Deploy').click()
    await v
      .text('Variables changed since the last deployment: APP_KEY.')
      .waitFor({ state: 'detached' })
    await v.link('Overview').click()
    await v.text('Last failure (fixed)').waitFor()

    await v.link('Settings').click()
    await v.page.getByLabel('Protected', { exact: true }).check()
    await v.button('Save changes').click()
    await v.text('Remove protection and save first.').waitFor()
    expect(await v.button('Reset environment').count()).toBe(0)

    await v.goto('/projects/1/settings/delete')
    await v.button('Delete project').click()
    await v.fill('Type shop to confirm', 'shop')
    const dialog = v.page.getByRole('dialog')
    const confirm = dialog.getByRole('button', { name: 'Delete project' })
    expect(await confirm.getAttribute('aria-disabled')).toBe('true')
    await dialog.getByLabel('Also staging, protected by Ada').check()
    await confirm.click()
    await v.heading('Projects')
    await v.text('No projects yet').waitFor() // it was deleted with its last environment
  })

  describe('with a project', () => {
    let environmentId: number
    beforeEach(async () => {
      p = await Platform.start('sqlite', { password: PASSWORD })
      environmentId = (await p.environment('staging')).id
    })
    const open = async (v: Visitor, tab = '') => {
      await v.goto(`/environments/${environmentId}${tab}`)
      await v.heading('staging')
    }

    test('a second browser is locked by the event alone, also for a push, and released at the end', async () => {
      const host = await makeHost(p.cp, p.serverId)
      const made = await p.cp.environment(host.projectId, 'live', { auto_deploy: true })
      environmentId = made.id
      const [a, b] = [await signedIn(), await signedIn()]
      for (const v of [a, b]) {
        await v.goto(`/environments/${environmentId}`)
        await v.heading('live')
        await v.text('Live').first().waitFor()
      }
      const first = held()
      p.executor.script = first.script
      // from here on b learns only from the event: all its requests fail
      await b.page.route('**/trpc/**', (route) => route.abort())
      await deployButton(a).click()
      await isLocked(b).waitFor()
      await b.page.unroute('**/trpc/**')
      await a.text('(started from the dashboard)').first().waitFor()
      first.end('succeed')
      await isFree(b).waitFor()
      await isFree(a).waitFor()

      const second = held()
      p.executor.script = second.script
      await host.push('main', sha(7))
      for (const v of [a, b]) await isLocked(v).waitFor()
      await b.text('(started by a push)').first().waitFor()
      await b.link('Settings').click()
      const remove = b.button('Delete environment')
      expect(await remove.getAttribute('aria-disabled')).toBe('true')
      second.end('succeed')
      await isFree(a).waitFor()
    })

    test('a connection that is cut is said, and what happened meanwhile is there afterwards', async () => {
      const v = await signedIn()
      await open(v)
      await v.text('Nothing deployed yet').waitFor()
      await v.context.setOffline(true)
      await v.text('Not live, reconnecting').waitFor()
      const { body } = await p.deploy(environmentId)
      await p.settled(body.id)
      await v.context.setOffline(false)
      await v.link(new RegExp(`^Deployment ${body.id} succeeded`)).waitFor()
      await v.text('Not live, reconnecting').waitFor({ state: 'detached' })
      await p.restartControlPlane()
      const again = (await p.deploy(environmentId)).body
      await v
        .link(new RegExp(`^Deployment ${again.id} `))
        .first()
        .waitFor()
      await v.text('Not live, reconnecting').waitFor({ state: 'detached' })
    })

    test('a value typed is nowhere afterwards', async () => {
      const v = await signedIn()
      const answers: Promise<string>[] = []
      v.page.on('response', (r) => void answers.push(r.text().catch(() => '')))
      await open(v, '/variables')
      await v.button('Paste .env').click()
      const pasted = `# of the shop\nAPP_KEY="${VALUE}"\nexport OTHER=${VALUE}2\nBERTH_X=1\n`
      await v.fill('Contents of the file', pasted)
      await v.text('(reserved, left out)').waitFor()
      await v.button('Set 2 variables').click()
      await v.button('Replace APP_KEY').click()
      await v.fill('Value', `${VALUE}3`)
      await v.button('Save').click()
      await v.page.getByRole('dialog').waitFor({ state: 'detached' })
      await v.text('not deployed yet').first().waitFor()
      const seen = await v.page.evaluate(EVERYTHING)
      expect(seen).toContain('APP_KEY')
      expect(seen).not.toContain(VALUE)
      const said = (await Promise.all(answers)).join('\n')
      expect(said).toContain('APP_KEY')
      expect(said).not.toContain(VALUE)
    })

    test('variables of a level: set, given to forks, overridden by an environment; no value anywhere', async () => {
      const v = await signedIn()
      const answers: Promise<string>[] = []
      v.page.on('response', (r) => void answers.push(r.text().catch(() => '')))
      const one = await p.cp.call('GET', `/api/environments/${environmentId}`)
      await v.goto(`/projects/${one.body.project_id}/variables`)
      const add = async (level: string, key: string) => {
        await v.button(`Add to ${level}`).click()
        await v.fill('Key', key)
      }
      const save = async () => {
        await v.button('Save').click()
        await v.page.getByRole('dialog').waitFor({ state: 'detached' })
      }
      await add('All previews', 'PREVIEW_KEY')
      await v.fill('Value', VALUE)
      await save()
      await v.button('Share PREVIEW_KEY with forks').click()
      await v.button('Stop sharing PREVIEW_KEY with forks').waitFor()
      await add('All environments', 'SHARED_KEY')
      await v.page.getByLabel('Generate a random value').check()
      await save()
      await v.text('PREVIEW_KEY shared with forks').waitFor()
      await open(v, '/variables')
      await v.button('Override SHARED_KEY').click()
      await v.fill('Value', `${VALUE}4`)
      await save()
      await v.text('Overrides all environments').waitFor()
      await v.button('Delete SHARED_KEY').waitFor()
      expect(await v.text('PREVIEW_KEY').count()).toBe(0) // a manual environment gets none of it
      const seen = await v.page.evaluate(EVERYTHING)
      expect(seen).not.toContain(VALUE)
      const said = (await Promise.all(answers)).join('\n')
      expect(said).toContain('SHARED_KEY')
      expect(said).not.toContain(VALUE)
    })

    test('who does not own a protected environment reads it and changes nothing', async () => {
      await person(p.cp, 'Grace', 'admin')
      await p.cp.call('PATCH', `/api/environments/${environmentId}`, { protected: true })
      const v = await signedIn('grace@example.com')
      await open(v)
      await v.text('Only Ada can change this environment.').waitFor()
      expect(await deployButton(v).count()).toBe(0)
      await v.link('Settings').click()
      expect(await v.button('Delete environment').count()).toBe(0)
      await v.link('Variables').click()
      await v.text('Values cannot be shown, only replaced.').waitFor()
      expect(await v.button('Add').count()).toBe(0)
    })

    test('a service and the whole environment are stopped and started, without a deployment', async () => {
      p.executor.script = (attempt) => {
        attempt.serve([{ name: 'web', port: 20_000 }, { name: 'worker' }])
        attempt.succeed()
      }
      await p.settled((await p.deploy(environmentId)).body.id)
      const kinds: (string | undefined)[] = []
      p.executor.script = (attempt) => {
        kinds.push(attempt.assignment.spec?.kind.case)
        attempt.succeed()
      }
      const v = await signedIn()
      await open(v)
      const confirm = (verb: string) =>
        v.page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click()
      await v.button('Restart, stop or start worker').click()
      await v.page.getByRole('menuitem', { name: 'Stop worker' }).click()
      await confirm('Stop')
      await v.text(/^worker is stopped by Ada at /).waitFor()
      await v.button('More actions for staging').click()
      await v.page.getByRole('menuitem', { name: 'Stop staging' }).click()
      await confirm('Stop')
      await v.text(/^Stopped by Ada at /).waitFor()
      await v.button('Start').click()
      await confirm('Start')
      await v.text(/^Stopped by Ada at /).waitFor({ state: 'detached' })
      expect(kinds).toEqual(['lifecycle', 'lifecycle', 'lifecycle'])
    })

    test('names with markup are names', async () => {
      const title = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
      await p.cp.call('PATCH', `/api/environments/${environmentId}`, { title })
      const v = await signedIn()
      await v.goto(`/environments/${environmentId}`)
      await v.heading(/<img src=x/)
      await v.goto(`/projects/${p.projectId}`)
      await v.text(title).waitFor()
      expect(await v.page.evaluate('window.pwned')).toBeUndefined()
    })

    test('keyboard alone: sign in, find, deploy, cancel, delete', async () => {
      const v = await visit()
      const { keyboard } = v.page
      const press = async (...keys: string[]) => {
        for (const key of keys) await keyboard.press(key)
      }
      const tabTo = (name: string) =>
        until(`the focus on ${name}`, async () => {
          if (String(await v.page.evaluate(FOCUSED)).trim() === name) return true
          await keyboard.press('Tab')
          return undefined
        })
      await v.goto('/login')
      await v.heading('Sign in')
      await v.page.getByLabel('E-mail').waitFor()
      await press('Tab')
      await keyboard.type(ADA)
      await press('Tab')
      await keyboard.type(PASSWORD)
      await press('Enter')
      await v.heading('Projects')
      await press('Control+k')
      await v.page.getByRole('combobox').waitFor()
      await keyboard.type('shop staging')
      await v.page.getByRole('option', { name: /^shop \/ staging\s*Environment/ }).waitFor()
      await press('Enter')
      await v.heading('staging')

      const first = held()
      p.executor.script = first.script
      await press('d')
      await v.page.getByRole('dialog').waitFor()
      await tabTo('Deploy')
      await press('Enter')
      await v
        .text(/is running/)
        .first()
        .waitFor()
      await tabTo('Cancel')
      await press('Enter')
      await v.text('Canceled').first().waitFor()
      await isFree(v).waitFor()

      p.executor.script = (attempt) => attempt.succeed()
      await tabTo('Settings')
      await press('Enter')
      await v.button('Delete environment').waitFor()
      await tabTo('Delete environment')
      await press('Enter')
      await v.page.getByRole('dialog').waitFor()
      await until('the field', async () => {
        await keyboard.press('Tab')
        return (await v.page.evaluate('document.activeElement.name')) === 'word' || undefined
      })
      await keyboard.type('staging')
      await press('Enter')
      await v.heading('shop')
      await v.text('No environments yet').waitFor()
    })
  })
})
