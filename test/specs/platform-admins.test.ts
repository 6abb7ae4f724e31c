// "Platform administrators": they see accounts and the names, counts and limits of everything, but no contents.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  as,
  Browser,
  PASSWORD,
  type Person,
  person,
  refresh,
  setUpWithPassword,
} from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

describe.each(ENGINES)('platform administrators, on %s', (engine) => {
  let cp: TestControlPlane
  let member: Person
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await setUpWithPassword(cp)
    member = await person(cp, 'Bob', 'owner')
  })
  afterAll(() => cp.close())
  const change = async (id: number, body: object) => {
    const answer = await cp.call('PATCH', `/api/admin/users/${id}`, body)
    return answer.status === 200 ? answer.body : answer.body.code
  }

  test('everybody else is refused, owners too', async () => {
    await as(cp, member.token, async () => {
      for (const path of ['users', 'organizations', 'projects']) {
        const { body } = await cp.call('GET', `/api/admin/${path}`)
        expect(body.code, path).toBe('platform_admin_only')
      }
      expect(await change(1, { disabled: true })).toBe('platform_admin_only')
    })
  })

  test('see names, counts and limits of organizations they do not belong to, and nothing in them', async () => {
    const [server] = [await cp.server()]
    const project = await cp.project('shop', server.id)
    await cp.environment(project.id)
    await change(member.id, { is_platform_admin: true })
    await cp.make('/api/organizations', { name: 'Elsewhere' })
    const lists = await as(cp, member.token, async () => ({
      organizations: (await cp.call<object[]>('GET', '/api/admin/organizations')).body,
      projects: (await cp.call<object[]>('GET', '/api/admin/projects')).body,
      users: (await cp.call<object[]>('GET', '/api/admin/users?per_page=1')).body,
      inside: (await cp.call('GET', '/api/organizations/2/members')).body.code,
    }))
    expect(lists.organizations).toMatchObject([
      { id: 1, name: 'Acme', project_count: 1, member_count: 2, server_count: 1 },
      { id: 2, name: 'Elsewhere', project_count: 0, member_count: 1, server_count: 0 },
    ])
    expect(Object.keys(lists.projects[0] ?? {}).sort()).toEqual([
      'created_at',
      'environment_count',
      'environment_limit',
      'id',
      'name',
      'organization',
      'status',
    ])
    expect(lists.projects).toMatchObject([{ environment_count: 1, environment_limit: 20 }])
    expect(lists.users).toHaveLength(1)
    expect(lists.inside).toBe('not_found')
    await change(member.id, { is_platform_admin: false })
  })

  test('a disabled account is out at once, with every session, login and token, and comes back without them', async () => {
    const eve = await person(cp, 'Eve', 'developer')
    const browser = new Browser(cp)
    await browser.signIn(eve.email, PASSWORD)
    expect(await browser.user()).toBe(eve.email)
    expect(await change(eve.id, { disabled: true })).toMatchObject({ disabled: true })
    expect(await browser.user()).toBeUndefined()
    const me = () => as(cp, eve.token, async () => (await cp.call('GET', '/api/me')).body.code)
    expect(await me()).toBe('token_revoked')
    const refused = await new Browser(cp).signIn(eve.email, PASSWORD)
    const unknown = await new Browser(cp).signIn('nobody@example.com', PASSWORD)
    expect([refused.status, refused.text]).toEqual([unknown.status, unknown.text])
    expect(await change(eve.id, { disabled: false })).toMatchObject({ disabled: false })
    expect(await me()).toBe('token_revoked')
    expect((await browser.signIn(eve.email, PASSWORD)).status).toBe(200)
    expect((await refresh(cp, 'berth_rt_x')).body.error).toBe('invalid_grant')
  })

  test('the last one stays, also when two dismiss each other at once', async () => {
    expect(await change(1, { is_platform_admin: false })).toBe('last_platform_admin')
    expect(await change(1, { disabled: true })).toBe('last_platform_admin')
    await change(member.id, { is_platform_admin: true })
    const [first, second] = await Promise.all([
      cp.call('PATCH', `/api/admin/users/${member.id}`, { is_platform_admin: false }),
      cp.call(
        'PATCH',
        '/api/admin/users/1',
        { is_platform_admin: false },
        { authorization: `Bearer ${member.token}` },
      ),
    ])
    expect([first.status, second.status].filter((s) => s === 200)).toHaveLength(1)
    const { db } = cp.running.ctx
    const left = await db
      .selectFrom('users')
      .where('isPlatformAdmin', '=', 1)
      .select('id')
      .execute()
    expect(left).toHaveLength(1)
  })
})
