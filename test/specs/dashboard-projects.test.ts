// What the pages of projects ask for: the overview across projects, a look at a repository before there is a project,
// the names of environments, and what a person sees at an unknown address.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { FakeKind } from '../fixtures/forge/fake-forge.ts'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { sha } from '../fixtures/forge/webhook-sender.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { openDashboardClient } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'

const FILE = `docker:
  services:
    web: { build: ., port: 3000 }
    db: { image: "postgres:16", port: 5432, public: false }
actions:
  seed: { run: npm run seed, service: web }
`
const API: Record<string, string> = {
  github: '/api/v3',
  gitea: '/api/v1',
  gitlab: '/api/v4',
  bitbucket_cloud: '/2.0',
  bitbucket_server: '/rest/api/1.0',
}
type Client = ReturnType<typeof openDashboardClient>['client']

async function asking<T>(cp: TestControlPlane, use: (client: Client) => Promise<T>): Promise<T> {
  const { client, close } = openDashboardClient(cp, cp.token)
  try {
    return await use(client)
  } finally {
    await close()
  }
}

const KINDS: FakeKind[] = ['github', 'gitea', 'gitlab', 'bitbucket_cloud', 'bitbucket_server']

describe.each(KINDS)('a repository at %s before there is a project', (kind) => {
  let fixture: RepositoryFixture
  let connectionId = 0
  beforeAll(async () => {
    fixture = await RepositoryFixture.start('sqlite', kind)
    const made = await fixture.cp.call<{ id: number }>('POST', '/api/organizations/1/forges', {
      provider: kind,
      api_url: fixture.host.url + API[kind],
      token: fixture.host.token,
    })
    expect(made.status, made.text).toBe(201)
    connectionId = made.body.id
  })
  afterAll(() => fixture?.close())

  const look = () =>
    asking(fixture.cp, (client) =>
      client.forge.preview.mutate({
        connection_id: connectionId,
        repository: 'acme/shop',
        branch: 'main',
      }),
    )

  test('shows what its file says, or what could be written', async () => {
    fixture.host.files.set('Dockerfile', 'FROM scratch')
    expect(await look()).toEqual({
      branch: 'main',
      file: null,
      guess: { file: 'Dockerfile', recipe: 'docker', words: 'builds the Dockerfile' },
    })
    fixture.host.files.set('.service.yml', FILE)
    expect(await look()).toEqual({
      branch: 'main',
      guess: null,
      file: {
        recipes: ['docker'],
        services: [
          { name: 'web', recipe: 'docker', from: 'builds Dockerfile', port: '3000' },
          { name: 'db', recipe: 'docker', from: 'image postgres:16', port: '5432' },
        ],
        actions: ['seed'],
        errors: [],
      },
    })
    fixture.host.files.set('.service.yml', 'docker:\n  services:\n    web: { port: x }\n')
    const broken = await look()
    expect(broken.file?.errors.length).toBeGreaterThan(0)
    expect(broken.file?.errors[0]?.line).toBe(3)
    expect(JSON.stringify(fixture.host.calls.at(-1))).not.toContain('undefined')
  })
})

describe.each(ENGINES)('the overview across projects on %s', (engine) => {
  let p: Platform
  beforeEach(async () => {
    p = await Platform.start(engine)
  })
  afterEach(() => p.close())

  test('has the newest deployments first, and what waits for a person', async () => {
    const overview = () => asking(p.cp, (client) => client.project.overview.query())
    expect(await overview()).toEqual({
      activity: [],
      approvals: [],
      broken_forges: [],
    })
    const first = await p.environment('main')
    p.executor.script = (a) => a.succeed()
    const done = (await p.deploy(first.id)).body.id
    await p.settled(done)
    p.executor.script = (a) => a.fail('no')
    const failed = (await p.deploy(first.id)).body.id
    await p.settled(failed)
    const { db } = p.cp.running.ctx
    const { projectId } = await db
      .selectFrom('environments')
      .select('projectId')
      .where('id', '=', first.id)
      .executeTakeFirstOrThrow()
    await db
      .insertInto('pullRequests')
      .values({
        organizationId: 1,
        projectId,
        number: 51,
        title: 'Totals',
        url: 'https://git.example.com/acme/shop/pulls/51',
        author: 'mallory',
        state: 'open',
        draft: 0,
        headBranch: 'totals',
        headSha: sha('51'),
        headRef: 'refs/pull/51/head',
        baseBranch: 'main',
        fromFork: 1,
        waitingFor: 'approval',
        waitingSince: 5,
        happenedAt: 5,
        updatedAt: 5,
        createdAt: 5,
      })
      .execute()
    const seen = await overview()
    expect(seen.activity.map((t) => [t.id, t.status, t.environment.identifier])).toEqual([
      [failed, 'failed', 'main'],
      [done, 'succeeded', 'main'],
    ])
    expect(seen.approvals).toMatchObject([{ number: 51, author: 'mallory', head_sha: sha('51') }])
  })
})

