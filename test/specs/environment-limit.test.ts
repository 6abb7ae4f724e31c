// The environment limit: 20 by default, changed by a platform administrator, used/limit shown. On both databases.
import type { Environment, ProjectDetail } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMember, addOrganization, type Person } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

describe.each(ENGINES)('the environment limit on %s', (engine) => {
  let cp: TestControlPlane
  let serverId: number
  let project: ProjectDetail
  let path: string
  let admin: Person
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    serverId = (await cp.server()).id
    project = await cp.project('shop', serverId)
    path = `/api/projects/${project.id}/environments`
    admin = await addMember(cp, 'Adm', 'owner')
  })
  afterAll(() => cp.close())

  const create = (identifier: string) =>
    cp.call<Environment>('POST', path, { identifier, branch: 'main' })
  const usage = async (): Promise<(string | null)[]> => {
    const { headers } = await cp.call('GET', path)
    return [headers.get('berth-environment-count'), headers.get('berth-environment-limit')]
  }
  const setLimit = (limit: unknown, who?: Person) => {
    const url = `/api/projects/${project.id}/environment_limit`
    return who ? who.call('PUT', url, { limit }) : cp.call('PUT', url, { limit })
  }

  test('20 by default; a project at its limit gets no further environment', async () => {
    expect(project.environment_limit).toBe(20)
    // concurrent requests: only one gets the last place
    const answers = await Promise.all(Array.from({ length: 24 }, (_, i) => create(`e${i}`)))
    const made = answers.filter((a) => a.status === 201)
    const refused = answers.filter((a) => a.status === 409)
    expect([made.length, refused.length]).toEqual([20, 4])
    for (const { body } of refused) {
      expect(body).toMatchObject({ code: 'environment_limit_reached', limit: 20, used: 20 })
    }
    expect(await usage()).toEqual(['20', '20'])
    const detail = await cp.call<ProjectDetail>('GET', `/api/projects/${project.id}`)
    expect([detail.body.environment_count, detail.body.environment_limit]).toEqual([20, 20])
  })

  test('A platform administrator can change it, and nobody else, whatever role', async () => {
    const refused = await setLimit(30, admin)
    expect([refused.status, refused.body.code]).toEqual([403, 'platform_admin_only'])
    expect((await setLimit(21)).body).toEqual({ limit: 21, used: 20 })
    expect(await usage()).toEqual(['20', '21'])
    expect((await create('more')).status).toBe(201)
    expect((await create('evenmore')).status).toBe(409)
    for (const wrong of [0, 501, 1.5, '30', null]) expect((await setLimit(wrong)).status).toBe(422)
    const patched = await cp.call('PATCH', `/api/projects/${project.id}`, { environment_limit: 99 })
    expect([patched.status, patched.text.includes('unknown_field')]).toEqual([422, true])
  })

  test('the administrator needs no membership, and sees nothing else of the project', async () => {
    const organizationId = await addOrganization(cp, 'platform')
    const outside = await addMember(cp, 'Root', 'viewer', { organizationId, isPlatformAdmin: true })
    expect((await setLimit(22, outside)).body).toEqual({ limit: 22, used: 21 })
    expect((await outside.call('GET', `/api/projects/${project.id}`)).status).toBe(404)
    const reader = await addMember(cp, 'Low', 'viewer', {
      organizationId,
      isPlatformAdmin: true,
      scopes: ['read'],
    })
    expect((await setLimit(22, reader)).body.code).toBe('insufficient_scope')
    // a token bound to an organization, and the header, stay within it
    const { db } = cp.running.ctx
    await db
      .updateTable('tokens')
      .set({ organizationId })
      .where('userId', '=', outside.id)
      .execute()
    expect((await setLimit(500, outside)).status).toBe(404)
    const own = await addMember(cp, 'Wide', 'viewer', { organizationId, isPlatformAdmin: true })
    const url = `/api/projects/${project.id}/environment_limit`
    const header = { 'x-service-organization': String(organizationId) }
    expect((await own.call('PUT', url, { limit: 500 }, header)).status).toBe(404)
    expect(await usage()).toEqual(['21', '22'])
    const stranger = await addMember(cp, 'Eve', 'owner', { organizationId })
    expect((await setLimit(22, stranger)).status).toBe(404)
  })

  test('a lower limit removes nothing and lets nothing in until there is room', async () => {
    expect((await setLimit(20)).body).toEqual({ limit: 20, used: 21 })
    expect((await create('x')).status).toBe(409)
    const { body } = await cp.call<Environment[]>('GET', path)
    for (const environment of body.slice(0, 2)) {
      expect((await cp.call('DELETE', `/api/environments/${environment.id}`)).status).toBe(202)
    }
    expect(await usage()).toEqual(['19', '20'])
    expect((await create('x')).status).toBe(201)
  })

  test('removed names are free again', async () => {
    const before = (await cp.call<Environment[]>('GET', path)).body[0]
    await cp.call('DELETE', `/api/environments/${before?.id}`)
    const again = await create(before?.identifier ?? '')
    expect([again.status, again.body.domain]).toEqual([201, before?.domain])
    expect((await create(before?.identifier ?? '')).status).toBe(409)
  })
})
