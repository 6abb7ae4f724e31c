// "While an environment is protected": the specification's sentences, at every REST endpoint. On both databases.
import type { Environment } from '@berth/shared/api'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addMember, type Person } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

describe.each(ENGINES)('protection on %s', (engine) => {
  let cp: TestControlPlane
  let developer: Person
  let admin: Person
  let owner: Person
  let viewer: Person
  let projectId: number
  let otherServer: number
  let n = 0
  let environment: Environment
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const server = await cp.server()
    otherServer = (await cp.server('two')).id
    const project = await cp.project('shop', server.id, { server_ids: [server.id, otherServer] })
    projectId = project.id
    await cp.call('PUT', `/api/projects/${projectId}/environment_limit`, { limit: 100 })
    developer = await addMember(cp, 'Dev', 'developer')
    admin = await addMember(cp, 'Adm', 'admin')
    owner = await addMember(cp, 'Own', 'owner')
    viewer = await addMember(cp, 'View', 'viewer')
  })
  afterAll(() => cp.close())

  const path = () => `/api/environments/${environment.id}`
  /** Everything that changes an environment. */
  const gateways = (): [string, string, unknown][] => [
    ['POST', `${path()}/tasks`, undefined],
    ['PATCH', path(), { title: 'Mine' }],
    ['PATCH', path(), { sticky: true }],
    ['PATCH', path(), { auto_deploy: false }],
    ['PATCH', path(), { protected: false }],
    ['PATCH', path(), { owner_id: developer.id }],
    ['DELETE', `${path()}?confirm=${environment.identifier}`, undefined],
    ['DELETE', `${path()}?force=true&confirm=${environment.identifier}`, undefined],
    ['DELETE', `${path()}?forget=true&confirm=${environment.identifier}`, undefined],
    ['POST', `${path()}/restart`, undefined],
    ['POST', `${path()}/stop`, undefined],
    ['POST', `${path()}/start`, undefined],
    ['POST', `${path()}/backups`, undefined],
    ['PATCH', `${path()}/backup-settings`, { keep_count: 1 }],
    ['POST', `${path()}/reset`, { confirm: environment.identifier }],
    ['PUT', `${path()}/basic_auth`, { mode: 'off' }],
    ['PATCH', `${path()}/variables`, { set: { A: '1' } }],
  ]

  describe('a protected environment', () => {
    beforeEach(async () => {
      environment = await cp.environment(projectId, `e${++n}`, { protected: true })
    })

    test('only its owner can deploy, edit or delete it, or change its variables and settings', async () => {
      const before = (await cp.call('GET', path())).body
      for (const who of [developer, admin, owner]) {
        for (const [method, url, body] of gateways()) {
          const refused = await who.call(method, url, body)
          // forgetting checks the role first, so a developer does not reach the protection check
          const early = url.includes('forget') && who === developer
          const expected = early ? 'permission_denied' : 'environment_protected'
          expect([method, url, refused.status, refused.body.code]).toEqual([
            method,
            url,
            403,
            expected,
          ])
          if (!early) expect(refused.body.owner).toEqual({ id: 1, name: 'Ada' })
        }
      }
      expect((await cp.call('GET', path())).body).toEqual(before)
      expect((await cp.call('GET', `${path()}/variables`)).body).toEqual([])
    })

    test('Other users can view it', async () => {
      for (const who of [viewer, developer, admin, owner]) {
        const seen = await who.call<Environment>('GET', path())
        expect([seen.status, seen.body.protected, seen.body.may]).toEqual([200, true, []])
        expect((await who.call('GET', `${path()}/variables`)).status).toBe(200)
        expect((await who.call('GET', `${path()}/tasks`)).status).toBe(200)
      }
    })

    test('its title, server and domain cannot be changed. Protection must be removed and saved first', async () => {
      const changes = {
        title: 'Other',
        server_id: otherServer,
        domain: `other${n}.shop.example.com`,
      }
      for (const [field, value] of Object.entries(changes)) {
        for (const more of [{}, { protected: false }]) {
          const refused = await cp.call('PATCH', path(), { [field]: value, ...more })
          expect([refused.status, refused.body.code, refused.body.fields]).toEqual([
            409,
            'protection_active',
            [field],
          ])
        }
      }
      expect((await cp.call<Environment>('GET', path())).body.protected).toBe(true)
      expect((await cp.call('PATCH', path(), { protected: false })).status).toBe(200)
      const changed = await cp.call<Environment>('PATCH', path(), changes)
      expect(changed.body).toMatchObject({
        title: 'Other',
        domain: changes.domain,
        server: { id: otherServer },
        protected: false,
      })
    })

    test('Reset environment is not offered', async () => {
      const { body } = await cp.call<Environment>('GET', path())
      expect(body.may).toContain('delete')
      expect(body.may).not.toContain('reset')
      const refused = await cp.call('POST', `${path()}/reset`, { confirm: body.identifier })
      expect([refused.status, refused.body.code]).toEqual([409, 'protection_active'])
    })

    test('its owner changes the rest, and removes it only by its name', async () => {
      const sticky = await cp.call<Environment>('PATCH', path(), { sticky: true, recipe: 'docker' })
      expect([sticky.status, sticky.body.sticky, sticky.body.recipe]).toEqual([200, true, 'docker'])
      expect((await cp.call('PATCH', `${path()}/variables`, { set: { A: '1' } })).status).toBe(200)
      for (const query of ['', '?confirm=other', '?force=true']) {
        const refused = await cp.call('DELETE', path() + query)
        expect([refused.status, refused.body.code, refused.body.confirm]).toEqual([
          409,
          'confirmation_required',
          environment.identifier,
        ])
      }
      const gone = await cp.call('DELETE', `${path()}?confirm=${environment.identifier}`)
      expect(gone.status).toBe(202)
    })

    test('given to somebody else, it is theirs', async () => {
      const given = await cp.call<Environment>('PATCH', path(), { owner_id: developer.id })
      expect(given.body.owner).toEqual({ id: developer.id, name: 'Dev' })
      expect((await cp.call('PATCH', path(), { sticky: true })).body.code).toBe(
        'environment_protected',
      )
      expect((await developer.call('PATCH', path(), { protected: false })).status).toBe(200)
    })
  })

  test('protection is switched on by its owner or an administrator, off by its owner alone', async () => {
    environment = await cp.environment(projectId, `e${++n}`)
    const refused = await developer.call('PATCH', path(), { protected: true })
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_denied'])
    for (const who of [admin, owner]) {
      expect((await who.call('PATCH', path(), { protected: true })).status).toBe(200)
      const off = await who.call('PATCH', path(), { protected: false })
      expect([off.status, off.body.code]).toEqual([403, 'environment_protected'])
      expect((await cp.call('PATCH', path(), { protected: false })).status).toBe(200)
    }
    const mine = await developer.call<Environment>(
      'POST',
      `/api/projects/${projectId}/environments`,
      { identifier: `e${++n}`, branch: 'main' },
    )
    environment = mine.body
    expect((await developer.call('PATCH', path(), { protected: true })).status).toBe(200)
    expect((await developer.call('PATCH', path(), { protected: false })).status).toBe(200)
  })

  test('nobody takes an environment away from its owner but an administrator', async () => {
    environment = await cp.environment(projectId, `e${++n}`)
    const refused = await developer.call('PATCH', path(), { owner_id: developer.id })
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_denied'])
    expect((await admin.call('PATCH', path(), { owner_id: developer.id })).status).toBe(200)
    for (const id of [viewer.id, 4_000]) {
      const wrong = await admin.call('PATCH', path(), { owner_id: id })
      expect([wrong.status, wrong.text.includes('invalid_owner')]).toEqual([422, true])
    }
  })
})