describe('the names of environments', () => {
  let p: Platform
  beforeEach(async () => {
    p = await Platform.start('sqlite')
  })
  afterEach(() => p.close())

  test('are not checked until someone asks, and then say what to do', async () => {
    const { id, domain } = await p.environment('main')
    const [{ projectId } = { projectId: 0 }] = await p.cp.running.ctx.db
      .selectFrom('environments')
      .select('projectId')
      .where('id', '=', id)
      .execute()
    const asked = { project_id: projectId }
    const known = () =>
      asking(p.cp, async (client) => (await client.project.domains.query(asked)).domains)
    const before = await known()
    expect(before.map((d) => d.check)).toEqual(before.map(() => null))
    expect(before.map((d) => d.host)).toContain(domain)
    expect(before[0]?.host).toMatch(/^\*\./)
    const { domains: after } = await asking(p.cp, (client) =>
      client.project.checkDomains.mutate(asked),
    )
    const own = after.find((d) => d.host === domain)
    expect(own?.check).toMatchObject({ dns: 'missing', tls: 'not_checked', valid_to: null })
    expect(own?.check?.advice).toMatch(/^Add a DNS record for /)
    expect(await known()).toEqual(after)
  })
})

describe('an unknown address', () => {
  let cp: TestControlPlane
  let dir = ''
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'berth-dashboard-'))
    mkdirSync(join(dir, 'dist'))
    writeFileSync(join(dir, 'dist', 'index.html'), '<!doctype html><title>Berth</title>')
    cp = await TestControlPlane.start('sqlite', {
      env: { BERTH_DASHBOARD_DIR: join(dir, 'dist') },
    })
  })
  afterAll(async () => {
    await cp.close()
    rmSync(dir, { recursive: true })
  })
  const HTML = 'text/html,application/xhtml+xml,*/*;q=0.8'
  const open = async (path: string, accept: string, method = 'GET') => {
    const answer = await fetch(cp.url + path, { method, headers: { accept } })
    return [answer.status, answer.headers.get('content-type')?.split(';')[0]]
  }

  test.each([
    '/nowhere',
    '/docs/errors/nope',
    '/docs/nowhere',
    '/downloads/used',
    '/x/y?z=1',
    '/api',
    '/api/nowhere',
    '/api/environments/1/logs',
    '/trpc2/x',
    '/webhooks/none/x/y/z',
    '/assets/none.js',
    '/schemas/none.json',
    '/.well-known/none',
  ])('is a page for a person: %s', async (path) => {
    expect(await open(path, HTML)).toEqual([404, 'text/html'])
  })

  test.each(['/api/nowhere', '/trpc2/x', '/webhooks/none/x', '/assets/none.js', '/nowhere'])(
    'is JSON for a program: %s',
    async (path) => {
      expect(await open(path, 'application/json')).toEqual([404, 'application/problem+json'])
    },
  )

  test('stays JSON for changes, and for addresses that exist', async () => {
    expect(await open('/nowhere', HTML, 'POST')).toEqual([404, 'application/problem+json'])
    expect(await open('/api/nowhere', HTML, 'POST')).toEqual([404, 'application/problem+json'])
    expect(await open('/api/projects/999999', HTML)).toEqual([401, 'application/problem+json'])
    expect((await open('/api/invitations/accept', HTML))[0]).toBe(405)
  })

  test('the pages of errors are listed, and each is linked', async () => {
    const text = await (await fetch(`${cp.url}/docs/errors`)).text()
    expect(text).toContain('<a href="/docs/errors/domain_in_use">')
    expect(await open('/docs/errors/domain_in_use', HTML)).toEqual([200, 'text/html'])
  })
})
