// The list of environments: its order, its fields, what is inherited; on both databases.
import type { AddressInfo } from 'node:net'
import type { Environment, ProjectDetail } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertEnvironment } from '../../control-plane/src/store/environments/environments.ts'
import { addMember, addOrganization } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

const SHA = 'c'.repeat(40)

describe.each(ENGINES)('the environment list on %s', (engine) => {
  let cp: TestControlPlane
  let project: ProjectDetail
  let path: string
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const server = await cp.server()
    project = await cp.project('shop', server.id)
    path = `/api/projects/${project.id}/environments`
    let at = cp.running.ctx.clock.now() - 100_000
    const row = (identifier: string, type: 'manual' | 'pull_request', sticky: 0 | 1) =>
      insertEnvironment(cp.running.ctx.db, {
        organizationId: project.organization_id,
        projectId: project.id,
        identifier,
        title: identifier,
        type,
        recipe: null,
        branch: identifier,
        domain: `${identifier}.shop.example.com`,
        serverId: server.id,
        ownerId: 1,
        sticky,
        pullRequestNumber: type === 'manual' ? null : Number(identifier.slice(3)),
        createdAt: at++,
        updatedAt: at,
      })
    await row('old', 'manual', 0)
    await row('pr-1', 'pull_request', 1)
    await row('pr-2', 'pull_request', 0)
    await row('kept', 'manual', 1)
    await row('new', 'manual', 0)
    await row('pr-3', 'pull_request', 1)
    await row('pr-4', 'pull_request', 0)
  })
  afterAll(() => cp.close())

  const list = async (query = '') => (await cp.call<Environment[]>('GET', path + query)).body
  const names = async (query = '') => (await list(query)).map((e) => e.identifier)

  test('Sticky environments are listed first, then manual, then pull-request environments. Within each group the newest comes first', async () => {
    expect(await names()).toEqual(['pr-3', 'kept', 'pr-1', 'new', 'old', 'pr-4', 'pr-2'])
  })

  test('the list can be narrowed by type, branch and identifier', async () => {
    expect(await names('?type=manual')).toEqual(['kept', 'new', 'old'])
    expect(await names('?branch=pr-2')).toEqual(['pr-2'])
    expect(await names('?identifier=old')).toEqual(['old'])
    expect((await cp.call('GET', `${path}?type=other`)).status).toBe(400)
  })

  test('sticky is a setting like others and moves an environment up at once', async () => {
    const [old] = await list('?identifier=old')
    await cp.call('PATCH', `/api/environments/${old?.id}`, { sticky: true })
    expect((await names()).indexOf('old')).toBe(3)
    await cp.call('PATCH', `/api/environments/${old?.id}`, { sticky: false })
  })

  test('a pull-request environment is reachable at pr-{number}.{domain}, and tells of its pull request', async () => {
    const [environment] = await list('?identifier=pr-4')
    expect(environment).toMatchObject({ domain: 'pr-4.shop.example.com', pull_request: null })
    const { db } = cp.running.ctx
    const pull = {
      organizationId: project.organization_id,
      projectId: project.id,
      number: 4,
      title: 'Checkout',
      url: 'https://git.example.com/shop/4',
      author: 'mallory',
      state: 'open' as const,
      draft: 1 as const,
      headBranch: 'checkout',
      baseBranch: 'main',
      fromFork: 1 as const,
      headSha: SHA,
      environmentId: environment?.id ?? 0,
      happenedAt: 1,
      createdAt: 1,
      updatedAt: 1,
    }
    await db.insertInto('pullRequests').values(pull).execute()
    const shown = {
      number: 4,
      url: 'https://git.example.com/shop/4',
      title: 'Checkout',
      author: 'mallory',
      state: 'open',
      draft: true,
      base_branch: 'main',
      from_fork: true,
      head_sha: SHA,
      approval: 'required',
    }
    expect((await list('?identifier=pr-4'))[0]?.pull_request).toEqual(shown)
    const approval = { projectId: project.id, number: 4, sha: SHA, userId: 1, at: 1 }
    await db.insertInto('approvals').values(approval).execute()
    expect((await list('?identifier=pr-4'))[0]?.pull_request?.approval).toBe('approved')
    await db
      .updateTable('pullRequests')
      .set({ headSha: 'd'.repeat(40) })
      .execute()
    expect((await list('?identifier=pr-4'))[0]?.pull_request?.approval).toBe('required')
  })

  test('domain and branch of a pull request cannot be chosen, nor the manual recipe of a fork', async () => {
    const [environment] = await list('?identifier=pr-4')
    const url = `/api/environments/${environment?.id}`
    const { db } = cp.running.ctx
    await db
      .updateTable('environments')
      .set({ fromFork: 1 })
      .where('id', '=', environment?.id ?? 0)
      .execute()
    for (const body of [{ domain: 'x.shop.example.com' }, { branch: 'x' }, { recipe: 'manual' }]) {
      const refused = await cp.call<{ errors: { code: string }[] }>('PATCH', url, body)
      expect([refused.status, refused.body.errors?.[0]?.code]).toEqual([
        422,
        'fixed_for_pull_request',
      ])
    }
    expect((await cp.call('PATCH', url, { recipe: 'docker', title: 'Mine' })).status).toBe(200)
  })

  test('recipe may be left empty, in which case it is inherited from the project default', async () => {
    const made = await cp.environment(project.id, 'recipes')
    expect([made.recipe, made.recipe_inherited]).toEqual(['manual', true])
    const url = `/api/environments/${made.id}`
    const own = await cp.call<Environment>('PATCH', url, { recipe: 'docker' })
    expect([own.body.recipe, own.body.recipe_inherited]).toEqual(['docker', false])
    await cp.call('PATCH', `/api/projects/${project.id}`, { default_recipe: 'docker' })
    const inherited = await cp.call<Environment>('PATCH', url, { recipe: null })
    expect([inherited.body.recipe, inherited.body.recipe_inherited]).toEqual(['docker', true])
    await cp.call('PATCH', `/api/projects/${project.id}`, { default_recipe: 'manual' })
    const after = await cp.call<Environment>('GET', url)
    expect([after.body.recipe, after.body.recipe_inherited]).toEqual(['manual', true])
    await cp.call('DELETE', url)
  })

  test('a viewer sees all and may nothing', async () => {
    const viewer = await addMember(cp, 'View', 'viewer')
    const seen = await viewer.call<Environment[]>('GET', path)
    expect(seen.body.length).toBe(7)
    expect(seen.body.every((e) => e.may.length === 0)).toBe(true)
    const mine = await list()
    expect(mine[0]?.may).toEqual(['deploy', 'edit', 'delete', 'reset', 'change_variables', 'shell'])
  })

  test('one owner a host name, whoever asks for it', async () => {
    const [a, b] = [await cp.environment(project.id, 'a'), await cp.environment(project.id, 'b')]
    const change = (domain: string) => cp.call('PATCH', `/api/environments/${b.id}`, { domain })
    expect((await change(a.domain)).body.code).toBe('domain_in_use')
    expect((await change('docs.acme.dev')).status).toBe(200)
    const server = await cp.server('two')
    await cp.project('docs', server.id, { domain: 'docs.example.com' })
    expect((await change('x.docs.example.com')).body.code).toBe('domain_in_use')
    const organizationId = await addOrganization(cp, 'rival')
    const rival = await addMember(cp, 'Eve', 'owner', { organizationId })
    const own = await rival.call<{ id: number }>('POST', '/api/servers', {
      name: 'theirs',
      hostname: 'srv.rival.example',
    })
    const project2 = (domain: string) =>
      rival.call('POST', '/api/projects', {
        name: domain,
        repo_url: 'https://git.example.com/x.git',
        domain,
        server_ids: [own.body.id],
      })
    for (const domain of [
      'shop.example.com',
      'eu.shop.example.com',
      'example.com',
      'docs.acme.dev',
      'acme.dev',
    ]) {
      expect([domain, (await project2(domain)).body.code]).toEqual([domain, 'domain_in_use'])
    }
    expect((await project2('rival.example')).status).toBe(201)
    expect((await change('srv.rival.example')).body.code).toBe('domain_in_use')
  })
})

