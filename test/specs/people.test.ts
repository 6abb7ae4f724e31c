// Accounts, passwords and logins, from outside: over HTTP, as browsers and as attackers do.
import { request } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { admitSignIn, replacePassword } from '../../control-plane/src/app/people/sign-in.ts'
import type { Context } from '../../control-plane/src/context.ts'
import { hashPassword } from '../../control-plane/src/identity/passwords.ts'
import { requestOrigin } from '../../control-plane/src/identity/sign-in/adapter.ts'
import { createIdentity } from '../../control-plane/src/identity/sign-in/auth.ts'
import {
  Browser,
  linkIn,
  listMails,
  mailTo,
  PASSWORD,
  person,
  setUpWithPassword,
  tokenIn,
} from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { type Held, holdChanges } from '../fixtures/platform/hold-changes.ts'

/** Stops the next request of the sign-in library before its write. */
function holdSignIn(ctx: Context): Held {
  const { db } = ctx
  const held = holdChanges(db, () => requestOrigin.getStore() !== undefined)
  ctx.db = held.db
  void held.reached.then(() => {
    ctx.db = db
  })
  return held
}

const ADA = 'ada@example.com'
const MINUTE = 60_000

describe.each(ENGINES)('people, on %s', (engine) => {
  let cp: TestControlPlane
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await setUpWithPassword(cp)
  })
  afterAll(() => cp.close())
  beforeEach(() => cp.advance(2 * MINUTE)) // resets the limits by address

  const signedIn = async (email = ADA, password = PASSWORD) => {
    const browser = new Browser(cp)
    const answer = await browser.signIn(email, password)
    expect(answer.status, answer.text).toBe(200)
    return browser
  }
  const audited = async (verb: string) => {
    const { db } = cp.running.ctx
    return db.selectFrom('audit').selectAll().where('verb', '=', verb).execute()
  }

  test('an administrator who was set up with a password signs in, whatever the case of the address', async () => {
    const browser = await signedIn('ADA@example.COM')
    expect(await browser.user()).toBe(ADA)
    expect((await cp.call('GET', '/api/me')).body).toMatchObject({ email: ADA })
    expect(await audited('session.begin')).not.toHaveLength(0)
  })

  test('the session cookie is HttpOnly and SameSite=Lax, and its token is nowhere else', async () => {
    const browser = new Browser(cp)
    const answer = await browser.signIn(ADA, PASSWORD)
    const line = browser.setCookies.find((c) => c.startsWith('berth_session='))
    expect(line).toMatch(/; Path=\/(;|$)/)
    expect(line).toMatch(/; HttpOnly/)
    expect(line).toMatch(/; SameSite=Lax/)
    expect(line).not.toMatch(/Domain=/i)
    const [secret = ''] = decodeURIComponent(browser.cookies.get('berth_session') ?? '').split('.')
    expect(secret.length).toBeGreaterThan(20)
    expect(answer.text).not.toContain(secret)
    expect((await browser.send('GET', '/get-session')).text).not.toContain(secret)
    const rows = await cp.running.ctx.db.selectFrom('browserSessions').selectAll().execute()
    expect(rows.length).toBeGreaterThan(0)
    expect(JSON.stringify(rows)).not.toContain(secret)
  })

  test('over https the cookie is bound to this very host', async () => {
    const ctx = { ...cp.running.ctx, baseUrl: 'https://deploy.example.com' }
    const identity = createIdentity(() => ctx, 'x'.repeat(40))
    const asked = new Request('https://deploy.example.com/api/auth/sign-in/email', {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: ctx.baseUrl },
      body: JSON.stringify({ email: ADA, password: PASSWORD }),
    })
    const answer = await identity.answer(asked, { address: '127.0.0.1', requestId: 'r' })
    expect(answer.status).toBe(200)
    const [line = ''] = answer.headers.getSetCookie()
    expect(line).toMatch(/^__Host-berth_session=/)
    for (const part of ['Secure', 'HttpOnly', 'SameSite=Lax', 'Path=/']) {
      expect(line.split('; ')).toContain(part)
    }
    expect(line).not.toMatch(/Domain=/i)
  })

  test('signing out ends the session on the server, not only in the browser', async () => {
    const browser = await signedIn()
    const { cookie } = browser
    expect((await browser.send('POST', '/sign-out', {})).status).toBe(200)
    const stale = await new Browser(cp).send('GET', '/get-session', undefined, { cookie })
    expect(stale.body).toBeNull()
  })

  test('a session ends after 14 days without use', async () => {
    const browser = await signedIn()
    await cp.advance(13 * 86_400_000)
    expect(await browser.user()).toBe(ADA) // and is renewed by it
    await cp.advance(13 * 86_400_000)
    expect(await browser.user()).toBe(ADA)
    await cp.advance(15 * 86_400_000)
    expect(await browser.user()).toBeUndefined()
  })

  test('a cookie with one changed character, or one given to the browser before, is nobody’s', async () => {
    const browser = await signedIn()
    const good = browser.cookies.get('berth_session') ?? ''
    // by another character in any case; the last one of a signature has bits that do not count
    const first = good.startsWith('x') ? 'y' : 'x'
    const last = good.endsWith('A') ? 'Q' : 'A'
    const changed = [`${first}${good.slice(1)}`, `${good.slice(0, -1)}${last}`]
    for (const bad of [...changed, good.split('.')[0] ?? '']) {
      const cookie = `berth_session=${bad}`
      const answer = await new Browser(cp).send('GET', '/get-session', undefined, { cookie })
      expect(answer.body, bad).toBeNull()
    }
    const fixed = new Browser(cp)
    fixed.cookies.set('berth_session', good)
    await fixed.signIn(ADA, PASSWORD)
    expect(fixed.cookies.get('berth_session')).not.toBe(good)
  })

  test('sign-up is closed: accounts arise by set-up and invitation only', async () => {
    const { db } = cp.running.ctx
    const count = async () => (await db.selectFrom('users').select('id').execute()).length
    const before = await count()
    const body = { name: 'Eve', email: 'eve@example.com', password: PASSWORD }
    for (const path of ['/sign-up/email', '/sign-up', '/update-user', '/delete-user', '/ok']) {
      expect((await new Browser(cp).send('POST', path, body)).status, path).toBe(404)
    }
    const setup = { token: 'berth_setup_x', organization: 'E', ...body }
    expect((await cp.call('POST', '/api/setup', setup)).body.code).toBe('setup_done')
    expect(await count()).toBe(before)
  })

  test('pages of others are refused, with and without a cookie; forms and text are no sign-in', async () => {
    const browser = await signedIn()
    for (const origin of ['https://evil.example', 'null', `${cp.url}.evil.example`]) {
      const out = await browser.send('POST', '/sign-out', {}, { origin })
      expect([out.status, out.body.code], origin).toEqual([403, 'origin_forbidden'])
      const body = { email: ADA, password: PASSWORD }
      const sign = await new Browser(cp).send('POST', '/sign-in/email', body, { origin })
      expect(sign.status, origin).toBe(403)
    }
    const { cookie } = browser
    const bare = await cp.call('POST', '/api/auth/sign-out', {}, { cookie, authorization: '' })
    expect(bare.body.code).toBe('origin_forbidden')
    expect(await browser.user()).toBe(ADA)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      const answer = await new Browser(cp).send(
        'POST',
        '/sign-in/email',
        `{"email":"${ADA}","password":"${PASSWORD}"}`,
        { 'content-type': type },
      )
      expect(answer.status, type).toBe(415)
    }
  })

  test('REST ignores cookies', async () => {
    const { cookie } = await signedIn()
    const answer = await cp.call('GET', '/api/me', undefined, { cookie, authorization: '' })
    expect([answer.status, answer.body.code]).toEqual([401, 'token_missing'])
  })

  test('a known and an unknown address answer alike', async () => {
    const wrong = await new Browser(cp).signIn(ADA, 'not the password')
    const unknown = await new Browser(cp).signIn('nobody@example.com', 'not the password')
    expect(wrong.status).toBe(401)
    expect([unknown.status, unknown.text]).toEqual([wrong.status, wrong.text])
    const reset = (email: string) =>
      new Browser(cp).send('POST', '/request-password-reset', { email })
    const [one, other] = [await reset(ADA), await reset('nobody@example.com')]
    expect([one.status, one.text]).toEqual([other.status, other.text])
    expect(one.status).toBe(200)
  })

  test('ten wrong passwords lock the account for 15 minutes, known or not, from any address', async () => {
    await person(cp, 'Lock', 'viewer')
    for (const email of ['lock@example.com', 'never@example.com']) {
      for (let n = 0; n < 10; n++) {
        if (n === 9) await cp.advance(2 * MINUTE) // another test covers the limit by address
        expect((await new Browser(cp).signIn(email, 'wrong wrong')).status, email).toBe(401)
      }
      const locked = await new Browser(cp).signIn(email, PASSWORD)
      expect([locked.status, locked.body.code], email).toEqual([429, 'rate_limited'])
      expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(800)
      await cp.advance(14 * MINUTE)
      expect((await new Browser(cp).signIn(email, PASSWORD)).status, email).toBe(429)
      await cp.advance(2 * MINUTE)
    }
    await signedIn('lock@example.com')
    expect(await audited('account.lock')).toHaveLength(2)
  })

  test('many wrong passwords at the same moment do not slip past the lock', async () => {
    const tries = Array.from({ length: 25 }, () =>
      admitSignIn(cp.running.ctx, 'burst@example.com').then(
        () => 'admitted',
        () => 'refused',
      ),
    )
    const verdicts = await Promise.all(tries)
    expect(verdicts.filter((v) => v === 'admitted')).toHaveLength(10)
  })

  test('ten failed sign-ins a minute from one address, whatever it says it is; good ones do not count', async () => {
    for (let n = 0; n < 12; n++) await signedIn()
    const forwarded = (n: number) => ({ 'x-forwarded-for': `203.0.113.${n}` })
    const tried: number[] = []
    for (let n = 0; n < 12; n++) {
      const body = { email: `guess${n}@example.com`, password: 'wrong wrong' }
      const answer = await new Browser(cp).send('POST', '/sign-in/email', body, forwarded(n))
      tried.push(answer.status)
    }
    expect(tried).toEqual([...Array(10).fill(401), 429, 429])
  })

  test('guessing the present password counts as guessing at sign-in does', async () => {
    const { email } = await person(cp, 'Guess', 'viewer')
    const browser = await signedIn(email)
    const guess = () => {
      const body = { currentPassword: 'wrong wrong', newPassword: 'another horse staple' }
      return browser.send('POST', '/change-password', body)
    }
    for (let n = 0; n < 10; n++) {
      if (n === 9) await cp.advance(2 * MINUTE) // another test covers the limit by address
      expect((await guess()).status).toBe(400)
    }
    const locked = await guess()
    expect([locked.status, locked.body.code]).toEqual([429, 'rate_limited'])
    expect((await new Browser(cp).signIn(email, PASSWORD)).status).toBe(429)
    const nobody = await new Browser(cp).send('POST', '/change-password', {})
    expect([nobody.status, nobody.body.code]).toEqual([401, 'token_missing'])
    await cp.advance(16 * MINUTE)
    await signedIn(email)
  })

  test('what else the library has behind a password, or at all, does not exist', async () => {
    const browser = await signedIn()
    const unused =
      '/verify-password /delete-user /delete-user/callback /change-email /set-password /sign-up/email ' +
      '/sign-in/social /update-user /update-session /list-sessions /list-accounts /revoke-session ' +
      '/revoke-sessions /revoke-other-sessions /link-social /unlink-account /account-info /ok /error ' +
      '/send-verification-email /verify-email /get-access-token /refresh-token /callback/x /reset-password/x'
    for (const path of unused.split(' ')) {
      for (const method of ['GET', 'POST']) {
        const body = method === 'GET' ? undefined : { password: PASSWORD }
        const answer = await browser.send(method, path, body)
        expect([method, path, answer.status]).toEqual([method, path, 404])
      }
    }
  })

  test('a password change ends other sessions and logins, and leaves personal tokens', async () => {
    const { email, token: login } = await person(cp, 'Carol', 'developer')
    const me = (token: string) =>
      cp.call('GET', '/api/me', undefined, { authorization: `Bearer ${token}` })
    const made = await cp.call<{ token: string }>(
      'POST',
      '/api/tokens',
      { name: 'ci', scopes: ['read'], expires_in_days: 1 },
      { authorization: `Bearer ${login}` },
    )
    const [one, other] = [await signedIn(email), await signedIn(email)]
    const body = { currentPassword: 'wrong wrong', newPassword: 'another horse staple' }
    expect((await one.send('POST', '/change-password', body)).status).toBe(400)
    const short = { currentPassword: PASSWORD, newPassword: 'short' }
    expect((await one.send('POST', '/change-password', short)).status).toBe(400)
    expect(await other.user()).toBe(email)
    const good = { ...body, currentPassword: PASSWORD, revokeOtherSessions: false }
    expect((await one.send('POST', '/change-password', good)).status).toBe(200)
    expect(await one.user()).toBe(email)
    expect(await other.user()).toBeUndefined()
    expect((await me(login)).body.code).toBe('token_revoked')
    expect((await me(made.body.token)).status).toBe(200)
    expect((await new Browser(cp).signIn(email, PASSWORD)).status).toBe(401)
    await signedIn(email, 'another horse staple')
    expect(await audited('password.change')).toHaveLength(1)
  })

  describe('a mailed reset link', () => {
    const EMAIL = 'grace@example.com'
    const ask = () => new Browser(cp).send('POST', '/request-password-reset', { email: EMAIL })
    const reset = (token: string, newPassword = 'brand new password') =>
      new Browser(cp).send('POST', '/reset-password', { token, newPassword })
    let sent = 0
    const link = async () => {
      await cp.advance(16 * MINUTE) // three mails in 15 minutes
      expect((await ask()).status).toBe(200)
      sent += 1
      return mailTo(cp, EMAIL, 'password_reset', sent)
    }
    beforeAll(async () => {
      await person(cp, 'Grace', 'viewer')
    })

    test('works once, ends every session and login, and lets the new password in', async () => {
      const before = await signedIn(EMAIL)
      const token = tokenIn(await link())
      const answers = await Promise.all([reset(token), reset(token), reset(token)])
      expect(answers.map((a) => a.status).sort()).toEqual([200, 400, 400])
      expect((await reset(token)).status).toBe(400)
      expect(await before.user()).toBeUndefined()
      expect((await new Browser(cp).signIn(EMAIL, PASSWORD)).status).toBe(401)
      await signedIn(EMAIL, 'brand new password')
    })

    test('is made from the configured address, never from what the request calls its host', async () => {
      await cp.advance(16 * MINUTE)
      sent += 1
      await new Promise((resolve, reject) => {
        const headers = {
          host: 'evil.example',
          'x-forwarded-host': 'evil.example',
          'content-type': 'application/json',
        }
        request(`${cp.url}/api/auth/request-password-reset`, { method: 'POST', headers }, resolve)
          .on('error', reject)
          .end(JSON.stringify({ email: EMAIL }))
      })
      const mail = await mailTo(cp, EMAIL, 'password_reset', sent)
      expect(linkIn(mail).origin).toBe(cp.url)
      expect(mail.text).not.toContain('evil.example')
    })

    test('is not in the database but sealed, and dies after an hour', async () => {
      const token = tokenIn(await link())
      const { db } = cp.running.ctx
      const rows = await Promise.all([
        db.selectFrom('verifications').selectAll().execute(),
        db.selectFrom('mails').selectAll().execute(),
        db.selectFrom('audit').selectAll().execute(),
      ])
      expect(rows[0].length).toBeGreaterThan(0)
      expect(JSON.stringify(rows)).not.toContain(token)
      await cp.advance(61 * MINUTE)
      expect((await reset(token)).status).toBe(400)
    })

    test('dies with the next password', async () => {
      const former = tokenIn(await link())
      const token = tokenIn(await link())
      expect((await reset(token)).status).toBe(200)
      expect((await reset(former)).status).toBe(400)
    })

    test.each([
      ['sign-in', 'Sign'],
      ['change of password', 'Change'],
    ])(
      'ends a %s that is under way: whoever knew the old password gets nothing',
      async (_, name) => {
        const who = `${name.toLowerCase()}@example.com`
        const { id } = await person(cp, name, 'viewer')
        const browser = name === 'Sign' ? new Browser(cp) : await signedIn(who)
        const passwords = { currentPassword: PASSWORD, newPassword: 'of the thief' }
        const held = holdSignIn(cp.running.ctx)
        const asked =
          name === 'Sign'
            ? browser.signIn(who, PASSWORD)
            : browser.send('POST', '/change-password', passwords)
        await held.reached // the password was correct, nothing is written yet
        const hash = await hashPassword('of the owner')
        await replacePassword(cp.running.ctx, id, hash, { address: '', requestId: 'reset' })
        held.go()
        expect((await asked).status).toBe(401)
        expect(await browser.user()).toBeUndefined()
        const sessions = cp.running.ctx.db.selectFrom('browserSessions').select('id')
        expect(await sessions.where('userId', '=', id).execute()).toEqual([])
        await signedIn(who, 'of the owner')
      },
    )

    test('opens a locked account', async () => {
      for (let n = 0; n < 10; n++) {
        if (n === 9) await cp.advance(2 * MINUTE)
        await new Browser(cp).signIn(EMAIL, 'wrong wrong')
      }
      expect((await new Browser(cp).signIn(EMAIL, 'brand new password')).status).toBe(429)
      expect((await reset(tokenIn(await link()))).status).toBe(200)
      await signedIn(EMAIL, 'brand new password')
    })

    test('goes to one address three times in 15 minutes, not more', async () => {
      await cp.advance(16 * MINUTE)
      for (let n = 0; n < 5; n++) expect((await ask()).status).toBe(200)
      await mailTo(cp, EMAIL, 'password_reset', sent + 3)
      await signedIn() // one more round trip through the control plane
      const all = (await listMails(cp)).filter((m) => m.recipient === EMAIL)
      expect(all.filter((m) => m.kind === 'password_reset')).toHaveLength(sent + 3)
    })
  })
})
