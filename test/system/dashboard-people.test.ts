// People in a real browser: the authenticator app by QR page, passkeys by a virtual authenticator, recovery codes,
// sign-in with an OpenID Connect provider, the requirement of an organization, sessions, and secrets whose page survives
// a reload. axe-core finds nothing on these pages in either theme.
import type { CDPSession } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { totpCode, totpStep } from '../../control-plane/src/identity/totp.ts'
import { findings } from '../fixtures/people/axe.ts'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import { OIDC_CLIENT, OidcServer } from '../fixtures/people/oidc.ts'
import {
  PASSWORD,
  person,
  poll,
  setUpWithPassword,
  startDevice,
} from '../fixtures/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'

const ADA = 'ada@example.com'
const GRACE = 'grace@example.com'

const BITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const fromBase32 = (text: string): Buffer => {
  const bits = [...text].map((c) => BITS.indexOf(c).toString(2).padStart(5, '0')).join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)))
}

describe.skipIf(missing('chromium'))('people in a browser', () => {
  let chrome: Chromium
  let cp: TestControlPlane
  let provider: OidcServer
  let v: Visitor
  let cdp: CDPSession
  let authenticatorId: string
  let secret: Buffer
  let recovery: string[]
  beforeAll(async () => {
    chrome = await Chromium.launch()
    const port = await freePort()
    const config = { port, baseUrl: `http://localhost:${port}` } // passkeys need a name
    cp = await TestControlPlane.start('sqlite', { config })
    await setUpWithPassword(cp)
    await person(cp, 'Grace', 'developer')
    provider = await OidcServer.start(cp.url)
    const oidc = {
      issuer: provider.issuer,
      clientId: OIDC_CLIENT.id,
      clientSecret: OIDC_CLIENT.secret,
      name: 'Acme ID',
      domains: [],
      createsAccounts: false,
      passwords: 'everyone' as const,
    }
    cp.outside = { config: { ...config, oidc } }
    await cp.restart()
    v = await chrome.visit(cp.url)
    cdp = await v.context.newCDPSession(v.page)
    await cdp.send('WebAuthn.enable')
    const added = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    })
    authenticatorId = added.authenticatorId
    await v.signIn(ADA, PASSWORD)
  })
  afterAll(async () => {
    await v?.close()
    await cp?.close()
    await provider?.close()
    await chrome?.close()
  })

  /** No finding in either theme, and nothing wider than the window; with BERTH_PICTURES also a picture of each. */
  async function inspect(name: string): Promise<void> {
    const folder = process.env.BERTH_PICTURES
    for (const colorScheme of ['light', 'dark'] as const) {
      await v.page.emulateMedia({ colorScheme })
      for (const [width, height] of [
        [390, 844],
        [1_440, 900],
        [1_280, 800],
      ] as const) {
        await v.page.setViewportSize({ width, height })
        const over = await v.page.evaluate(
          'Math.max(0, document.documentElement.scrollWidth - innerWidth)',
        )
        expect([name, width, Number(over)]).toEqual([name, width, 0])
        if (folder) {
          const path = `${folder}/${name}-${colorScheme}-${width}.png`
          await v.page.screenshot({ path, fullPage: true })
        }
      }
      expect([name, colorScheme, await findings(v.page)]).toEqual([name, colorScheme, []])
    }
    await v.page.emulateMedia({ colorScheme: 'light' })
  }
  const dialog = () => v.page.getByRole('dialog')
  /** A code of a time step that was not used: the control plane's clock moves on. */
  const nextCode = async () => {
    await cp.advance(31_000)
    return totpCode(secret, totpStep(Date.now() + cp.clock.offsetMs))
  }
  const signOut = async () => {
    await v.context.clearCookies()
    await v.goto('/login')
    await v.heading('Sign in')
  }
  const enterPassword = async (email = ADA) => {
    await v.fill('E-mail', email)
    await v.fill('Password', PASSWORD)
    await v.button('Sign in').click()
  }

  test('an authenticator app: QR code and key, the same after a reload; then recovery codes that survive one too', async () => {
    await v.goto('/account')
    await v.page.getByRole('heading', { name: 'Authenticator app' }).waitFor()
    await inspect('account-without')
    await v.button('Set up').click()
    await v.heading('Set up authenticator app')
    const key = v.page.locator('code').filter({ hasText: /^([A-Z2-7]{4} ?)+$/ })
    const shown = (await key.textContent()) ?? ''
    await v.page.reload()
    await key.waitFor()
    expect(await key.textContent()).toBe(shown)
    await v.page.getByRole('img', { name: 'QR code for your authenticator app' }).waitFor()
    await inspect('authenticator')
    secret = fromBase32(shown.replaceAll(' ', ''))
    await v.fill('6-digit code', '000000')
    await v.button('Confirm').click()
    await v.text(/The code is wrong/).waitFor()
    await v.fill('6-digit code', await nextCode())
    await v.button('Confirm').click()
    await v.heading('Recovery codes')
    const codes = v.page.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem')
    await codes.first().waitFor()
    const before = await codes.allTextContents()
    expect(before).toHaveLength(10)
    await v.page.reload()
    await v.heading('Recovery codes')
    await codes.first().waitFor()
    recovery = await codes.allTextContents()
    expect(recovery).toEqual(before)
    await inspect('recovery-codes')
    const address = v.page.url()
    await v.button("I've saved them").click()
    await v.heading('Account')
    await v.page.goto(address)
    await v.text(/no longer shown/).waitFor()
  })

  test('signing in asks for the code, says when it is wrong, and takes a recovery code instead', async () => {
    await signOut()
    await inspect('sign-in')
    await enterPassword()
    await v.heading('Two-factor sign-in')
    await v.page.reload() // the step survives it
    await v.heading('Two-factor sign-in')
    await inspect('second-step')
    await v.fill('6-digit code', '000000')
    await v.button('Continue').click()
    await v.text(/The code is wrong or was used/).waitFor()
    await v.fill('6-digit code', await nextCode())
    await v.button('Continue').click()
    await v.heading('Projects')
    await signOut()
    await enterPassword()
    await v.button('Use a recovery code').click()
    await v.fill('Recovery code', recovery[0] ?? '')
    await v.button('Continue').click()
    await v.heading('Projects')
    await v.goto('/account')
    await v.text('9 left.').waitFor()
  })

  test('a passkey is added, named and used: without a password, as the second factor, never unverified', async () => {
    await v.goto('/account')
    await v.button('Add passkey').click()
    await dialog().getByLabel('Name').fill('Ada’s laptop')
    await dialog().getByRole('button', { name: 'Continue' }).click()
    const keys = v.page.getByRole('list', { name: 'Passkeys' })
    await keys.getByText('Ada’s laptop').waitFor()
    await v.button('Rename Ada’s laptop').click()
    await dialog().getByLabel('Name').fill('Work laptop')
    await dialog().getByRole('button', { name: 'Save changes' }).click()
    await keys.getByText('Work laptop').waitFor()
    await inspect('account-with')

    await signOut()
    await v.button('Sign in with a passkey').click()
    await v.heading('Projects')

    await signOut()
    await enterPassword()
    await v.button('Use a passkey').click()
    await v.heading('Projects')

    await signOut()
    await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
    await v.button('Sign in with a passkey').click()
    await v.text('The passkey was not used. Try again.').waitFor()
    await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true })
    await v.button('Sign in with a passkey').click()
    await v.heading('Projects')
  })

  test('after a while a change asks who it is; the passkey answers, and can be removed', async () => {
    await cp.advance(20 * 60_000)
    await v.goto('/account')
    await v.button('New codes').click()
    await dialog().getByRole('button', { name: 'Make new codes' }).click()
    await v.page.getByRole('heading', { name: "Confirm it's you" }).waitFor()
    await dialog().last().getByLabel('Password').fill('wrong wrong wrong')
    await dialog().last().getByRole('button', { name: 'Confirm' }).click()
    await v.text('The password is wrong.').waitFor()
    await dialog().last().getByRole('button', { name: 'Use a passkey' }).click()
    await v.heading('Recovery codes')
    await v.goto('/account')
    await v.button('Remove Work laptop').click()
    await dialog().getByRole('button', { name: 'Remove' }).click()
    // said when it is done; the list alone is out of reach as soon as the dialog is open
    await v.text('Passkey removed.').waitFor()
    await v.page.getByRole('list', { name: 'Passkeys' }).waitFor({ state: 'detached' })
    await signOut()
    await v.button('Sign in with a passkey').click()
    await v.text(/This passkey is not known here/).waitFor()
    await enterPassword()
    await v.fill('6-digit code', await nextCode())
    await v.button('Continue').click()
    await v.heading('Projects')
  })

  test('berth login: the page asks for both factors, then approves', async () => {
    const { device_code, user_code } = await startDevice(cp)
    await v.context.clearCookies()
    await v.goto(`/device?code=${user_code}`)
    await v.heading('Sign in')
    await enterPassword()
    await v.fill('6-digit code', await nextCode())
    await v.button('Continue').click()
    await v.heading('Log in to the CLI')
    await v.button('Continue').click()
    await inspect('device')
    await v.button('Approve').click()
    await v.text('Approved. You can close this page.').waitFor()
    await cp.advance(6_000)
    expect((await poll(cp, device_code)).status).toBe(200)
  })

  test('a token and an invitation have an address that survives a reload', async () => {
    await v.goto('/account/tokens')
    const form = v.page.getByRole('form', { name: 'New token' })
    await form.getByLabel('Name').fill('CI of shop')
    await form.getByRole('button', { name: 'Create token' }).click()
    await v.heading('New token')
    const value = v.page.locator('code').filter({ hasText: 'berth_pat_' })
    const token = await value.textContent()
    await v.page.reload()
    await value.waitFor()
    expect(await value.textContent()).toBe(token)
    await inspect('new-token')
    await v.button("I've saved it").click()
    await v.heading('Tokens')
    await v.page.getByRole('table', { name: 'Tokens' }).getByText('CI of shop').waitFor()
    await inspect('tokens')

    await v.goto('/org/members')
    await v.button(/Invite/).click()
    await dialog().getByLabel('E-mail').fill('linus@example.com')
    await dialog().getByRole('button', { name: 'Send invitation' }).click()
    await v.heading('Invitation link')
    await v.page.locator('code').filter({ hasText: '/invite/berth_invite_' }).waitFor()
    await v.link('Later').click()
    await v.heading('Members')
    await v.link('Show link').first().click()
    await v.heading('Invitation link')
    await v.goto('/org/members')
    await v.page.getByRole('table', { name: 'Invitations' }).waitFor()
    await inspect('members')
  })

  test('an organization requires it: a member without it reaches only the account page', async () => {
    await v.goto('/org/settings')
    await v.page.getByLabel('Require two-factor sign-in').check()
    await v.page
      .getByRole('form', { name: 'General' })
      .getByRole('button', { name: 'Save changes' })
      .click()
    await v.text('Saved.').waitFor()
    await inspect('organization')
    const member = await chrome.visit(cp.url)
    await member.goto('/login')
    await member.fill('E-mail', GRACE)
    await member.fill('Password', PASSWORD)
    await member.button('Sign in').click()
    await member.heading('Account')
    await member.text(/Acme requires two-factor sign-in/).waitFor()
    await member.goto('/servers')
    await member.heading('Account')
    await member.close()
    await v.goto('/account')
    await v.page.getByRole('heading', { name: 'Authenticator app' }).waitFor()
    await v.button('Remove').first().click()
    await dialog().getByRole('button', { name: 'Remove' }).click()
    await v.text(/Acme requires two-factor sign-in. Add another factor first/).waitFor()
    await cp.call('PATCH', '/api/organizations/1', { second_factor_required: false })
  })

  test('other sessions are listed and ended together', async () => {
    const other = await chrome.visit(cp.url)
    await other.signIn(GRACE, PASSWORD)
    const mine = await chrome.visit(cp.url)
    await mine.signIn(GRACE, PASSWORD)
    await mine.goto('/account')
    const table = mine.page.getByRole('table', { name: 'Sessions' })
    await table.getByText('This browser').waitFor()
    expect(await table.getByText(/Chrome on Linux/).count()).toBeGreaterThan(1)
    await mine.button('Sign out everywhere else').click()
    await mine.text('Signed out everywhere else.').waitFor()
    expect(await table.getByRole('row').count()).toBe(2)
    await other.goto('/account')
    await other.heading('Sign in')
    await other.close()
    await mine.close()
  })

  test('the provider signs a member in and returns to the page; a stranger reads the reason', async () => {
    const member = await chrome.visit(cp.url)
    const enter = async (login: string) => {
      await member.button('Continue with Acme ID').click()
      await member.page.locator('input[name=login]').fill(login)
      await member.page.locator('input[name=password]').fill('any')
      await member.page.getByRole('button', { name: /sign-in/i }).click()
    }
    await member.goto('/servers')
    await member.heading('Sign in')
    await enter('stranger@example.com')
    await member.text('You have no account here. Ask an administrator for an invitation.').waitFor()
    await member.context.clearCookies()
    await member.goto('/servers')
    await member.heading('Sign in')
    await enter(GRACE)
    await member.heading('Servers')
    await member.close()
  })

  test('no page had an error, refused content or a foreign request', () => {
    expect(v.complaints).toEqual([])
  })
})
