// Sign-in with a real OpenID Connect provider (oidc-provider, a process of its own): discovery, PKCE, state and nonce,
// who gets in, who is refused and why, and passwords that are switched off except for administrators.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OidcConfig } from '../../control-plane/src/config.ts'
import { OIDC_CLIENT, OidcServer } from '../fixtures/people/oidc.ts'
import { Browser, PASSWORD, person, setUpWithPassword } from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

describe.each(ENGINES)('sign-in with a provider on %s', (engine) => {
  let cp: TestControlPlane
  let provider: OidcServer
  const logged: string[] = []
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await setUpWithPassword(cp)
    await person(cp, 'Grace', 'developer')
    provider = await OidcServer.start(cp.url)
    await configure({})
  })
  afterAll(async () => {
    await cp.close()
    await provider.close()
  })

  async function configure(asked: Partial<OidcConfig>): Promise<void> {
    const oidc: OidcConfig = {
      issuer: provider.issuer,
      clientId: OIDC_CLIENT.id,
      clientSecret: OIDC_CLIENT.secret,
      name: 'Acme ID',
      domains: [],
      createsAccounts: false,
      passwords: 'everyone',
      ...asked,
    }
    cp.outside = { config: { oidc }, logTo: (line) => logged.push(line) }
    await cp.restart()
  }
  const codeOf = (answer: { body: { error?: { data: { code: string } } } }) =>
    answer.body.error?.data.code
  interface Session {
    user: { email: string; name: string } | null
    awaiting: object | null
    provider: { name: string; passwords: string } | null
  }
  const session = async (browser: Browser) =>
    (await browser.ask<Session>('session.get')).body.result?.data
  const begin = async (browser: Browser, next = '/projects/7') => {
    const answer = await browser.report<{ url: string }>('session.beginProvider', { next })
    expect(answer.status, answer.text).toBe(200)
    return answer.body.result?.data.url ?? ''
  }
  /** Returns where the browser ends. */
  async function enter(browser: Browser, login: string): Promise<string> {
    const back = await provider.signIn(await begin(browser), login)
    expect(back.origin).toBe(cp.url)
    const to = await browser.open(`${back.pathname}${back.search}`)
    return (to ?? '').slice(cp.url.length)
  }

  test('an account is linked by its verified address, and returns to the page that asked', async () => {
    const browser = new Browser(cp)
    expect(await session(browser)).toMatchObject({ user: null, provider: { name: 'Acme ID' } })
    expect(await enter(browser, 'Grace@Example.com')).toBe('/projects/7')
    expect(await session(browser)).toMatchObject({ user: { email: 'grace@example.com' } })
    const { db } = cp.running.ctx
    const accounts = await db
      .selectFrom('accounts')
      .selectAll()
      .where('provider', '=', 'oidc')
      .execute()
    expect(accounts).toMatchObject([
      { subject: `${provider.issuer}#Grace@Example.com`, passwordHash: null },
    ])
    const verbs = await db.selectFrom('audit').select(['verb', 'details']).execute()
    expect(verbs.map((row) => row.verb)).toContain('account.link')
    // the second time there is nothing to link
    expect(await enter(new Browser(cp), 'Grace@Example.com')).toBe('/projects/7')
  })

  test('the request has PKCE, a state and a nonce; an answer works once, and only in its browser', async () => {
    const browser = new Browser(cp)
    const url = new URL(await begin(browser))
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      client_id: 'berth',
      response_type: 'code',
      code_challenge_method: 'S256',
      redirect_uri: `${cp.url}/api/auth/callback/oidc`,
      scope: 'openid email profile',
    })
    for (const name of ['state', 'nonce', 'code_challenge']) {
      expect(url.searchParams.get(name)?.length, name).toBeGreaterThan(20)
    }
    expect(url.href).not.toContain(OIDC_CLIENT.secret)
    const back = await provider.signIn(url.href, 'grace@example.com')
    const path = `${back.pathname}${back.search}`
    const thief = new Browser(cp)
    expect(await thief.open(path)).toContain(`${cp.url}/login?error=`)
    expect(await session(thief)).toMatchObject({ user: null })
    expect(await browser.open(path)).toBe(`${cp.url}/projects/7`)
    expect(await browser.open(path)).toContain(`${cp.url}/login?error=`)
  })

  test('an answer without or with a foreign state is refused', async () => {
    for (const query of ['', '?code=x', '?code=x&state=y', '?error=access_denied&state=y']) {
      const browser = new Browser(cp)
      const to = await browser.open(`/api/auth/callback/oidc${query}`)
      expect(to, query).toContain(`${cp.url}/login?error=`)
      expect(await session(browser)).toMatchObject({ user: null })
    }
    // the library's own way to begin does not exist from outside, nor does any other provider
    const began = await new Browser(cp).send('POST', '/sign-in/social', { provider: 'oidc' })
    expect(began.status).toBe(404)
    expect((await new Browser(cp).send('POST', '/sign-in/passkey', {})).status).toBe(404)
    const other = await new Browser(cp).report('session.beginProvider', { next: '//evil.example' })
    expect(codeOf(other)).toBe('validation_failed')
  })

  test('an address that the provider did not verify opens no account', async () => {
    const browser = new Browser(cp)
    expect(await enter(browser, 'unverified:ada@example.com')).toBe('/login?error=not_verified')
    expect(await enter(browser, 'nameless')).toBe('/login?error=no_email')
    expect(await session(browser)).toMatchObject({ user: null })
  })

  test('strangers need an invitation, or an installation that creates accounts, within its domains', async () => {
    const eve = new Browser(cp)
    expect(await enter(eve, 'eve@example.com')).toBe('/login?error=no_account')
    await cp.make('/api/organizations/1/invitations', { email: 'eve@example.com', role: 'viewer' })
    expect(await enter(eve, 'eve@example.com')).toBe('/projects/7')
    expect(await session(eve)).toMatchObject({ user: { name: 'Person eve' } })

    await configure({ createsAccounts: true, domains: ['example.com'] })
    const linus = new Browser(cp)
    expect(await enter(linus, 'linus@example.com')).toBe('/projects/7')
    const me = await linus.ask<{ organizations: unknown[] }>('me')
    expect(me.body.result?.data.organizations).toEqual([])
    expect(await enter(new Browser(cp), 'linus@evil-example.com')).toBe('/login?error=domain')
    expect(await enter(new Browser(cp), 'unverified:new@example.com')).toBe(
      '/login?error=not_verified',
    )
  })

  test('a disabled account stays out', async () => {
    const eve = await cp.running.ctx.db
      .selectFrom('users')
      .select('id')
      .where('email', '=', 'eve@example.com')
      .executeTakeFirstOrThrow()
    await cp.call('PATCH', `/api/admin/users/${eve.id}`, { disabled: true })
    expect(await enter(new Browser(cp), 'eve@example.com')).toBe('/login?error=disabled')
  })

  test('passwords can be switched off, except for administrators', async () => {
    await configure({ passwords: 'administrators' })
    const grace = new Browser(cp)
    const asked = { email: 'grace@example.com', password: PASSWORD }
    const refused = await grace.report('session.signIn', asked)
    expect([refused.status, codeOf(refused)]).toEqual([403, 'password_sign_in_off'])
    expect(refused.body.error?.message).toContain('Continue with Acme ID')
    expect(await session(grace)).toMatchObject({ user: null })
    // a wrong password says nothing about it
    expect(codeOf(await grace.report('session.signIn', { ...asked, password: 'x' }))).toBe(
      'sign_in_failed',
    )
    const ada = new Browser(cp)
    await ada.report('session.signIn', { email: 'ada@example.com', password: PASSWORD })
    expect(await session(ada)).toMatchObject({ user: { email: 'ada@example.com' } })
    expect(await enter(new Browser(cp), 'grace@example.com')).toBe('/projects/7')
  })

  test('a provider that is down, lies about its issuer or redirects is refused; the log has the reason, not the secret', async () => {
    const answers: [number, Record<string, string>, string][] = [
      [500, {}, 'down'],
      [200, {}, JSON.stringify({ issuer: 'https://evil.example' })],
      [302, { location: 'http://169.254.169.254/' }, ''],
      [200, {}, 'x'.repeat(20)],
    ]
    let turn = 0
    const liar = createServer((_request, response) => {
      const [status, headers, body] = answers[turn++ % answers.length] ?? [500, {}, '']
      response.writeHead(status, headers).end(body)
    }).listen(0, '127.0.0.1')
    await once(liar, 'listening')
    const { port } = liar.address() as AddressInfo
    await configure({ issuer: `http://127.0.0.1:${port}` })
    for (const _ of answers) {
      const answer = await new Browser(cp).report('session.beginProvider', { next: '/' })
      expect([answer.status, codeOf(answer)]).toEqual([401, 'provider_refused'])
    }
    liar.close()
    const text = logged.join('')
    expect(text).toContain('discovery: answered 500')
    expect(text).toContain('redirects to another address')
    expect(text).not.toContain(OIDC_CLIENT.secret)
  })
})