describe.each(ENGINES)('names of the installation on %s', (engine) => {
  test("the control plane's own name and what lies below it are nobody's", async () => {
    const cp = await TestControlPlane.start(engine, {
      env: { BERTH_URL: 'https://deploy.example.com', BERTH_CUSTOM_DOMAINS: 'listed' },
    })
    const bound = cp.running.http.server.address() as AddressInfo
    const url = `http://127.0.0.1:${bound.port}`
    const call = (method: string, path: string, body?: unknown) =>
      cp.call(method, path, body, {}, url)
    const made = await call('POST', '/api/setup', {
      token: cp.running.setupToken,
      name: 'Ada',
      email: 'ada@example.com',
      organization: 'Acme',
    })
    cp.token = String(made.body.token)
    const server = await call('POST', '/api/servers', { name: 'one', hostname: '127.0.0.1' })
    const project = (domain: string, more: object = {}) =>
      call('POST', '/api/projects', {
        name: domain,
        repo_url: 'https://git.example.com/x.git',
        domain,
        server_ids: [server.body.id],
        ...more,
      })
    for (const domain of ['deploy.example.com', 'x.deploy.example.com']) {
      const refused = await project(domain)
      expect([refused.status, refused.text.includes('reserved_domain')]).toEqual([422, true])
    }
    const parent = await project('example.com', { custom_domains: ['docs.acme.dev'] })
    expect(parent.status).toBe(201)
    const environments = `/api/projects/${parent.body.id}/environments`
    const at = (identifier: string, domain?: string) =>
      call('POST', environments, { identifier, branch: 'main', ...(domain ? { domain } : {}) })
    expect((await at('deploy')).text).toContain('reserved_domain')
    expect((await at('a', 'free.acme.dev')).text).toContain('domain_not_allowed')
    expect((await at('b', 'docs.acme.dev')).status).toBe(201)
    expect((await at('c')).status).toBe(201)
    await cp.close()
  })
})
