// Two-factor sign-in: the authenticator app, recovery codes, the requirement of an organization, the reset by an
// administrator, and secrets that stay on their page until they are saved. Passkeys need a browser:
// test/system/dashboard-people.test.ts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCommand } from '../../control-plane/src/commands/commands.ts'
import { totpCode, totpStep } from '../../control-plane/src/identity/totp.ts'
import {
  as,
  Browser,
  listMails,
  mailTo,
  PASSWORD,
  type Person,
  person,
  poll,
  setUpWithPassword,
  startDevice,
} from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

const ADA = 'ada@example.com'
const GRACE = 'grace@example.com'
const MINUTE = 60_000

interface Session {
  user: { email: string } | null
  awaiting: { app: boolean; passkey: boolean; recovery_code: boolean } | null
}
interface Factors {
  has_app: boolean
  recovery_codes_left: number
  is_recent: boolean
  required_by: string[]
  passkey_obstacle: string | null
}
interface Secret {
  title: string
  values: { label: string; text: string }[]
}
interface Me {
  organizations: { id: number }[]
  waiting_organizations: { name: string }[]
  has_second_factor: boolean
}

const BITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const fromBase32 = (text: string): Buffer => {
  const bits = [...text].map((c) => BITS.indexOf(c).toString(2).padStart(5, '0')).join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)))
}

