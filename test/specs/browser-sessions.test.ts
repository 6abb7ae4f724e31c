// Users at the dashboard's gateway: first set-up, sign-in and sign-out, passwords, other browsers, devices and
// invitations over tRPC; pages of other sites can do none of it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  Browser,
  listMails,
  mailTo,
  PASSWORD,
  poll,
  type Said,
  startDevice,
  tokenIn,
} from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'

const ADA = 'ada@example.com'
const NEW = 'another horse staple'

describe('sessions of browsers', () => {
  let cp: TestControlPlane
  beforeAll(async () => {
    cp = await TestControlPlane.start('sqlite')
  })
  afterAll(() => cp.close())

  interface Me {
    setup_required: boolean
    user: { email: string } | null
  }
  const who = async (browser: Browser) => (await browser.ask<Me>('session.get')).body.result?.data
  const codeOf = (answer: { body: { error?: { data: { code: string } } } }) =>
    answer.body.error?.data.code
  async function signedIn(email = ADA, password = PASSWORD): Promise<Browser> {
    const browser = new Browser(cp)
    const answer = await browser.report('session.signIn', { email, password })
    expect(answer.status, answer.text).toBe(200)
    return browser
  }

  test('the first set-up needs the token of the console, signs in, and leaves no token behind', async () => {
    const browser = new Browser(cp)
    expect(await who(browser)).toMatchObject({ setup_required: true, user: null })
    const asked = { name: 'Ada', email: ADA, organization: 'Acme', password: PASSWORD }
    const wrong = await browser.report('session.setUp', { ...asked, token: 'berth_setup_x' })
    expect(codeOf(wrong)).toBe('setup_token_invalid')
    const token = cp.running.setupToken
    const short = await browser.report('session.setUp', { ...asked, token, password: 'short' })
    expect(codeOf(short)).toBe('validation_failed')
    const made = await browser.report('session.setUp', { ...asked, token })
    expect(made.body.result?.data).toMatchObject({ organization: { slug: 'acme' } })
    expect(made.text).not.toContain('berth_pat_')
    expect(await who(browser)).toMatchObject({ setup_required: false, user: { email: ADA } })
    const me = await browser.ask<{ organizations: { role: string }[] }>('me')
    expect(me.body.result?.data.organizations).toMatchObject([{ role: 'owner' }])
    const { db } = cp.running.ctx
    expect(await db.selectFrom('tokens').select('id').execute()).toEqual([])
    expect(codeOf(await new Browser(cp).report('session.setUp', { ...asked, token }))).toBe(
      'setup_done',
    )
  })

  test('the cookie is for the server alone, and signing out ends the session there', async () => {
    const browser = new Browser(cp)
    const answer = await browser.report('session.signIn', { email: ADA, password: PASSWORD })
    const [line = ''] = browser.setCookies
    for (const part of ['HttpOnly', 'SameSite=Lax', 'Path=/'])
      expect(line.split('; ')).toContain(part)
    const [secret = ''] = decodeURIComponent(browser.cookies.get('berth_session') ?? '').split('.')
    expect(secret.length).toBeGreaterThan(20)
    expect(answer.text).not.toContain(secret)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const stale = new Browser(cp)
    stale.cookies.set('berth_session', browser.cookies.get('berth_session') ?? '')
    expect((await browser.report('session.signOut')).status).toBe(200)
    expect(browser.cookies.size).toBe(0)
    expect(await who(stale)).toMatchObject({ user: null })
    expect(codeOf(await stale.ask('me'))).toBe('token_missing')
    // each of two batched calls gets its own answer
    const both = await stale.fetch<[Said<Me>, Said<null>]>('GET', '/trpc/session.get,me?batch=1')
    expect(both.body).toMatchObject([
      { result: { data: { user: null } } },
      { error: { data: { code: 'token_missing' } } },
    ])
  })

  test('looking keeps a session alive; two weeks without a look end it', async () => {
    const browser = await signedIn()
    for (const days of [13, 13]) {
      await cp.advance(days * 86_400_000)
      expect(await who(browser)).toMatchObject({ user: { email: ADA } })
    }
    await cp.advance(15 * 86_400_000)
    expect(await who(browser)).toMatchObject({ user: null })
  })

  test('a wrong password and an unknown address are answered alike, and counted at both endpoints', async () => {
    await cp.advance(61_000)
    const wrong = await new Browser(cp).report('session.signIn', { email: ADA, password: 'x' })
    const unknown = await new Browser(cp).report('session.signIn', {
      email: 'e@e.e',
      password: 'x',
    })
    expect([wrong.status, codeOf(wrong)]).toEqual([401, 'sign_in_failed'])
    const plain = (text: string) => text.replace(/req_[\w-]+/, '')
    expect(plain(unknown.text)).toBe(plain(wrong.text))
    const statuses: number[] = []
    for (let n = 0; n < 9; n++) {
      const email = `guess${n}@example.com`
      const answer = await (n % 2 === 0
        ? new Browser(cp).report('session.signIn', { email, password: 'x' })
        : new Browser(cp).signIn(email, 'x'))
      statuses.push(answer.status)
    }
    expect(statuses).toEqual([...Array(8).fill(401), 429])
    await cp.advance(61_000)
    await signedIn()
  })

  test('pages of others are refused; so is what is not JSON, and a token instead of a browser', async () => {
    const browser = await signedIn()
    for (const origin of ['https://evil.example', 'null', `${cp.url}.evil.example`]) {
      for (const [name, input] of [
        ['session.signOut', {}],
        ['session.signIn', { email: ADA, password: PASSWORD }],
        ['organization.update', { organization_id: 1, name: 'Evil' }],
      ] as const) {
        const answer = await browser.report(name, input, { origin })
        expect([answer.status, answer.text], origin).toEqual([
          403,
          expect.stringContaining('origin_forbidden'),
        ])
      }
    }
    const { cookie } = browser
    const bare = { cookie, authorization: '' }
    const body = { organization_id: 1, name: 'Evil' }
    expect((await cp.call('POST', '/trpc/organization.update', body, bare)).status).toBe(403)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      const text = JSON.stringify(body)
      const answer = await browser.fetch('POST', '/trpc/organization.update', text, {
        'content-type': type,
      })
      expect(answer.status, type).toBe(415)
    }
    const made = await browser.report<{ token: string }>('token.create', {
      name: 'ci',
      scopes: ['read', 'deploy', 'write', 'ssh', 'admin'],
      expires_in_days: 1,
    })
    const authorization = `Bearer ${made.body.result?.data.token}`
    const answer = await cp.call('GET', '/trpc/session.list', undefined, { authorization })
    expect(answer.status).toBe(401)
    expect((await cp.call('GET', '/trpc/me', undefined, { authorization })).status).toBe(200)
  })

  test('other browsers are listed and can be ended; a new password ends them all', async () => {
    interface List {
      sessions: { id: number; is_current: boolean; address: string }[]
    }
    const one = await signedIn()
    const other = await signedIn()
    const list = async () => (await one.ask<List>('session.list')).body.result?.data.sessions ?? []
    const [newest] = await list()
    expect((await list()).filter((s) => s.is_current)).toHaveLength(1)
    expect(newest).toMatchObject({ is_current: false, address: '127.0.0.1' })
    expect((await one.report('session.revoke', { session_id: newest?.id })).status).toBe(200)
    expect(await who(other)).toMatchObject({ user: null })
    expect(codeOf(await one.report('session.revoke', { session_id: newest?.id }))).toBe('not_found')

    const third = await signedIn()
    const change = (current_password: string) =>
      one.report('session.changePassword', { current_password, new_password: NEW })
    expect(codeOf(await change('wrong wrong'))).toBe('sign_in_failed')
    expect((await change(PASSWORD)).status).toBe(200)
    expect(await who(one)).toMatchObject({ user: { email: ADA } })
    expect(await who(third)).toMatchObject({ user: null })
    await signedIn(ADA, NEW)
  })

  test('a forgotten password: the link works once, and says nothing about who has an account', async () => {
    await cp.advance(16 * 60_000)
    const browser = new Browser(cp)
    const asked = await browser.report('session.requestReset', { email: ADA })
    const unknown = await browser.report('session.requestReset', { email: 'nobody@example.com' })
    expect(unknown.text).toBe(asked.text)
    const token = tokenIn(await mailTo(cp, ADA, 'password_reset'))
    const reset = (text: string) =>
      browser.report('session.reset', { token: text, password: PASSWORD })
    expect(codeOf(await reset('x'))).toBe('reset_link_invalid')
    expect((await reset(token)).status).toBe(200)
    expect(codeOf(await reset(token))).toBe('reset_link_invalid')
    await signedIn()
    expect((await listMails(cp)).some((m) => m.recipient === 'nobody@example.com')).toBe(false)
  })

  test('a device is looked at, then approved, by somebody who is signed in', async () => {
    const { device_code, user_code } = await startDevice(cp)
    expect(codeOf(await new Browser(cp).report('device.approve', { user_code }))).toBe(
      'token_missing',
    )
    const browser = await signedIn()
    const shown = await browser.report('device.describe', { user_code })
    expect(shown.body.result?.data).toMatchObject({ device_name: 'ada-laptop', user_code })
    expect((await poll(cp, device_code)).body.error).toBe('authorization_pending')
    await browser.report('device.approve', { user_code })
    await cp.advance(6_000)
    expect((await poll(cp, device_code)).status).toBe(200)
  })

  test('an invitation is described and makes an account; somebody else cannot accept it', async () => {
    const ada = await signedIn()
    await ada.report('invitation.create', {
      organization_id: 1,
      email: 'grace@example.com',
      role: 'developer',
    })
    const token = tokenIn(await mailTo(cp, 'grace@example.com', 'invitation'))
    const grace = new Browser(cp)
    const offer = await grace.report('invitation.describe', { token })
    expect(offer.body.result?.data).toMatchObject({ role: 'developer', account_exists: false })
    expect(codeOf(await ada.report('invitation.accept', { token }))).toBe(
      'invitation_for_other_address',
    )
    await grace.report('invitation.register', { token, name: 'Grace', password: PASSWORD })
    await grace.report('session.signIn', { email: 'grace@example.com', password: PASSWORD })
    const members = await grace.ask<{ members: { role: string }[] }>('member.list', {
      organization_id: 1,
    })
    expect(members.body.result?.data.members.map((m) => m.role)).toEqual(['owner', 'developer'])
  })
})
