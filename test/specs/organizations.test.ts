// "Organizations group projects and members with role-based access": members, invitations, leaving, platform
// administrators, and the organization header, from outside.
import type { Member, OrganizationDetail, Role } from '@berth/shared/api'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  as,
  Browser,
  listMails,
  mailTo,
  PASSWORD,
  type Person,
  person,
  setUpWithPassword,
  tokenIn,
} from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

const MINUTE = 60_000
const DAY = 86_400_000

describe.each(ENGINES)('organizations, on %s', (engine) => {
  let cp: TestControlPlane
  let admin: Person
  let developer: Person
  let viewer: Person
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await setUpWithPassword(cp)
    admin = await person(cp, 'Admin', 'admin')
    developer = await person(cp, 'Dev', 'developer')
    viewer = await person(cp, 'Viewer', 'viewer')
  })
  afterAll(() => cp.close())
  beforeEach(() => cp.advance(2 * MINUTE))

  const ADA = 1
  const codeOf = async (method: string, path: string, body?: unknown, headers = {}) => {
    const answer = await cp.call(method, path, body, headers)
    return answer.status < 300 ? answer.status : answer.body.code
  }
  const setRole = (id: number, role: Role, organization = 1) =>
    codeOf('PATCH', `/api/organizations/${organization}/members/${id}`, { role })
  const remove = (id: number, organization = 1) =>
    codeOf('DELETE', `/api/organizations/${organization}/members/${id}`)
  const inviteAs = (email: string, role: Role, organization = 1) =>
    codeOf('POST', `/api/organizations/${organization}/invitations`, { email, role })
  let counter = 0
  const organization = (name = `Org ${++counter}`) =>
    cp.make<OrganizationDetail>('/api/organizations', { name })

  test('/api/me shows role, effective permissions and counts of every organization', async () => {
    await as(cp, developer.token, async () => {
      const { body } = await cp.call('GET', '/api/me')
      expect(body).toMatchObject({
        id: developer.id,
        name: 'Dev',
        email: 'dev@example.com',
        avatar_url: null,
        is_platform_admin: false,
        current_organization_id: null,
        token: { kind: 'login', scopes: ['read', 'deploy', 'write', 'ssh', 'admin'] },
        organizations: [
          {
            id: 1,
            name: 'Acme',
            slug: 'acme',
            role: 'developer',
            permissions: ['read', 'deploy', 'environment:write', 'variables:write', 'ssh'],
            project_count: 0,
          },
        ],
      })
      const asked = await cp.call('GET', '/api/me', undefined, { 'x-service-organization': '1' })
      expect(asked.body).toMatchObject({ current_organization_id: 1 })
    })
  })

  test('only platform administrators make organizations; slugs are unique and changeable', async () => {
    const made = await organization('Beta Ltd.')
    expect(made).toMatchObject({ slug: 'beta-ltd', role: 'owner', member_count: 1 })
    expect(await codeOf('POST', '/api/organizations', { name: 'beta ltd' })).toBe('slug_taken')
    const path = `/api/organizations/${made.id}`
    expect(await codeOf('PATCH', path, { slug: 'acme' })).toBe('slug_taken')
    const renamed = await cp.call('PATCH', path, { name: 'Beta', slug: 'beta' })
    expect(renamed.body).toMatchObject({ name: 'Beta', slug: 'beta' })
    await as(cp, admin.token, async () => {
      expect(await codeOf('POST', '/api/organizations', { name: 'X' })).toBe('platform_admin_only')
      expect(await codeOf('PATCH', path, { name: 'Mine' })).toBe('not_found')
      expect(await codeOf('PATCH', '/api/organizations/1', { name: 'Mine' })).toBe(
        'permission_denied',
      )
    })
    const list = await cp.call<OrganizationDetail[]>('GET', '/api/organizations')
    expect(list.body.map((o) => o.slug)).toEqual(['acme', 'beta'])
  })

  test('where the installation is open, anybody makes one and owns it', async () => {
    cp.running.ctx.config.openOrganizations = true
    await as(cp, viewer.token, async () => {
      const made = await organization()
      expect(made.role).toBe('owner')
      expect(await codeOf('DELETE', `/api/organizations/${made.id}?confirm=${made.slug}`)).toBe(204)
      const bound = { name: 't', scopes: ['admin'], expires_in_days: 1, organization_id: 1 }
      const { token } = await cp.make<{ token: string }>('/api/tokens', bound)
      const body = { name: 'Nowhere' }
      expect(await as(cp, token, () => codeOf('POST', '/api/organizations', body))).toBe(
        'organization_forbidden',
      )
      const { id, slug } = await organization('Nowhere')
      expect(slug).toBe('nowhere')
      expect(await codeOf('DELETE', `/api/organizations/${id}?confirm=${slug}`)).toBe(204)
    })
    cp.running.ctx.config.openOrganizations = false
  })

  test('one that is not empty is not ended; an empty one needs its slug', async () => {
    const { id, slug } = await organization()
    const headers = { 'x-service-organization': String(id) }
    const server = { name: 'one', hostname: '127.0.0.1' }
    expect(await codeOf('POST', '/api/servers', server, headers)).toBe(201)
    const path = `/api/organizations/${id}`
    expect(await codeOf('DELETE', `${path}?confirm=${slug}`)).toBe('organization_not_empty')
    await cp.running.ctx.db.deleteFrom('servers').where('organizationId', '=', id).execute()
    expect(await codeOf('DELETE', path)).toBe('confirmation_required')
    expect(await codeOf('DELETE', `${path}?confirm=other`)).toBe('confirmation_required')
    const body = { name: 't', scopes: ['read'], expires_in_days: 1, organization_id: id }
    const bound = await cp.make<{ token: string }>('/api/tokens', body)
    expect(await codeOf('DELETE', `${path}?confirm=${slug}`)).toBe(204)
    expect(await codeOf('GET', `${path}/members`)).toBe('not_found')
    await as(cp, bound.token, async () => {
      expect(await codeOf('GET', '/api/me')).toBe('token_revoked')
    })
    const again = await cp.make<OrganizationDetail>('/api/organizations', { name: 'N', slug })
    expect(again.id).not.toBe(id)
  })

  describe('roles', () => {
    test('members are listed, page by page', async () => {
      const seen: string[] = []
      let path: string | undefined = '/api/organizations/1/members?per_page=2'
      while (path !== undefined) {
        const page: { headers: Headers; body: Member[] } = await cp.call<Member[]>('GET', path)
        expect(page.body.length).toBeLessThanOrEqual(2)
        seen.push(...page.body.map((m) => `${m.user.name} ${m.role}`))
        const next = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1]
        path = next?.slice(cp.url.length)
      }
      expect(seen).toEqual(['Ada owner', 'Admin admin', 'Dev developer', 'Viewer viewer'])
    })

    test('nobody gives or touches a role above their own', async () => {
      await as(cp, admin.token, async () => {
        expect(await setRole(viewer.id, 'owner')).toBe('role_too_high')
        expect(await setRole(ADA, 'viewer')).toBe('role_too_high')
        expect(await setRole(admin.id, 'owner')).toBe('role_too_high')
        expect(await remove(ADA)).toBe('role_too_high')
        expect(await inviteAs('high@example.com', 'owner')).toBe('role_too_high')
        expect(await setRole(viewer.id, 'admin')).toBe(200)
        expect(await setRole(viewer.id, 'viewer')).toBe(200)
        expect(await setRole(999, 'viewer')).toBe('not_found')
      })
      for (const { token } of [developer, viewer]) {
        await as(cp, token, async () => {
          expect(await setRole(viewer.id, 'viewer')).toBe('permission_denied')
          expect(await remove(admin.id)).toBe('permission_denied')
          expect(await inviteAs('x@example.com', 'viewer')).toBe('permission_denied')
          expect(await codeOf('GET', '/api/organizations/1/invitations')).toBe('permission_denied')
        })
      }
    })

    test('the last owner stays owner and stays, also when two owners leave at once', async () => {
      expect(await setRole(ADA, 'admin')).toBe('last_owner')
      expect(await remove(ADA)).toBe('last_owner')
      const { id } = await organization()
      const other = await person(cp, `Owner${id}`, 'owner', id)
      const leaves = await Promise.all([
        cp.call('DELETE', `/api/organizations/${id}/members/${ADA}`),
        cp.call('DELETE', `/api/organizations/${id}/members/${other.id}`, undefined, {
          authorization: `Bearer ${other.token}`,
        }),
      ])
      expect(leaves.map((a) => a.status).sort()).toEqual([204, 409])
    })

    test('a change of role holds from the next request on', async () => {
      const path = '/api/organizations/1/invitations'
      expect(await setRole(developer.id, 'admin')).toBe(200)
      await as(cp, developer.token, async () => expect(await codeOf('GET', path)).toBe(200))
      expect(await setRole(developer.id, 'developer')).toBe(200)
      await as(cp, developer.token, async () =>
        expect(await codeOf('GET', path)).toBe('permission_denied'),
      )
    })
  })

  describe('leaving', () => {
    test('what a leaver owned passes on, bound tokens die, a removed member is refused at once', async () => {
      const { id } = await organization()
      const headers = { 'x-service-organization': String(id) }
      const second = await person(cp, `Second${id}`, 'owner', id)
      const leaver = await person(cp, `Leaver${id}`, 'admin', id)
      const manager = await person(cp, `Keeper${id}`, 'admin', id)
      const server = await cp.call<{ id: number }>(
        'POST',
        '/api/servers',
        { name: 'one', hostname: '127.0.0.1' },
        headers,
      )
      const [own, kept] = await as(cp, leaver.token, async () => {
        const own = await cp.project(`own${id}`, server.body.id)
        await cp.environment(own.id, 'main', { protected: true })
        const kept = await as(cp, manager.token, () => cp.project(`kept${id}`, server.body.id))
        await cp.environment(kept.id)
        return [own, kept]
      })
      const body = { name: 't', scopes: ['read'], expires_in_days: 1, organization_id: id }
      const bound = await as(cp, leaver.token, () =>
        cp.make<{ token: string; organization_id: number }>('/api/tokens', body),
      )
      expect(bound.organization_id).toBe(id)
      expect(await remove(leaver.id, id)).toBe(204)
      await as(cp, bound.token, async () =>
        expect(await codeOf('GET', '/api/me')).toBe('token_revoked'),
      )
      await as(cp, leaver.token, async () => {
        expect((await cp.call('GET', '/api/projects')).body).toEqual([])
        expect(await codeOf('GET', `/api/projects/${own.id}`)).toBe('not_found')
        expect(await codeOf('GET', '/api/projects', undefined, headers)).toBe(
          'organization_forbidden',
        )
      })
      const owner = async (path: string) => {
        const { body: found } = await cp.call('GET', path)
        return (Array.isArray(found) ? found[0] : found).owner.name
      }
      expect(await owner(`/api/projects/${own.id}`)).toBe('Ada') // an owner for longer than Second
      expect(await owner(`/api/projects/${own.id}/environments`)).toBe('Ada')
      expect(await owner(`/api/projects/${kept.id}`)).toBe(`Keeper${id}`)
      expect(await owner(`/api/projects/${kept.id}/environments`)).toBe(`Keeper${id}`)
      expect(second.id).toBeGreaterThan(ADA)
    })

    test('everybody may leave by themselves, with a token that may manage members', async () => {
      const { id } = await organization()
      const leaver = await person(cp, `Self${id}`, 'viewer', id)
      const narrow = { name: 't', scopes: ['read'], expires_in_days: 1 }
      const reader = await as(cp, leaver.token, () =>
        cp.make<{ token: string }>('/api/tokens', narrow),
      )
      await as(cp, reader.token, async () =>
        expect(await remove(leaver.id, id)).toBe('insufficient_scope'),
      )
      await as(cp, leaver.token, async () => {
        expect(await remove(leaver.id, id)).toBe(204)
        expect(await remove(leaver.id, id)).toBe('not_found')
      })
    })
  })

  describe('invitations', () => {
    const path = '/api/organizations/1/invitations'
    const register = (token: string, name = 'New') =>
      codeOf('POST', '/api/invitations/register', { token, name, password: PASSWORD })
    const accept = (token: string) => codeOf('POST', '/api/invitations/accept', { token })

    test('go to one address, are used once, and are in no answer, list or row', async () => {
      const email = 'new@example.com'
      const made = await cp.call('POST', path, { email: 'New@Example.com', role: 'developer' })
      expect(made.body).toMatchObject({ email, role: 'developer', status: 'pending' })
      const token = tokenIn(await mailTo(cp, email, 'invitation'))
      const list = await cp.call('GET', path)
      const rows = await cp.running.ctx.db.selectFrom('invitations').selectAll().execute()
      for (const text of [made.text, list.text, JSON.stringify(rows)]) {
        expect(text).not.toContain(token)
      }
      expect(await codeOf('POST', path, { email, role: 'viewer' })).toBe('already_invited')
      const offer = await cp.call('POST', '/api/invitations/describe', { token })
      expect(offer.body).toMatchObject({ email, role: 'developer', account_exists: false })
      const both = await Promise.all([register(token), register(token)])
      expect(both.filter((v) => v === 201)).toHaveLength(1)
      expect(await register(token)).toBe('invitation_expired')
      expect(await codeOf('POST', path, { email, role: 'viewer' })).toBe('already_member')
      const browser = new Browser(cp)
      expect((await browser.signIn(email, PASSWORD)).status).toBe(200)
      const after = await cp.call<{ email: string; status: string }[]>('GET', path)
      expect(after.body.find((i) => i.email === email)?.status).toBe('accepted')
    })

    test('whoever is invited has a place: 500 members, and not one more', async () => {
      const { id } = await organization()
      const { db } = cp.running.ctx
      const people = Array.from({ length: 498 }, (_, n) => ({
        name: `Crowd ${n}`,
        email: `crowd-${id}-${n}@example.com`,
        createdAt: 1,
      }))
      const made = await db.insertInto('users').values(people).returning('id').execute()
      const member = { organizationId: id, role: 'viewer', createdAt: 1 } as const
      const members = made.map((user) => ({ ...member, userId: user.id }))
      await db.insertInto('members').values(members).execute()
      expect(await inviteAs(`last-${id}@example.com`, 'viewer', id)).toBe(201)
      const over = { email: `over-${id}@example.com`, role: 'viewer' }
      const { body } = await cp.call('POST', `/api/organizations/${id}/invitations`, over)
      expect(body).toMatchObject({ errors: [{ code: 'too_many_members' }] })
    })

    test('somebody with an account accepts as that account, and only as that one', async () => {
      const { id } = await organization()
      await cp.make(`/api/organizations/${id}/invitations`, {
        email: developer.email,
        role: 'viewer',
      })
      const token = tokenIn(await mailTo(cp, developer.email, 'invitation', 2))
      expect(await register(token)).toBe('account_exists')
      await as(cp, viewer.token, async () =>
        expect(await accept(token)).toBe('invitation_for_other_address'),
      )
      await as(cp, developer.token, async () => {
        const answer = await cp.call('POST', '/api/invitations/accept', { token })
        expect(answer.body).toMatchObject({ organization: { id }, role: 'viewer' })
        expect(await accept(token)).toBe('invitation_expired')
      })
    })

    test('a newer link kills the former; 7 days end it; a withdrawn one is gone', async () => {
      const email = 'late@example.com'
      const { id } = await cp.make<{ id: number }>(path, { email, role: 'viewer' })
      const first = tokenIn(await mailTo(cp, email, 'invitation'))
      expect(await codeOf('POST', `${path}/${id}/resend`)).toBe(202)
      const second = tokenIn(await mailTo(cp, email, 'invitation', 2))
      expect(await register(first)).toBe('invitation_expired')
      await cp.advance(7 * DAY)
      expect(await register(second)).toBe('invitation_expired')
      const list = await cp.call<{ email: string; status: string }[]>('GET', path)
      expect(list.body.find((i) => i.email === email)?.status).toBe('expired')
      const again = await cp.make<{ id: number }>(path, { email, role: 'viewer' })
      const third = tokenIn(await mailTo(cp, email, 'invitation', 3))
      expect(await codeOf('DELETE', `${path}/${again.id}`)).toBe(204)
      expect(await register(third)).toBe('invitation_expired')
      for (const made of ['x', `berth_invite_${'0'.repeat(49)}`]) {
        expect(await register(made)).toBe('invitation_expired')
      }
    })

    test('of another organization do not exist, whatever the path says', async () => {
      const { id } = await organization()
      const made = await cp.make<{ id: number }>(path, { email: 'q@example.com', role: 'viewer' })
      for (const [method, end] of [
        ['POST', '/resend'],
        ['DELETE', ''],
      ] as const) {
        const crossed = `/api/organizations/${id}/invitations/${made.id}${end}`
        expect(await codeOf(method, crossed)).toBe('not_found')
      }
    })

    test('no name or address smuggles a header or a second recipient into the mail', async () => {
      const bad = ['a@example.com\r\nBcc: b@example.com', 'a@example.com,b@example.com', 'a b@c.d']
      for (const email of bad) {
        expect(await codeOf('POST', path, { email, role: 'viewer' })).toBe('validation_failed')
      }
      const mails = await listMails(cp)
      expect(mails.every((m) => !/[\r\n,]/.test(m.recipient + m.subject))).toBe(true)
    })
  })

  describe('the header X-Service-Organization', () => {
    let other: OrganizationDetail
    let projects: { id: number }[]
    const asked = (id: number | string) => ({ 'x-service-organization': String(id) })
    beforeAll(async () => {
      other = await organization('Other')
      projects = []
      for (const id of [1, other.id]) {
        const server = await cp.call<{ id: number }>(
          'POST',
          '/api/servers',
          { name: 'header', hostname: '127.0.0.1' },
          asked(id),
        )
        const made = await cp.call<{ id: number }>(
          'POST',
          '/api/projects',
          {
            name: `header${id}`,
            repo_url: 'https://git.example.com/a.git',
            domain: `header${id}.example.com`,
            server_ids: [server.body.id],
          },
          asked(id),
        )
        projects.push(made.body)
      }
    })
    const names = async (headers = {}) => {
      const { body } = await cp.call<{ name: string }[]>('GET', '/api/projects', undefined, headers)
      return body.map((p) => p.name).filter((n) => n.startsWith('header'))
    }

    test('absent: lists cover all organizations, single things need none', async () => {
      expect(await names()).toEqual(['header1', `header${other.id}`])
      for (const { id } of projects) expect(await codeOf('GET', `/api/projects/${id}`)).toBe(200)
    })

    test('present: lists are filtered, things of others are not found, new things go there', async () => {
      expect(await names(asked(other.id))).toEqual([`header${other.id}`])
      const [first, second] = projects.map((p) => `/api/projects/${p.id}`)
      expect(await codeOf('GET', String(first), undefined, asked(other.id))).toBe('not_found')
      expect(await codeOf('GET', String(second), undefined, asked(other.id))).toBe(200)
      const list = await cp.call<unknown[]>('GET', '/api/organizations', undefined, asked(1))
      expect(list.body).toHaveLength(1)
      const body = { name: 't', scopes: ['read'], expires_in_days: 1 }
      const token = await cp.call('POST', '/api/tokens', body, asked(other.id))
      expect(token.body.organization_id).toBe(other.id)
    })

    test('not a positive integer: invalid_organization', async () => {
      for (const bad of [
        '0',
        '-1',
        '1.5',
        'acme',
        '1,2',
        '9'.repeat(20),
        '0x1',
        '1e0',
        '+1',
        '01',
      ]) {
        expect(await codeOf('GET', '/api/me', undefined, asked(bad)), bad).toBe(
          'invalid_organization',
        )
      }
    })

    test('unknown and foreign answer with the same body', async () => {
      await as(cp, viewer.token, async () => {
        const bodies = []
        for (const id of [other.id, 999_999]) {
          const { status, body } = await cp.call('GET', '/api/projects', undefined, asked(id))
          const { request_id: _, ...rest } = body
          bodies.push({ status, ...rest })
        }
        expect(bodies[0]).toEqual(bodies[1])
        expect(bodies[0]).toMatchObject({ status: 403, code: 'organization_forbidden' })
      })
    })

    test('a token bound to an organization acts there alone, and makes only such tokens', async () => {
      const scopes = ['read', 'admin']
      const body = { name: 't', scopes, expires_in_days: 1, organization_id: other.id }
      const { token } = await cp.make<{ token: string }>('/api/tokens', body)
      await as(cp, token, async () => {
        expect(await names()).toEqual([`header${other.id}`])
        expect(await codeOf('GET', '/api/projects', undefined, asked(1))).toBe(
          'organization_forbidden',
        )
        const made = await cp.call('POST', '/api/tokens', { ...body, organization_id: null })
        expect(made.body.organization_id).toBe(other.id)
        const free = await cp.call('POST', '/api/tokens', { ...body, organization_id: 1 })
        expect(free.body).toMatchObject({ errors: [{ field: 'organization_id' }] })
        expect(await codeOf('GET', '/api/admin/users')).toBe('platform_admin_only')
        const { body: me } = await cp.call('GET', '/api/me')
        expect((me.organizations as unknown[]).length).toBeGreaterThan(1)
      })
      const foreign = { ...body, organization_id: 999_999 }
      expect(await codeOf('POST', '/api/tokens', foreign)).toBe('validation_failed')
    })

    test('creating without it needs exactly one organization', async () => {
      const server = { name: 'lonely', hostname: '127.0.0.1' }
      expect(await codeOf('POST', '/api/servers', server)).toBe('organization_required')
      await as(cp, admin.token, async () =>
        expect(await codeOf('POST', '/api/servers', server)).toBe(201),
      )
    })
  })
})