describe.each(ENGINES)('two-factor sign-in on %s', (engine) => {
  let cp: TestControlPlane
  let grace: Person
  let secret: Buffer
  let codes: string[]
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await setUpWithPassword(cp)
    grace = await person(cp, 'Grace', 'developer')
  })
  afterAll(() => cp.close())

  const codeOf = (answer: { body: { error?: { data: { code: string } } } }) =>
    answer.body.error?.data.code
  const now = () => Date.now() + cp.clock.offsetMs
  /** The code of the next time step that was not used; the clock moves, because a code works once. */
  const nextCode = async (of = secret): Promise<string> => {
    await cp.advance(31_000)
    return totpCode(of, totpStep(now()))
  }
  async function signedIn(email: string): Promise<Browser> {
    const browser = new Browser(cp)
    const answer = await browser.report('session.signIn', { email, password: PASSWORD })
    expect(answer.status, answer.text).toBe(200)
    return browser
  }
  const session = async (browser: Browser) =>
    (await browser.ask<Session>('session.get')).body.result?.data
  const factors = async (browser: Browser) =>
    (await browser.ask<Factors>('factor.get')).body.result?.data
  const read = async (browser: Browser, id: unknown) => {
    const { body } = await browser.ask<Secret>('secret.get', { id: id as string })
    const shown = body.result?.data
    return shown && { title: shown.title, value: shown.values[0]?.text ?? '' }
  }
  const finish = (browser: Browser, code: string) =>
    browser.report('session.secondFactor', { code })
  const verbs = async () => {
    const rows = await cp.running.ctx.db.selectFrom('audit').select('verb').execute()
    return rows.map((row) => row.verb)
  }

  test('an app is set up by its secret and a code; a reload shows the same secret; other browsers end', async () => {
    const browser = await signedIn(ADA)
    const other = await signedIn(ADA)
    expect(await factors(browser)).toMatchObject({ has_app: false, is_recent: true })
    const begun = await browser.report<{ secret: string; uri: string }>('factor.beginApp')
    const shown = begun.body.result?.data
    expect(shown?.uri).toContain(`otpauth://totp/Berth%20127.0.0.1:ada%40example.com?secret=`)
    const again = await browser.report<{ secret: string }>('factor.beginApp')
    expect(again.body.result?.data.secret).toBe(shown?.secret)
    secret = fromBase32(shown?.secret ?? '')
    // nothing is asked for until a code confirmed it
    expect(await session(await signedIn(ADA))).toMatchObject({ awaiting: null })
    expect(codeOf(await browser.report('factor.confirmApp', { code: '000000' }))).toBe(
      'second_factor_wrong',
    )
    const code = await nextCode()
    const done = await browser.report<{ secret_id: string }>('factor.confirmApp', { code })
    const page = done.body.result?.data.secret_id
    const kept = await read(browser, page)
    expect(kept).toMatchObject({ title: 'Recovery codes' })
    expect((await read(browser, page))?.value).toBe(kept?.value) // a reload
    codes = (kept?.value ?? '').split('\n')
    expect(new Set(codes).size).toBe(10)
    await browser.report('secret.confirm', { id: page })
    expect(await read(browser, page)).toBeUndefined()
    expect(await session(other)).toMatchObject({ user: null })
    expect(await session(browser)).toMatchObject({ user: { email: ADA } })
  })

  test('the password alone opens nothing; the code does, once', async () => {
    const browser = await signedIn(ADA)
    expect(await session(browser)).toMatchObject({
      user: null,
      awaiting: { app: true, passkey: false, recovery_code: true },
    })
    for (const name of ['me', 'session.list', 'factor.get', 'token.list']) {
      expect(codeOf(await browser.ask(name)), name).toBe('token_missing')
    }
    expect(await (await signedIn(ADA)).user()).toBeUndefined()
    const change = { currentPassword: PASSWORD, newPassword: 'another horse staple' }
    expect((await browser.send('POST', '/change-password', change)).status).toBe(401)
    const code = await nextCode()
    expect((await finish(browser, code)).status).toBe(200)
    expect(await session(browser)).toMatchObject({ user: { email: ADA }, awaiting: null })
    const second = await signedIn(ADA)
    expect(codeOf(await finish(second, code))).toBe('second_factor_wrong')
    expect((await finish(second, await nextCode())).status).toBe(200)
    // a code without a password is nothing
    expect(codeOf(await finish(new Browser(cp), await nextCode()))).toBe('token_missing')
  })

  test('a sign-in waits ten minutes for its second factor', async () => {
    const browser = await signedIn(ADA)
    await cp.advance(11 * MINUTE)
    expect(await session(browser)).toMatchObject({ user: null, awaiting: null })
    expect(codeOf(await finish(browser, await nextCode()))).toBe('token_missing')
  })

  test('recovery codes work once each, however they are typed; new ones replace them', async () => {
    const [first = '', second = ''] = codes
    const one = await signedIn(ADA)
    expect((await finish(one, first.toUpperCase().replaceAll('-', ' '))).status).toBe(200)
    expect(await factors(one)).toMatchObject({ recovery_codes_left: 9 })
    const two = await signedIn(ADA)
    expect(codeOf(await finish(two, first))).toBe('second_factor_wrong')
    const made = await one.report<{ secret_id: string }>('factor.newRecoveryCodes')
    const fresh = (await read(one, made.body.result?.data.secret_id))?.value.split('\n') ?? []
    expect(codeOf(await finish(two, second))).toBe('second_factor_wrong')
    expect((await finish(two, fresh[0] ?? '')).status).toBe(200)
    codes = fresh.slice(1)
  })

  test('wrong codes are counted for the user, and a restart forgives none', async () => {
    const browser = await signedIn(ADA)
    for (let n = 0; n < 3; n++) expect((await finish(browser, '000000')).status).toBe(401)
    // certificates of a moved clock are not valid yet at the true time
    const { offsetMs } = cp.clock
    cp.clock.offsetMs = 0
    await cp.restart()
    cp.clock.offsetMs = offsetMs
    for (let n = 0; n < 2; n++) expect((await finish(browser, 'wrong-code')).status).toBe(401)
    const locked = await finish(browser, await nextCode())
    expect([locked.status, codeOf(locked)]).toEqual([429, 'rate_limited'])
    expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(60)
    await cp.advance(16 * MINUTE)
    const again = await signedIn(ADA)
    expect((await finish(again, await nextCode())).status).toBe(200)
  })

  test('changes need a recent sign-in; the password renews it', async () => {
    const browser = await signedIn(ADA)
    await finish(browser, await nextCode())
    await cp.advance(16 * MINUTE)
    expect(await factors(browser)).toMatchObject({ is_recent: false })
    for (const name of ['factor.removeApp', 'factor.newRecoveryCodes', 'factor.passkeyOptions']) {
      expect(codeOf(await browser.report(name)), name).toBe('recent_sign_in_required')
    }
    expect(codeOf(await browser.report('factor.confirm', { password: 'x' }))).toBe('sign_in_failed')
    expect((await browser.report('factor.confirm', { password: PASSWORD })).status).toBe(200)
    expect((await browser.report('factor.newRecoveryCodes')).status).toBe(200)
    // at an address without a name there are no passkeys, and the answer says so
    const options = await browser.report('factor.passkeyOptions')
    expect(codeOf(options)).toBe('passkeys_unavailable')
    expect(options.body.error?.message).toContain('is an address')
  })

  test('a new password keeps this browser signed in and asks the next one for both', async () => {
    const browser = await signedIn(ADA)
    await finish(browser, await nextCode())
    const next = 'another horse staple'
    const change = (current_password: string, new_password: string) =>
      browser.report('session.changePassword', { current_password, new_password })
    expect((await change(PASSWORD, next)).status).toBe(200)
    expect(await session(browser)).toMatchObject({ user: { email: ADA } })
    expect((await change(next, PASSWORD)).status).toBe(200)
    expect(await session(await signedIn(ADA))).toMatchObject({ awaiting: { app: true } })
  })

  test('berth login is approved only with both factors', async () => {
    const { device_code, user_code } = await startDevice(cp)
    const browser = await signedIn(ADA)
    expect(codeOf(await browser.report('device.approve', { user_code }))).toBe('token_missing')
    await finish(browser, await nextCode())
    expect((await browser.report('device.approve', { user_code })).status).toBe(200)
    await cp.advance(6_000)
    expect((await poll(cp, device_code)).status).toBe(200)
  })

  test('an organization requires it: members see only their account; older tokens continue, new ones wait', async () => {
    const ada = await signedIn(ADA)
    await finish(ada, await nextCode())
    const browser = await signedIn(GRACE)
    const members = await ada.ask<{
      members: { user: { email: string }; has_second_factor: unknown }[]
    }>('member.list', { organization_id: 1 })
    expect(members.body.result?.data.members).toMatchObject([
      { user: { email: ADA }, has_second_factor: true },
      { user: { email: GRACE }, has_second_factor: false },
    ])
    const own = await browser.ask<{ members: { has_second_factor: unknown }[] }>('member.list', {
      organization_id: 1,
    })
    expect(own.body.result?.data.members.map((m) => m.has_second_factor)).toEqual([null, null])

    // an owner without a factor would lock themselves out
    const lonely = await person(cp, 'Olga', 'owner')
    const refused = await as(cp, lonely.token, () =>
      cp.call('PATCH', '/api/organizations/1', { second_factor_required: true }),
    )
    expect([refused.status, refused.body.code]).toEqual([403, 'second_factor_required'])
    await cp.advance(1_000)
    const required = await cp.call('PATCH', '/api/organizations/1', {
      second_factor_required: true,
    })
    expect(required.body).toMatchObject({ second_factor_required: true })
    await cp.advance(1_000)

    const me = (await browser.ask<Me>('me')).body.result?.data
    expect(me).toMatchObject({ organizations: [], waiting_organizations: [{ name: 'Acme' }] })
    const list = await browser.ask('project.list', {})
    expect(JSON.stringify(list.body)).not.toContain('Acme')
    expect(codeOf(await browser.ask('member.list', { organization_id: 1 }))).toBe('not_found')
    expect((await browser.ask('session.list')).status).toBe(200)
    const made = { name: 'ci', scopes: ['read'], expires_in_days: 1 }
    expect(codeOf(await browser.report('token.create', made))).toBe('second_factor_required')
    const { user_code } = await startDevice(cp)
    expect(codeOf(await browser.report('device.approve', { user_code }))).toBe(
      'second_factor_required',
    )

    await as(cp, grace.token, async () => {
      expect((await cp.call('GET', '/api/organizations')).body).toMatchObject([{ id: 1 }])
      const token = await cp.call('POST', '/api/tokens', made)
      expect(token.body.code).toBe('second_factor_required')
    })
  })

  test('with a factor they are in; the last one cannot go while it is required', async () => {
    const browser = await signedIn(GRACE)
    const begun = await browser.report<{ secret: string }>('factor.beginApp')
    const own = fromBase32(begun.body.result?.data.secret ?? '')
    await browser.report('factor.confirmApp', { code: await nextCode(own) })
    const me = (await browser.ask<Me>('me')).body.result?.data
    expect(me).toMatchObject({ organizations: [{ id: 1 }], waiting_organizations: [] })
    const refused = await browser.report('factor.removeApp')
    expect(codeOf(refused)).toBe('second_factor_required')
    expect(refused.body.error?.message).toContain('Acme requires two-factor sign-in')
    expect(await factors(browser)).toMatchObject({ has_app: true, required_by: ['Acme'] })
    await cp.call('PATCH', '/api/organizations/1', { second_factor_required: false })
    expect((await browser.report('factor.removeApp')).status).toBe(200)
    expect(await factors(browser)).toMatchObject({ has_app: false, recovery_codes_left: 0 })
    expect(await session(await signedIn(GRACE))).toMatchObject({ user: { email: GRACE } })
  })

  test('an administrator resets the factors of a person, who is told by mail', async () => {
    const browser = await signedIn(GRACE)
    const begun = await browser.report<{ secret: string }>('factor.beginApp')
    const own = fromBase32(begun.body.result?.data.secret ?? '')
    await browser.report('factor.confirmApp', { code: await nextCode(own) })
    expect(codeOf(await browser.report('admin.resetSecondFactor', { user_id: 1 }))).toBe(
      'platform_admin_only',
    )
    const ada = await signedIn(ADA)
    await finish(ada, await nextCode())
    const reset = await ada.report('admin.resetSecondFactor', { user_id: grace.id })
    expect(reset.status, reset.text).toBe(200)
    expect(await session(browser)).toMatchObject({ user: null })
    expect(await session(await signedIn(GRACE))).toMatchObject({ awaiting: null })
    const mail = await mailTo(cp, GRACE, 'factors_reset')
    expect(mail.text).toContain('Ada removed the second factors')
  })

  test('the operator resets them on the machine, also the administrator’s own', async () => {
    const { config } = cp.running.ctx
    const env = {
      BERTH_CONFIG_FILE: '',
      BERTH_DATA_DIR: config.dataDir,
      BERTH_URL: cp.url,
      ...(config.databaseUrl === undefined ? {} : { DATABASE_URL: config.databaseUrl }),
    }
    const said: string[] = []
    const run = (...args: string[]) =>
      runCommand({
        args: ['reset-two-factor', ...args],
        env,
        print: (text) => void said.push(text),
      })
    expect(await run('nobody@example.com')).toBe(1)
    expect(await run('Ada@Example.com')).toBe(0)
    expect(said.join('\n')).toContain('Ada signs in with the password alone')
    expect(await session(await signedIn(ADA))).toMatchObject({ user: { email: ADA } })
    await mailTo(cp, ADA, 'factors_reset')
    await expect(run()).rejects.toThrow('Usage: berth-server reset-two-factor EMAIL')
  })

  test('the audit log has every step, and no secret is stored or logged in plain text', async () => {
    const all = await verbs()
    for (const verb of [
      'authenticator_app.add',
      'authenticator_app.remove',
      'second_factor.enable',
      'second_factor.disable',
      'second_factor.reset',
      'session.second_factor',
      'session.confirm',
      'recovery_codes.renew',
    ]) {
      expect(all, verb).toContain(verb)
    }
    const { db } = cp.running.ctx
    const rows = [
      await db.selectFrom('totpFactors').selectAll().execute(),
      await db.selectFrom('recoveryCodes').selectAll().execute(),
      await db.selectFrom('oneTimeSecrets').selectAll().execute(),
      await db.selectFrom('audit').selectAll().execute(),
      await listMails(cp),
    ]
    const text = JSON.stringify(rows)
    for (const code of codes) expect(text).not.toContain(code)
    expect(text).not.toContain(secret.toString('base64'))
  })

  test('a token and an invitation have a page until they are saved, used or revoked; others never see it', async () => {
    const ada = await signedIn(ADA)
    const browser = await signedIn(GRACE)
    const made = await ada.report<{ id: number; token: string; secret_id: string }>(
      'token.create',
      {
        name: 'ci of shop',
        scopes: ['read'],
        expires_in_days: 1,
      },
    )
    const token = made.body.result?.data
    expect(await read(ada, token?.secret_id)).toMatchObject({
      title: 'New token',
      value: token?.token,
    })
    expect(await read(browser, token?.secret_id)).toBeUndefined()
    await browser.report('secret.confirm', { id: token?.secret_id })
    expect(await read(ada, token?.secret_id)).toBeDefined()
    await ada.report('token.revoke', { token_id: token?.id })
    expect(await read(ada, token?.secret_id)).toBeUndefined()

    const asked = { organization_id: 1, email: 'linus@example.com', role: 'viewer' }
    const invited = await ada.report<{ id: number; secret_id: string }>('invitation.create', asked)
    const page = invited.body.result?.data
    const link = (await read(ada, page?.secret_id))?.value ?? ''
    expect(link).toContain(`${cp.url}/invite/berth_invite_`)
    interface Listed {
      invitations: { id: number; secret_id: string | null }[]
    }
    const listed = async (of: Browser) =>
      (await of.ask<Listed>('invitation.list', { organization_id: 1 })).body.result?.data
        .invitations
    expect(await listed(ada)).toMatchObject([{ id: page?.id, secret_id: page?.secret_id }, {}, {}])
    // over REST, the answer holds no link
    const rest = await cp.call('POST', '/api/organizations/1/invitations', {
      email: 'rest@example.com',
      role: 'viewer',
    })
    expect(rest.text).not.toContain('berth_invite_')
    const offer = await new Browser(cp).report('invitation.register', {
      token: link.split('/').at(-1),
      name: 'Linus',
      password: PASSWORD,
    })
    expect(offer.status, offer.text).toBe(200)
    expect(await read(ada, page?.secret_id)).toBeUndefined()
  })

  test('sessions show when they were last used; the others end together', async () => {
    const one = await signedIn(ADA)
    await signedIn(ADA)
    await cp.advance(2 * MINUTE)
    interface List {
      sessions: { is_current: boolean; last_used_at: string; method: string }[]
    }
    const list = async () => (await one.ask<List>('session.list')).body.result?.data.sessions ?? []
    const current = (await list()).find((s) => s.is_current)
    expect(now() - Date.parse(current?.last_used_at ?? '')).toBeLessThan(MINUTE)
    expect(current?.method).toBe('password')
    const ended = await one.report<{ ended: number }>('session.revokeOthers')
    expect(ended.body.result?.data.ended).toBeGreaterThan(0)
    expect(await list()).toMatchObject([{ is_current: true }])
  })
})
