// Device login (RFC 8628), refresh, revocation and personal tokens, from outside.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  approve,
  as,
  Browser,
  form,
  PASSWORD,
  person,
  poll,
  refresh,
  setUpWithPassword,
  startDevice,
} from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

const MINUTE = 60_000
const DAY = 86_400_000

interface Tokens {
  access_token: string
  refresh_token: string
  expires_in: number
  scope: string
}

describe.each(ENGINES)('logins of clients, on %s', (engine) => {
  let cp: TestControlPlane
  let ada: Browser
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await setUpWithPassword(cp)
  })
  afterAll(() => cp.close())
  beforeEach(async () => {
    await cp.advance(2 * MINUTE) // resets the limits by address
    ada = new Browser(cp)
    await ada.signIn('ada@example.com', PASSWORD)
  })

  const me = (token: string) =>
    cp.call('GET', '/api/me', undefined, { authorization: `Bearer ${token}` })
  const code = async (token: string) => (await me(token)).body.code ?? 'good'
  const login = async (scope?: string): Promise<Tokens> => {
    const { device_code } = await startDevice(cp, scope)
    await approve(cp, ada, device_code)
    const { status, body, text } = await poll(cp, device_code)
    expect(status, text).toBe(200)
    return body as unknown as Tokens
  }
  const refreshed = async (token: string): Promise<Tokens> => {
    const { status, body, text } = await refresh(cp, token)
    expect(status, text).toBe(200)
    return body as unknown as Tokens
  }

  test('a client starts, a signed-in person approves, the client gets its tokens once', async () => {
    const started = await startDevice(cp)
    expect(started).toMatchObject({
      user_code: expect.stringMatching(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/),
      verification_uri: `${cp.url}/device`,
      verification_uri_complete: `${cp.url}/device?code=${started.user_code}`,
      expires_in: 900,
      interval: 5,
    })
    expect((await poll(cp, started.device_code)).body.error).toBe('authorization_pending')
    const shown = await ada.send('POST', '/device/describe', { user_code: started.user_code })
    expect(shown.body).toMatchObject({
      device_name: 'ada-laptop',
      address: '127.0.0.1',
      scopes: ['read', 'deploy', 'write', 'ssh'],
    })
    await cp.advance(5_001)
    expect((await poll(cp, started.device_code)).body.error).toBe('authorization_pending')
    await approve(cp, ada, started.device_code)
    await cp.advance(5_001)
    const answers = await Promise.all([1, 2, 3].map(() => poll(cp, started.device_code)))
    const [good] = answers.filter((a) => a.status === 200)
    expect(answers.filter((a) => a.status === 200)).toHaveLength(1)
    expect(good?.headers.get('cache-control')).toBe('no-store')
    expect(good?.body).toMatchObject({
      access_token: expect.stringMatching(/^berth_at_[0-9A-Za-z]{49}$/),
      refresh_token: expect.stringMatching(/^berth_rt_[0-9A-Za-z]{49}$/),
      token_type: 'Bearer',
      expires_in: 2_592_000,
      scope: 'read deploy write ssh',
    })
    expect((await poll(cp, started.device_code)).body.error).toBe('invalid_grant')
    const who = await me(String(good?.body.access_token))
    expect(who.body.token).toMatchObject({ kind: 'login', name: 'berth on ada-laptop' })
  })

  test('who asks too often is told to slow down, by 5 seconds more each time', async () => {
    const { device_code } = await startDevice(cp)
    const error = async (afterMs: number) => {
      await cp.advance(afterMs)
      return (await poll(cp, device_code)).body.error
    }
    expect(await error(0)).toBe('authorization_pending')
    expect(await error(1_000)).toBe('slow_down')
    expect(await error(6_000)).toBe('slow_down') // the interval is 10 s now
    expect(await error(15_500)).toBe('authorization_pending')
  })

  test('a denied and an expired login say so', async () => {
    const denied = await startDevice(cp)
    const { user_code } = denied
    expect((await ada.send('POST', '/device/deny', { user_code })).status).toBe(200)
    expect((await poll(cp, denied.device_code)).body.error).toBe('access_denied')
    const late = await startDevice(cp)
    await cp.advance(15 * MINUTE)
    expect((await poll(cp, late.device_code)).body.error).toBe('expired_token')
    const answer = await ada.send('POST', '/device/approve', { user_code: late.user_code })
    expect(answer.status).toBe(404)
  })

  test('only a signed-in browser on our own page decides; a code is decided once', async () => {
    const { user_code, device_code } = await startDevice(cp)
    const stranger = await new Browser(cp).send('POST', '/device/approve', { user_code })
    expect(stranger.status).toBe(401)
    const foreign = { origin: 'https://evil.example' }
    const forged = await ada.send('POST', '/device/approve', { user_code }, foreign)
    expect(forged.body.code).toBe('origin_forbidden')
    const bearer = await cp.call('POST', '/api/auth/device/approve', { user_code })
    expect(bearer.status).toBe(401)
    expect((await ada.send('GET', `/device/approve?user_code=${user_code}`)).status).toBe(404)
    expect((await poll(cp, device_code)).body.error).toBe('authorization_pending')
    await approve(cp, ada, device_code)
    expect((await ada.send('POST', '/device/deny', { user_code })).status).toBe(404)
  })

  test('guessing codes ends after five, also when they come at once, and a right one no longer helps', async () => {
    await person(cp, 'Guesser', 'viewer')
    await cp.advance(2 * MINUTE)
    const guesser = new Browser(cp)
    await guesser.signIn('guesser@example.com', PASSWORD)
    const { user_code } = await startDevice(cp)
    const guesses = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        guesser.send('POST', '/device/approve', {
          user_code: `BBBB-BBB${'BCDFGHJKLMNP'.charAt(n)}`,
        }),
      ),
    )
    const statuses = guesses.map((g) => g.status)
    expect(statuses.filter((s) => s === 404)).toHaveLength(5)
    expect(statuses.filter((s) => s === 429)).toHaveLength(7)
    expect((await guesser.send('POST', '/device/approve', { user_code })).status).toBe(429)
    expect((await ada.send('POST', '/device/describe', { user_code })).status).toBe(200)
    await cp.advance(16 * MINUTE)
    const fresh = await startDevice(cp)
    const answer = await guesser.send('POST', '/device/approve', { user_code: fresh.user_code })
    expect(answer.status).toBe(200)
  })

  test('one address starts ten logins a minute, not more', async () => {
    for (let n = 0; n < 10; n++) await startDevice(cp)
    const fields = { client_id: 'berth-cli' }
    const answer = await form(cp, '/api/oauth/device_authorization', fields)
    expect([answer.status, answer.body.error]).toEqual([429, 'temporarily_unavailable'])
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
  })

  test('what is wrong is said in OAuth’s words', async () => {
    const device = '/api/oauth/device_authorization'
    const token = '/api/oauth/token'
    const client_id = 'berth-cli'
    const wrong: [string, Record<string, string>, string][] = [
      [device, {}, 'invalid_client'],
      [device, { client_id: 'other' }, 'invalid_client'],
      [device, { client_id, scope: 'read root' }, 'invalid_scope'],
      [device, { client_id, scope: ' ' }, 'invalid_scope'],
      [token, { client_id, grant_type: 'password' }, 'unsupported_grant_type'],
      [token, { client_id, grant_type: 'refresh_token' }, 'invalid_request'],
      [token, { client_id, grant_type: 'refresh_token', refresh_token: 'x' }, 'invalid_grant'],
      ['/api/oauth/revoke', { client_id }, 'invalid_request'],
    ]
    for (const [path, fields, error] of wrong) {
      const answer = await form(cp, path, fields)
      expect([answer.status, answer.body.error], JSON.stringify(fields)).toEqual([400, error])
      expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
    }
    const twice = await cp.call('POST', token, 'client_id=a&client_id=berth-cli', {
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect(twice.body.error).toBe('invalid_request')
    const json = await cp.call('POST', token, { client_id })
    expect([json.status, json.body.error]).toEqual([400, 'invalid_request'])
  })

  test('metadata names the endpoints (RFC 8414)', async () => {
    const { body } = await cp.call('GET', '/.well-known/oauth-authorization-server')
    expect(body).toMatchObject({
      issuer: cp.url,
      token_endpoint: `${cp.url}/api/oauth/token`,
      device_authorization_endpoint: `${cp.url}/api/oauth/device_authorization`,
    })
  })

  describe('refreshing', () => {
    test('rotates: a new pair, the former access token ends in half a minute', async () => {
      const first = await login()
      await cp.advance(29 * DAY)
      const second = await refreshed(first.refresh_token)
      expect(second.refresh_token).not.toBe(first.refresh_token)
      expect(second.scope).toBe(first.scope)
      expect([await code(second.access_token), await code(first.access_token)]).toEqual([
        'good',
        'good',
      ])
      await cp.advance(31_000)
      expect(await code(first.access_token)).toBe('token_expired')
      await cp.advance(2 * DAY)
      expect(await code(second.access_token)).toBe('good')
    })

    test('an access token ends after 30 days, a refresh token after 90 without use', async () => {
      const first = await login()
      await cp.advance(30 * DAY)
      expect(await code(first.access_token)).toBe('token_expired')
      await cp.advance(59 * DAY)
      const second = await refreshed(first.refresh_token)
      await cp.advance(90 * DAY)
      expect((await refresh(cp, second.refresh_token)).body.error).toBe('invalid_grant')
    })

    test('a spent refresh token used again revokes the whole family', async () => {
      const first = await login()
      const second = await refreshed(first.refresh_token)
      const third = await refreshed(second.refresh_token)
      await cp.advance(31_000)
      expect(await code(third.access_token)).toBe('good')
      expect((await refresh(cp, first.refresh_token)).body.error).toBe('invalid_grant')
      expect(await code(third.access_token)).toBe('token_revoked')
      expect((await refresh(cp, third.refresh_token)).body.error).toBe('invalid_grant')
    })

    test('a lost reply may be asked for once more within 30 seconds, not twice', async () => {
      const first = await login()
      const lost = await refreshed(first.refresh_token)
      await cp.advance(29_000)
      const again = await refreshed(first.refresh_token)
      expect(await code(again.access_token)).toBe('good')
      expect((await refresh(cp, first.refresh_token)).body.error).toBe('invalid_grant')
      expect(await code(again.access_token)).toBe('token_revoked')
      expect(await code(lost.access_token)).toBe('token_revoked')
    })

    test('two at the same moment both go on; of five the login ends', async () => {
      const first = await login()
      const two = await Promise.all([1, 2].map(() => refresh(cp, first.refresh_token)))
      expect(two.map((a) => a.status)).toEqual([200, 200])
      const second = await login()
      const five = await Promise.all([1, 2, 3, 4, 5].map(() => refresh(cp, second.refresh_token)))
      expect(five.filter((a) => a.status === 200)).toHaveLength(2)
      expect(await code(second.access_token)).toBe('token_revoked')
    })
  })

  test('revoking either token ends the login at once; unknown tokens are no error', async () => {
    const revoke = (token: string) =>
      form(cp, '/api/oauth/revoke', { token, client_id: 'berth-cli' })
    for (const which of ['access_token', 'refresh_token'] as const) {
      const tokens = await login()
      expect((await revoke(tokens[which])).status).toBe(200)
      expect(await code(tokens.access_token)).toBe('token_revoked')
      expect((await refresh(cp, tokens.refresh_token)).body.error).toBe('invalid_grant')
      expect((await revoke(tokens[which])).status).toBe(200)
    }
    for (const unknown of ['x', `berth_at_${'0'.repeat(49)}`]) {
      expect((await revoke(unknown)).status).toBe(200)
    }
  })

  test('no token, code or refresh token stands in the database', async () => {
    const { device_code } = await startDevice(cp)
    const tokens = await login()
    const { db } = cp.running.ctx
    const rows = JSON.stringify([
      await db.selectFrom('tokens').selectAll().execute(),
      await db.selectFrom('refreshTokens').selectAll().execute(),
      await db.selectFrom('deviceLogins').selectAll().execute(),
      await db.selectFrom('audit').selectAll().execute(),
    ])
    for (const secret of [device_code, tokens.access_token, tokens.refresh_token]) {
      expect(rows).not.toContain(secret.slice(9, 40))
    }
  })

  describe('personal tokens', () => {
    const create = (body: object) =>
      cp.call<{ id: number; token: string }>('POST', '/api/tokens', {
        name: 'ci',
        scopes: ['read'],
        expires_in_days: 30,
        ...body,
      })

    test('are made, shown once, listed without the secret, used, and revoked at once', async () => {
      const { status, body, headers } = await create({ scopes: ['deploy', 'read', 'read'] })
      expect(status).toBe(201)
      expect(headers.get('cache-control')).toBe('no-store')
      expect(body).toMatchObject({
        kind: 'personal',
        hint: body.token.slice(-4),
        scopes: ['read', 'deploy'],
        organization_id: null,
        last_used_at: null,
        last_used_address: null,
      })
      expect(await code(body.token)).toBe('good')
      const list = await cp.call<{ id: number; last_used_address: string }[]>('GET', '/api/tokens')
      expect(list.text).not.toContain(body.token)
      const own = list.body.find((t) => t.id === body.id)
      expect(own).toMatchObject({ last_used_address: '127.0.0.1' })
      expect((await cp.call('DELETE', `/api/tokens/${body.id}`)).status).toBe(204)
      expect(await code(body.token)).toBe('token_revoked')
      expect((await cp.call('DELETE', `/api/tokens/${body.id}`)).status).toBe(404)
    })

    test('live 1 to 365 days', async () => {
      for (const expires_in_days of [0, 366, 1.5, '1']) {
        expect((await create({ expires_in_days })).status, String(expires_in_days)).toBe(422)
      }
      const { body } = await create({ expires_in_days: 1 })
      await cp.advance(DAY - MINUTE)
      expect(await code(body.token)).toBe('good')
      await cp.advance(MINUTE)
      expect(await code(body.token)).toBe('token_expired')
    })

    test('have at most the scopes of what made them, and need the scope admin to be made', async () => {
      const { body: narrow } = await create({ scopes: ['read', 'admin'] })
      await as(cp, narrow.token, async () => {
        const refused = await create({ scopes: ['read', 'deploy'] })
        expect(refused.body).toMatchObject({
          code: 'validation_failed',
          errors: [{ field: 'scopes', code: 'scope_too_wide' }],
        })
        expect((await create({ scopes: ['read', 'admin'] })).status).toBe(201)
      })
      const { body: reader } = await create({ scopes: ['read'] })
      await as(cp, reader.token, async () => {
        const refused = await create({})
        expect(refused.body).toMatchObject({ code: 'insufficient_scope', required_scope: 'admin' })
        const other = await cp.call('DELETE', `/api/tokens/${narrow.id}`)
        expect(other.body).toMatchObject({ code: 'insufficient_scope' })
        expect((await cp.call('DELETE', `/api/tokens/${reader.id}`)).status).toBe(204)
      })
      const { body: deployer } = await create({ scopes: ['deploy'] })
      await as(cp, deployer.token, async () => {
        expect((await cp.call('GET', '/api/tokens')).body).toMatchObject({ required_scope: 'read' })
      })
    })

    test('of others do not exist, and a login’s token takes its refresh token along', async () => {
      const tokens = await login('read admin')
      const { id } = (await me(tokens.access_token)).body.token as { id: number }
      const other = await person(cp, 'Other', 'owner')
      await as(cp, other.token, async () => {
        expect((await cp.call('DELETE', `/api/tokens/${id}`)).status).toBe(404)
        const { body } = await cp.call<{ id: number }[]>('GET', '/api/tokens')
        expect(body.map((t) => t.id)).not.toContain(id)
        expect(body).toHaveLength(1)
      })
      expect((await cp.call('DELETE', `/api/tokens/${id}`)).status).toBe(204)
      expect((await refresh(cp, tokens.refresh_token)).body.error).toBe('invalid_grant')
    })
  })
})
