// The REST gateway: the shapes of the specification, and the answers to requests that do not fit. On both databases.
import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { ERRORS } from '@berth/shared'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKeyRequest } from '../../agent/src/link/identity/certificate.ts'
import { makeToken } from '../../control-plane/src/identity/tokens.ts'
import { type Answer, TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

const HOST = { hostname: 'h', os: 'linux', arch: 'x64', agent_version: '1.15.0' }

describe.each(ENGINES)('REST on %s', (engine) => {
  let cp: TestControlPlane
  let ids: { server: number; project: number; environment: number }
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const server = await cp.server()
    const project = await cp.project('shop', server.id)
    const environment = await cp.environment(project.id, 'main', {
      variables: { A: 'hunter2-value' },
    })
    ids = { server: server.id, project: project.id, environment: environment.id }
  })
  afterAll(() => cp.close())

  describe('first start', () => {
    test('the set-up token works once, and no other token works at all', async () => {
      const fresh = await TestControlPlane.start(engine)
      const person = { name: 'Eve', email: 'eve@example.com', organization: 'Evil' }
      const { setupToken } = fresh.running
      const wrong = { token: makeToken('berth_setup_'), ...person }
      expect((await fresh.call('POST', '/api/setup', wrong)).status).toBe(401)
      expect((await fresh.call('GET', '/api/health')).body.setup_required).toBe(true)
      const tries = await Promise.all(
        [1, 2, 3].map((n) =>
          fresh.call('POST', '/api/setup', {
            ...person,
            token: setupToken,
            email: `${n}@example.com`,
          }),
        ),
      )
      const statuses = tries.map((t) => t.status)
      expect(statuses.filter((s) => s === 201)).toHaveLength(1)
      for (const s of statuses) expect([201, 401, 409]).toContain(s) // too late for the token, or for set-up at all
      const again = await fresh.call('POST', '/api/setup', { token: setupToken, ...person })
      expect([again.status, again.body.code]).toEqual([409, 'setup_done'])
      expect((await fresh.call('GET', '/api/health')).body.setup_required).toBe(false)
      await fresh.restart()
      expect(fresh.running.setupToken).toBeUndefined()
      await fresh.close()
    })
  })

  describe('shapes', () => {
    test('a project in the list has exactly the six fields of the specification', async () => {
      const { body } = await cp.call<object[]>('GET', '/api/projects')
      const fields = ['id', 'name', 'repo_url', 'domain', 'environment_count', 'servers']
      expect(Object.keys(body[0] ?? {})).toEqual(fields)
      const [server] = (body[0] as { servers: object[] }).servers
      expect(Object.keys(server ?? {})).toEqual(['id', 'name', 'hostname'])
    })

    test('me: the current user and the organizations, with permissions', async () => {
      const { body } = await cp.call('GET', '/api/me')
      expect(body).toMatchObject({
        name: 'Ada',
        is_platform_admin: true,
        current_organization_id: null,
        organizations: [{ slug: 'acme', role: 'owner', project_count: 1 }],
      })
    })

    test('an unchanged answer is 304, and every answer names request and version', async () => {
      const first = await cp.call('GET', `/api/environments/${ids.environment}`)
      const etag = first.headers.get('etag') ?? ''
      expect(etag).toMatch(/^W\/"/)
      const again = await cp.call('GET', `/api/environments/${ids.environment}`, undefined, {
        'if-none-match': etag,
      })
      expect([again.status, again.text]).toEqual([304, ''])
      expect(first.headers.get('x-request-id')).toMatch(/^req_/)
      expect(first.headers.get('berth-version')).toBe('1.15.0')
    })

    test('pages follow each other by links', async () => {
      for (const name of ['alpha', 'beta', 'gamma']) await cp.project(name, ids.server)
      const seen: string[] = []
      let next: string | undefined = '/api/projects?per_page=2'
      while (next) {
        const page: Answer<{ name: string }[]> = await cp.call('GET', next)
        seen.push(...page.body.map((p) => p.name))
        const link = page.headers.get('link') ?? ''
        const url: string | undefined = /<([^>]+)>; rel="next"/.exec(link)?.[1]
        next = url && new URL(url).pathname + new URL(url).search
      }
      expect(seen).toEqual(['alpha', 'beta', 'gamma', 'shop'])
      const bad = await cp.call('GET', '/api/projects?cursor=nonsense')
      expect([bad.status, bad.body.code]).toEqual([400, 'invalid_cursor'])
    })

    test('used and limit of environments stand in headers', async () => {
      const { headers } = await cp.call('GET', `/api/projects/${ids.project}/environments`)
      expect(headers.get('berth-environment-count')).toBe('1')
      expect(headers.get('berth-environment-limit')).toBe('20')
    })

    test('the removed log endpoint is 404 with a pointer to the client', async () => {
      const { status, body } = await cp.call('GET', `/api/environments/${ids.environment}/logs`)
      expect(status).toBe(404)
      expect(body.detail).toBe('Container logs are read with the client: berth logs.')
    })
  })

  describe('bad input gets a clear answer', () => {
    const tasks = () => `/api/environments/${ids.environment}/tasks`

    test.each([
      ['malformed JSON', '{bad', 400, 'malformed_json'],
      ['an array', '[]', 422, 'validation_failed'],
      ['an unknown field', '{"nope": 1}', 422, 'validation_failed'],
      ['a poisoned key', '{"__proto__": {"x": 1}}', 400, 'malformed_json'],
      ['a bad commit', '{"commit_sha": "abc"}', 422, 'validation_failed'],
    ])('%s', async (_what, body, status, code) => {
      const answer = await cp.call('POST', tasks(), body)
      expect([answer.status, answer.body.code]).toEqual([status, code])
      expect(answer.headers.get('content-type')).toContain('application/problem+json')
      expect(answer.body.request_id).toBe(answer.headers.get('x-request-id'))
    })

    test('unknown fields are named, each', async () => {
      const { body } = await cp.call('POST', tasks(), { nope: 1, neither: 2 })
      const errors = body.errors as { field: string; code: string }[]
      expect(errors.map((e) => [e.field, e.code])).toEqual([
        ['nope', 'unknown_field'],
        ['neither', 'unknown_field'],
      ])
    })

    test('a body over 1 MiB, another media type, a wrong method, an unknown address', async () => {
      const large = await cp.call('POST', tasks(), JSON.stringify({ message: 'x'.repeat(1 << 20) }))
      expect([large.status, large.body.code]).toEqual([413, 'body_too_large'])
      const text = await cp.call('POST', tasks(), 'hello', { 'content-type': 'text/plain' })
      expect([text.status, text.body.code]).toEqual([415, 'unsupported_media_type'])
      const method = await cp.call('DELETE', '/api/me')
      expect([method.status, method.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
      const path = await cp.call('GET', '/api/nothing')
      expect([path.status, path.body.code]).toEqual([404, 'not_found'])
    })

    test('headers over 16 KiB are refused without a stack trace', async () => {
      const { port } = new URL(cp.url)
      const answer = await new Promise<string>((resolve, reject) => {
        const socket = connect(Number(port), '127.0.0.1', () => {
          socket.write(`GET /api/me HTTP/1.1\r\nHost: x\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`)
        })
        let seen = ''
        socket.on('data', (d) => {
          seen += d
        })
        socket.on('close', () => resolve(seen))
        socket.on('error', reject)
      })
      expect(answer).toMatch(/^HTTP\/1\.1 431 /)
      expect(answer).toContain('headers_too_large')
    })

    test('ids that are none', async () => {
      for (const id of ['abc', '0', '-1', '99999999999', '1e3']) {
        const { status, body } = await cp.call('GET', `/api/tasks/${id}`)
        expect([id, status, body.code]).toEqual([id, 400, 'invalid_parameter'])
      }
    })

    test.each([
      ['repo_url', { repo_url: 'ext::sh -c id' }, 'invalid_repo_url'],
      ['repo_url', { repo_url: 'https://user:secret@x.org/a' }, 'credentials_in_url'],
      ['domain', { domain: 'NOT A HOST' }, 'invalid_value'],
      ['server_ids', { server_ids: [4_000_000] }, 'not_found'],
      ['default_branch', { default_branch: '--upload-pack=x' }, 'invalid_branch'],
    ])('a project with a bad %s', async (field, over, code) => {
      const body = {
        name: 'bad',
        repo_url: 'https://x.org/a',
        domain: 'bad.example.com',
        server_ids: [ids.server],
        ...over,
      }
      const answer = await cp.call('POST', '/api/projects', body)
      expect(answer.status).toBe(422)
      const errors = answer.body.errors as { field: string; code: string }[]
      expect(errors.map((e) => [e.field, e.code])).toEqual([[field, code]])
      expect(answer.text).not.toContain('secret')
    })

    test('taken names and domains', async () => {
      const path = `/api/projects/${ids.project}/environments`
      const again = await cp.call('POST', path, { identifier: 'main', branch: 'main' })
      expect([again.status, again.body.code]).toEqual([409, 'identifier_taken'])
      const domain = { identifier: 'other', branch: 'main', domain: 'main.shop.example.com' }
      expect((await cp.call('POST', path, domain)).body.code).toBe('domain_in_use')
      const reserved = await cp.call('POST', path, { identifier: 'pr-7', branch: 'main' })
      expect([reserved.status, reserved.text.includes('reserved_identifier')]).toEqual([422, true])
      const server = await cp.call('POST', '/api/servers', { name: 'one', hostname: 'h' })
      expect([server.status, server.body.code]).toEqual([409, 'name_taken'])
    })

    test('variables: reserved and bad keys are named, values never', async () => {
      const path = `/api/projects/${ids.project}/environments`
      const variables = { SERVICE_DOMAIN: 'canary-1', '2FA': 'canary-2', BERTH_X: 'canary-3' }
      const answer = await cp.call('POST', path, { identifier: 'v', branch: 'main', variables })
      const errors = answer.body.errors as { field: string; code: string }[]
      // JavaScript objects list integer-like keys first
      expect(errors.map((e) => [e.field, e.code]).toSorted()).toEqual([
        ['variables.2FA', 'invalid_key'],
        ['variables.BERTH_X', 'reserved_key'],
        ['variables.SERVICE_DOMAIN', 'reserved_key'],
      ])
      expect(answer.text).not.toContain('canary')
    })

    test('at its limit a project gets no further environment, also when many ask at once', async () => {
      const project = await cp.project('small', ids.server)
      const path = `/api/projects/${project.id}/environments`
      const asked = Array.from({ length: 24 }, (_, i) =>
        cp.call('POST', path, { identifier: `e${i}`, branch: 'main' }),
      )
      const statuses = (await Promise.all(asked)).map((a) => a.status)
      expect(statuses.filter((s) => s === 201)).toHaveLength(20)
      const more = await cp.call('POST', path, { identifier: 'late', branch: 'main' })
      expect(more.body).toMatchObject({ code: 'environment_limit_reached', limit: 20, used: 20 })
    })
  })

  describe('who is asking', () => {
    test('no token, a wrong one, one in the address', async () => {
      const ask = async (path: string, authorization?: string) => {
        const headers = { authorization: authorization ?? '' }
        const { status, body } = await cp.call('GET', path, undefined, headers)
        return [status, body.code]
      }
      expect(await ask('/api/me')).toEqual([401, 'token_missing'])
      expect(await ask('/api/me', 'Basic eA==')).toEqual([401, 'token_missing'])
      expect(await ask('/api/me', 'Bearer nonsense')).toEqual([401, 'token_invalid'])
      expect(await ask('/api/me', `Bearer ${makeToken('berth_pat_')}`)).toEqual([
        401,
        'token_invalid',
      ])
      expect(await ask(`/api/me?token=${cp.token}`)).toEqual([401, 'token_missing'])
    })

    test('the organization header narrows, and a foreign one is refused', async () => {
      const ask = (organization: string) =>
        cp.call('GET', '/api/projects', undefined, { 'x-service-organization': organization })
      expect((await ask('1')).status).toBe(200)
      expect((await ask('x')).body.code).toBe('invalid_organization')
      const foreign = await ask('77')
      expect([foreign.status, foreign.body.code]).toEqual([403, 'organization_forbidden'])
    })

    test('what is missing and what is foreign look the same', async () => {
      const { db } = cp.running.ctx
      const { id: organizationId } = await db
        .insertInto('organizations')
        .values({ name: 'Other', slug: 'other', createdAt: 1 })
        .returning('id')
        .executeTakeFirstOrThrow()
      const { id: foreign } = await db
        .insertInto('servers')
        .values({ organizationId, name: 'theirs', hostname: 'h', createdAt: 1 })
        .returning('id')
        .executeTakeFirstOrThrow()
      const strip = (text: string, id: number) =>
        text.replace(`servers/${id}`, 'servers/N').replace(/req_[\w-]+/, 'R')
      const a = await cp.call('GET', `/api/servers/${foreign}`)
      const b = await cp.call('GET', '/api/servers/4000000')
      expect([a.status, strip(a.text, foreign)]).toEqual([b.status, strip(b.text, 4_000_000)])
      expect((await cp.call('POST', `/api/servers/${foreign}/join_token`)).status).toBe(404)
    })

    test("the agents' listener does not serve users", async () => {
      const join = await cp.joinToken(ids.server)
      const answer = await cp.call('GET', '/api/me', undefined, { authorization: `Bearer ${join}` })
      expect(answer.status).toBe(401)
    })
  })

  describe('enrolment', () => {
    const enrol = async (token: string, csr?: string) => {
      const request = csr ?? (await createKeyRequest()).csrPem
      const body = { token, csr: request, install_id: randomUUID(), host: HOST }
      return cp.call('POST', '/api/agent/enroll', body)
    }
    // requests of one address are limited, so each test starts a new minute
    const newMinute = () => cp.advance(61_000)

    test('wrong, used, expired and malformed tokens get the same answer', async () => {
      await newMinute()
      const server = await cp.server('enrol-1')
      const token = await cp.joinToken(server.id)
      const used = await enrol(token)
      expect(used.status).toBe(200)
      const fresh = await cp.joinToken(server.id, true)
      const wrong = fresh.replace(/\.[A-Za-z0-9_-]{4}/, '.AAAA')
      const answers = [await enrol(token), await enrol(wrong), await enrol('nonsense')]
      await cp.advance(16 * 60_000)
      answers.push(await enrol(fresh))
      const bodies = new Set(answers.map((a) => a.text.replace(/req_[\w-]+/, '')))
      expect([bodies.size, answers[0]?.status, answers[0]?.body.code]).toEqual([
        1,
        401,
        'join_token_invalid',
      ])
    })

    test('the same key may ask again for a lost answer, another may not', async () => {
      await newMinute()
      const token = await cp.joinToken((await cp.server('enrol-2')).id)
      const { csrPem } = await createKeyRequest()
      const first = await enrol(token, csrPem)
      const second = await enrol(token, csrPem)
      expect([second.status, second.text]).toEqual([200, first.text])
      expect((await enrol(token)).status).toBe(401)
    })

    test('many joins at once make one identity', async () => {
      await newMinute()
      const server = await cp.server('enrol-3')
      const token = await cp.joinToken(server.id)
      const answers = await Promise.all(Array.from({ length: 10 }, () => enrol(token)))
      expect(answers.filter((a) => a.status === 200)).toHaveLength(1)
      const { db } = cp.running.ctx
      const agents = await db
        .selectFrom('agents')
        .selectAll()
        .where('serverId', '=', server.id)
        .execute()
      expect(agents).toHaveLength(1)
    })

    test('a request that proves nothing is refused, a flood is slowed down', async () => {
      await newMinute()
      const token = await cp.joinToken((await cp.server('enrol-4')).id)
      const bad = await enrol(token, 'no certificate request')
      expect([bad.status, bad.body.code]).toEqual([422, 'csr_invalid'])
      const flood = await Promise.all(Array.from({ length: 62 }, () => enrol('nonsense')))
      const last = flood.filter((a) => a.status === 429)
      expect(last.length).toBeGreaterThan(0)
      expect(Number(last[0]?.headers.get('retry-after'))).toBeGreaterThan(0)
    })

    test('a body over 16 KiB is refused', async () => {
      await newMinute()
      const answer = await enrol('x'.repeat(20_000))
      expect([answer.status, answer.body.code]).toEqual([413, 'body_too_large'])
    })
  })

  test('no answer, and nothing in the database, shows the value of a variable', async () => {
    const { db } = cp.running.ctx
    const rows = await db.selectFrom('variables').selectAll().execute()
    expect(rows.map((r) => r.key)).toEqual(['A'])
    expect(JSON.stringify(rows)).not.toContain('hunter2')
    for (const path of [
      `/api/environments/${ids.environment}`,
      `/api/projects/${ids.project}/environments`,
    ]) {
      expect((await cp.call('GET', path)).text).not.toContain('hunter2')
    }
  })

  test('every code has a status and a title', () => {
    for (const [code, [status, title]] of Object.entries(ERRORS)) {
      expect(code).toMatch(/^[a-z_]+$/)
      expect(status).toBeGreaterThanOrEqual(400)
      expect(title.length).toBeGreaterThan(5)
    }
  })
})
