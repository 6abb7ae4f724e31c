// Idempotency-Key: one effect and one reply, on both databases, also for concurrent requests, for a reply with a
// secret, and after the control plane was killed in the middle.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sweep } from '../../control-plane/src/app/deployments/deadlines.ts'
import { insertMember } from '../../control-plane/src/store/people/people.ts'
import { addMember, addOrganization } from '../fixtures/people/members.ts'
import { type Answer, TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

const HOUR = 3_600_000

describe.each(ENGINES)('a request with an Idempotency-Key on %s', (engine) => {
  let cp: TestControlPlane
  let serverId: number
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    serverId = (await cp.server()).id
  })
  afterAll(() => cp.close())

  const make = (name: string, key: string, headers = {}): Promise<Answer> =>
    cp.call('POST', '/api/servers', { name, hostname: 'h' }, { 'idempotency-key': key, ...headers })
  const named = async (name: string): Promise<number> => {
    const { body } = await cp.call<{ name: string }[]>('GET', '/api/servers')
    return body.filter((s) => s.name === name).length
  }
  const rows = () => cp.running.ctx.db.selectFrom('idempotencyKeys').selectAll().execute()

  test('same body: the same reply, and nothing is done again', async () => {
    const key = randomUUID()
    const first = await make('twice', key)
    expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([201, null])
    const again = await make('twice', key)
    expect(again.status).toBe(201)
    expect(again.text).toBe(first.text)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.headers.get('location')).toBe(first.headers.get('location'))
    expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
    expect(await named('twice')).toBe(1)
  })

  test('refusals are repeated as well', async () => {
    const key = randomUUID()
    const first = await make('one', key)
    expect([first.status, first.body.code]).toEqual([409, 'name_taken'])
    const again = await make('one', key)
    expect([again.status, again.text]).toEqual([409, first.text])
    expect(again.headers.get('content-type')).toContain('problem+json')
    const invalid = randomUUID()
    for (const replayed of [null, 'true']) {
      const answer = await cp.call(
        'POST',
        '/api/servers',
        { nope: 1 },
        { 'idempotency-key': invalid },
      )
      expect([answer.status, answer.headers.get('idempotent-replayed')]).toEqual([422, replayed])
    }
  })

  test('another body or organization under the same key is refused, and so is a query that nobody knows', async () => {
    const key = randomUUID()
    expect((await make('keyed', key)).status).toBe(201)
    const other = await make('other', key)
    expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused'])
    expect(await named('other')).toBe(0)
    const narrowed = await make('keyed', key, { 'x-service-organization': '1' })
    expect(narrowed.body.code).toBe('idempotency_key_reused')
    const body = { name: 'keyed', hostname: 'h' }
    const query = await cp.call('POST', '/api/servers?x=1', body, { 'idempotency-key': key })
    expect(query.body.code).toBe('invalid_parameter')
  })

  test('keys belong to a person, a method and an address', async () => {
    const key = randomUUID()
    expect((await make('mine', key)).status).toBe(201)
    const path = `/api/servers/${serverId}/join_token`
    expect((await cp.call('POST', path, {}, { 'idempotency-key': key })).status).toBe(201)
  })

  test('twenty at once: one effect; the others get its reply or are told to wait', async () => {
    const key = randomUUID()
    const answers = await Promise.all(Array.from({ length: 20 }, () => make('crowd', key)))
    for (const { status, body } of answers) {
      if (status !== 201) expect([status, body.code]).toEqual([409, 'idempotency_in_flight'])
    }
    expect(answers.filter((a) => a.status === 201).length).toBeGreaterThan(0)
    expect(await named('crowd')).toBe(1)
    expect((await make('crowd', key)).headers.get('idempotent-replayed')).toBe('true')
  })

  test('a reply that showed a secret is not kept; what was made is named', async () => {
    const key = { 'idempotency-key': randomUUID() }
    const path = `/api/servers/${serverId}/join_token`
    const first = await cp.call<{ token: string }>('POST', path, {}, key)
    expect(first.status).toBe(201)
    const again = await cp.call('POST', path, {}, key)
    expect([again.status, again.body.code]).toEqual([409, 'idempotency_not_replayable'])
    expect(again.body).toMatchObject({ first_status: 201 })
    expect(JSON.stringify(await rows())).not.toContain(first.body.token.slice(-20))
    expect(again.text).not.toContain(first.body.token.slice(-20))
  })

  test('no row holds the value of a variable or any body', async () => {
    const project = await cp.project('vars', serverId)
    const key = { 'idempotency-key': randomUUID() }
    const body = { identifier: 'main', branch: 'main', variables: { A: 'canary-4711' } }
    const path = `/api/projects/${project.id}/environments`
    expect((await cp.call('POST', path, body, key)).status).toBe(201)
    expect((await cp.call('POST', path, body, key)).headers.get('idempotent-replayed')).toBe('true')
    expect(JSON.stringify(await rows())).not.toContain('canary')
  })

  test('a fault is not remembered: the same key may try again', async () => {
    const key = randomUUID()
    const { db } = cp.running.ctx
    const { secretStore } = cp.running.ctx
    const seal = secretStore.seal.bind(secretStore)
    secretStore.seal = () => {
      throw new Error('planned')
    }
    const project = { name: 'faulty', repo_url: 'https://x.org/a', domain: 'faulty.example.com' }
    const ask = () =>
      cp.call(
        'POST',
        '/api/projects',
        { ...project, server_ids: [serverId] },
        { 'idempotency-key': key },
      )
    expect((await ask()).status).toBe(500)
    secretStore.seal = seal
    const left = await db.selectFrom('idempotencyKeys').selectAll().where('key', '=', key).execute()
    expect(left).toEqual([])
    expect((await ask()).status).toBe(201)
  })

  test('killed in the middle: in flight for five minutes, then the key is free', async () => {
    const key = randomUUID()
    const { ctx } = cp.running
    expect((await make('before', key)).status).toBe(201)
    // the state after a kill before the commit: begun, never answered
    await ctx.db
      .updateTable('idempotencyKeys')
      .set({ status: null, body: null, contentType: null, location: null, effectAt: null })
      .where('key', '=', key)
      .execute()
    const waits = await make('before', key)
    expect([waits.status, waits.body.code]).toEqual([409, 'idempotency_in_flight'])
    cp.clock.offsetMs += 5 * 60_000
    const after = await make('before', key)
    expect([after.status, after.body.code]).toEqual([409, 'name_taken']) // it runs again
  })

  test('after 24 hours the key is free, and its row is swept', async () => {
    const key = randomUUID()
    expect((await make('day', key)).status).toBe(201)
    cp.clock.offsetMs += 24 * HOUR
    expect((await make('day two', key)).status).toBe(201)
    cp.clock.offsetMs += 24 * HOUR + 1
    await sweep(cp.running.ctx)
    expect(await rows()).toEqual([])
  })

  describe('after access was taken away', () => {
    const keyed = () => ({ 'idempotency-key': randomUUID() })
    /** Sends twice; between the two the caller's membership changes. */
    const twice = async (
      path: string,
      body: object,
      between: (m: { id: number }) => Promise<unknown>,
      method = 'POST',
    ) => {
      const person = await addMember(cp, `P${randomUUID().slice(0, 8)}`, 'admin')
      const key = keyed()
      const first = await person.call(method, path, body, key)
      expect(first.status).toBeLessThan(300)
      expect((await person.call(method, path, body, key)).text).toBe(first.text)
      await between(person)
      const again = await person.call(method, path, body, key)
      expect(again.headers.get('idempotent-replayed')).toBe(null)
      return again
    }
    const demote = ({ id }: { id: number }) =>
      cp.call('PATCH', `/api/organizations/1/members/${id}`, { role: 'viewer' })
    const remove = ({ id }: { id: number }) =>
      cp.call('DELETE', `/api/organizations/1/members/${id}`)
    let projectId = 0
    beforeAll(async () => {
      projectId = (await cp.project('repeats', serverId)).id
    })

    test('a lesser role is told so, as if it asked for the first time', async () => {
      const body = { name: `s-${randomUUID().slice(0, 8)}`, hostname: 'h' }
      const made = await twice('/api/servers', body, demote)
      expect([made.status, made.body.code]).toEqual([403, 'permission_denied'])
      const changed = await twice(`/api/projects/${projectId}`, {}, demote, 'PATCH')
      expect([changed.status, changed.body.code]).toEqual([403, 'permission_denied'])
      const path = `/api/projects/${projectId}/environments`
      const environment = { identifier: `e-${randomUUID().slice(0, 8)}`, branch: 'main' }
      expect((await twice(path, environment, demote)).status).toBe(403)
    })

    test('a stranger finds nothing, whatever the reply was', async () => {
      const path = `/api/projects/${projectId}/environments`
      const environment = { identifier: `e-${randomUUID().slice(0, 8)}`, branch: 'main' }
      const gone = await twice(path, environment, remove)
      expect([gone.status, gone.body.code]).toEqual([404, 'not_found'])
      // owners of another organization learn as little
      const elsewhere = await twice(
        `/api/projects/${projectId}`,
        {},
        async (person) => {
          const organizationId = await addOrganization(cp, `o-${randomUUID().slice(0, 8)}`)
          await insertMember(cp.running.ctx.db, {
            organizationId,
            userId: person.id,
            role: 'owner',
            createdAt: 1,
          })
          await remove(person)
        },
        'PATCH',
      )
      expect([elsewhere.status, elsewhere.body.code]).toEqual([404, 'not_found'])
    })

    test('nor is what was made named, where the reply is not kept', async () => {
      const person = await addMember(cp, `P${randomUUID().slice(0, 8)}`, 'admin')
      const key = keyed()
      const path = `/api/servers/${serverId}/join_token`
      expect((await person.call('POST', path, { rejoin: true }, key)).status).toBe(201)
      await remove(person)
      const again = await person.call('POST', path, { rejoin: true }, key)
      expect([again.status, again.body.code]).toEqual([404, 'not_found'])
    })
  })

  test('a key that is none is refused; GET has no keys', async () => {
    for (const bad of ['', 'x'.repeat(256), 'tab\there']) {
      const answer = await make('bad', bad)
      expect([answer.status, answer.body.code]).toEqual([400, 'invalid_header'])
    }
    const get = await cp.call('GET', '/api/servers', undefined, { 'idempotency-key': 'k' })
    expect(get.status).toBe(200)
    expect(await named('bad')).toBe(0)
  })
})
