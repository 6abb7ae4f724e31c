// Connections to forges: an organization's token, a project's deploy key and webhook made by Berth, the test delivery,
// the daily look, repairs and the end. On both databases, against forges over real HTTP.
import type {
  ForgeConnection,
  ForgeDisconnected,
  ForgeRepository,
  Problem,
  ProjectForge,
} from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runForgeRounds } from '../../control-plane/src/app/forges/connections/rounds.ts'
import { checkAlerts } from '../../control-plane/src/app/installation/alerts.ts'
import { FORGE_CONNECTIONS } from '../../control-plane/src/limits/forges.ts'
import type { FakeKind } from '../fixtures/forge/fake-forge.ts'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { listMails } from '../fixtures/people/people.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

const DAY = FORGE_CONNECTIONS.checkEveryMs * (1 + FORGE_CONNECTIONS.jitter) + 1_000

/** The answer to a connection, or its refusal. */
type Connected = ProjectForge & Pick<Problem, 'code' | 'detail' | 'errors'>

/** What the tests say to a control plane about its project. */
class Said {
  readonly fixture: RepositoryFixture
  constructor(fixture: RepositoryFixture) {
    this.fixture = fixture
  }

  get path(): string {
    return `/api/projects/${this.fixture.projectId}/forge`
  }

  connect(body: object = { token: this.fixture.host.token, ...this.at }) {
    return this.fixture.cp.call<Connected>('PUT', this.path, body)
  }

  /** Where the forge is; without it, Berth asks every kind. */
  get at(): object {
    const base = { gitea: '/api/v1', github: '/api/v3', gitlab: '/api/v4' } as Record<
      string,
      string
    >
    const { kind, url } = this.fixture.host
    const end = base[kind] ?? (kind === 'bitbucket_cloud' ? '/2.0' : '/rest/api/1.0')
    return { provider: kind, api_url: url + end }
  }

  async shown(): Promise<ProjectForge> {
    return (await this.fixture.cp.call<ProjectForge>('GET', this.path)).body
  }

  /** Everything due is done, by this call or by the control plane's own rounds, which may have claimed it before. */
  async rounds(): Promise<void> {
    const { ctx } = this.fixture
    await runForgeRounds(ctx)
    await until('the rounds', async () => {
      const setups = await ctx.db.selectFrom('forgeSetups').selectAll().execute()
      const removals = await ctx.db.selectFrom('forgeRemovals').selectAll().execute()
      const now = ctx.clock.now()
      const claimed = now + FORGE_CONNECTIONS.claimMs
      const isOver =
        setups.every((one) => one.nextCheckAt > claimed) &&
        removals.every((one) => one.nextAt > now)
      return isOver || undefined
    })
  }

  /** Moves past the daily check and runs it. */
  async nextDay(): Promise<ProjectForge> {
    this.fixture.cp.clock.offsetMs += DAY
    await this.rounds()
    return this.shown()
  }

  secret(): string | undefined {
    return this.fixture.host.hooks[0]?.secret
  }
}

const statuses = (forge: ProjectForge): string[] => forge.checks.map((c) => `${c.name} ${c.status}`)
const problemsOf = ({ body }: { body: Pick<Problem, 'errors'> }): string[] =>
  (body.errors ?? []).map((one) => `${one.field} ${one.code}`)

describe.each(ENGINES)('connections to forges on %s', (engine) => {
  let fixture: RepositoryFixture
  let said: Said
  beforeEach(async () => {
    fixture = await RepositoryFixture.start(engine)
    said = new Said(fixture)
  })
  afterEach(() => fixture.close())

  test('connecting adds the key and the webhook, and a test delivery arrives', async () => {
    const { status, body } = await said.connect()
    expect([status, body.status]).toEqual([200, 'ok'])
    expect(statuses(body)).toEqual([
      'token ok',
      'repository ok',
      'deploy_key ok',
      'webhook ok',
      'delivery ok',
    ])
    const { host, cp, projectId } = fixture
    const project = await fixture.project()
    expect(host.keys).toMatchObject([{ line: project.repo_public_key, readOnly: true }])
    expect(host.hooks).toMatchObject([{ url: `${cp.url}/webhooks/${projectId}`, active: true }])
    expect(said.secret()).toMatch(/^whsec_/)
    expect(project.webhook.last_delivery_secret).toBe('current')
    expect(project.repository).toMatchObject({ provider: 'gitea', external_id: '1' })
    expect(project.forge).toMatchObject({ connected: true, status: 'ok' })
    expect(host.refused).toEqual([])
  })

  test('repeating changes and adds no second one', async () => {
    await said.connect()
    const { connection } = await said.shown()
    const again = await said.connect({ connection_id: connection?.id })
    expect(again.body.status).toBe('ok')
    expect((await said.connect()).body.connection?.id).toBe(connection?.id)
    expect([fixture.host.keys.length, fixture.host.hooks.length]).toEqual([1, 1])
    const list = await organizationForges()
    expect(list).toHaveLength(1)
    expect(list[0]).toMatchObject({ account: 'berth-bot', project_count: 1, error: null })
  })

  const organizationId = async (): Promise<number> => (await fixture.project()).organization_id
  const organizationForges = async (): Promise<ForgeConnection[]> => {
    const path = `/api/organizations/${await organizationId()}/forges`
    return (await fixture.cp.call<ForgeConnection[]>('GET', path)).body
  }

  test('the token is in no answer, audit row or stored text', async () => {
    await said.connect()
    const answers = [await said.shown(), await organizationForges(), await fixture.project()]
    const { db } = fixture.ctx
    const rows = [
      await db.selectFrom('forgeConnections').selectAll().execute(),
      await db.selectFrom('audit').selectAll().execute(),
      await db.selectFrom('events').selectAll().execute(),
    ]
    expect(JSON.stringify([answers, rows])).not.toContain(fixture.host.token)
    expect(JSON.stringify([answers, rows[1], rows[2]])).not.toContain(said.secret())
  })

  test('statuses and the list of pull requests use the connection', async () => {
    await said.connect()
    const environment = await fixture.environment('main', { auto_deploy: false })
    await fixture.deployAndWait(environment.id, 'c'.repeat(40))
    await until('a status at the forge', async () => {
      await fixture.report()
      return fixture.host.statuses.some((one) => one.state === 'success') || undefined
    })
    fixture.host.pull({ number: 5, headSha: fixture.push('feature-5'), headBranch: 'feature-5' })
    await fixture.reconcile()
    const found = (await fixture.environments()).map((one) => one.identifier)
    expect(found).toContain('pr-5')
  })

  test('a token that the forge rejects is not stored', async () => {
    const wrong = await said.connect({ token: 'wrong', ...said.at })
    expect([wrong.status, problemsOf(wrong)]).toEqual([422, ['token host_token_rejected']])
    expect(wrong.body.detail).toMatch(/wrong, expired or revoked/)
    expect(await organizationForges()).toEqual([])
    expect((await said.shown()).status).toBe('not_connected')
  })

  test('a repository that the token does not open is refused', async () => {
    const path = `/api/projects/${fixture.projectId}`
    await fixture.cp.call('PATCH', path, { repo_url: `${fixture.host.url}/acme/other.git` })
    const refused = await said.connect()
    expect([refused.status, problemsOf(refused)]).toEqual([422, ['token repository_not_found']])
    expect(fixture.host.keys).toEqual([])
  })

  test('a forge that does not answer, or is of no known kind, is named', async () => {
    fixture.host.trouble = { status: 503, json: {} }
    const away = await said.connect()
    expect([away.status, away.body.code]).toEqual([409, 'forge_unreachable'])
    const guess = await said.connect({ token: 'x' })
    expect([guess.status, problemsOf(guess)]).toEqual([422, ['provider provider_unknown']])
    const bad = await said.connect({ token: 'x', provider: 'gitea', api_url: 'ftp://x' })
    expect(problemsOf(bad)).toEqual(['api_url invalid_api_url'])
  })

  test('the kind of forge is found out', async () => {
    const { body } = await said.connect({ token: fixture.host.token })
    expect(body.connection).toMatchObject({
      provider: 'gitea',
      api_url: `${fixture.host.url}/api/v1`,
    })
  })

  test('a missing permission is named, and connecting again repairs', async () => {
    fixture.host.denied.add('hooks')
    const { status, body } = await said.connect()
    expect([status, body.status]).toEqual([200, 'broken'])
    const hook = body.checks.find((check) => check.name === 'webhook')
    expect(hook).toMatchObject({
      status: 'failed',
      permission: expect.stringMatching(/write:repo/),
    })
    expect(fixture.host.keys).toHaveLength(1)
    fixture.host.denied.clear()
    const again = await said.connect({ connection_id: body.connection?.id })
    expect(again.body.status).toBe('ok')
  })

  test('a delivery signed with another secret is told at once', async () => {
    fixture.host.signsWith = 'whsec_b3RoZXI='
    const { body } = await said.connect()
    const delivery = body.checks.find((check) => check.name === 'delivery')
    expect(delivery).toMatchObject({ status: 'failed', message: expect.stringMatching(/refused/) })
  })

  test('the daily look finds what broke, mails once, and a repair ends it', async () => {
    await said.connect()
    const before = (await listMails(fixture.cp)).length
    fixture.host.hooks.splice(0)
    const found = await said.nextDay()
    expect(found.status).toBe('broken')
    expect(found.checks.find((c) => c.name === 'webhook')?.message).toMatch(/not in the repository/)
    expect(fixture.host.hooks).toEqual([]) // it looks and changes nothing
    const alert = () => checkAlerts(fixture.ctx)
    await alert()
    await alert()
    const subjects = async () =>
      (await listMails(fixture.cp)).slice(before).map((mail) => mail.subject)
    const broken = 'The connection of webshop to its forge is broken'
    await until('the mail', async () => (await subjects()).includes(broken) || undefined)
    expect((await said.connect({ connection_id: found.connection?.id })).body.status).toBe('ok')
    await alert()
    const works = 'The connection of webshop to its forge works again'
    await until('the second mail', async () => (await subjects()).includes(works) || undefined)
    expect((await subjects()).filter((one) => one === broken)).toHaveLength(1)
  })

  test.each([
    [
      'a webhook that is off',
      (f: RepositoryFixture) => Object.assign(f.host.hooks[0] ?? {}, { active: false }),
      'webhook',
      /switched off/,
    ],
    [
      'a webhook without events',
      (f: RepositoryFixture) => Object.assign(f.host.hooks[0] ?? {}, { events: ['fork'] }),
      'webhook',
      /does not send/,
    ],
    [
      'a removed key',
      (f: RepositoryFixture) => f.host.keys.splice(0),
      'deploy_key',
      /not in the repository/,
    ],
    [
      'a key that may write',
      (f: RepositoryFixture) => Object.assign(f.host.keys[0] ?? {}, { readOnly: false }),
      'deploy_key',
      /may write/,
    ],
  ])('the daily look finds %s', async (_what, break_, name, message) => {
    await said.connect()
    break_(fixture)
    const found = await said.nextDay()
    expect(found.checks.find((check) => check.name === name)).toMatchObject({
      status: 'failed',
      message: expect.stringMatching(message),
    })
    const again = await said.connect({ connection_id: found.connection?.id })
    expect([again.body.status, fixture.host.keys.length, fixture.host.hooks.length]).toEqual([
      'ok',
      1,
      1,
    ])
    expect(fixture.host.keys[0]?.readOnly).toBe(true)
  })

  test('a revoked token is found, and an outage is not taken for one', async () => {
    await said.connect()
    fixture.host.trouble = { status: 502, json: {} }
    const away = await said.nextDay()
    expect([away.status, away.checks[0]?.status]).toEqual(['ok', 'unknown'])
    fixture.host.trouble = { status: 401, json: {} }
    const revoked = await said.nextDay()
    expect([revoked.status, revoked.checks[0]?.name]).toEqual(['broken', 'token'])
    expect(revoked.connection?.error).toMatch(/rejected the token/)
    const check = await fixture.cp.call<ProjectForge>('POST', `${said.path}/check`)
    expect([check.status, check.body.status]).toEqual([200, 'broken'])
  })

  test('a new secret and a new key reach the forge by themselves', async () => {
    await said.connect()
    const [secret, line] = [said.secret(), fixture.host.keys[0]?.line]
    const path = `/api/projects/${fixture.projectId}`
    const made = await fixture.cp.call<{ secret: string }>('POST', `${path}/webhook_secret`)
    await fixture.cp.call('POST', `${path}/deploy_key`)
    await said.rounds()
    expect(said.secret()).toBe(made.body.secret)
    expect(said.secret()).not.toBe(secret)
    expect(fixture.host.hooks).toHaveLength(1)
    expect(fixture.host.keys).toHaveLength(1)
    expect(fixture.host.keys[0]?.line).not.toBe(line)
  })

  test('a key made during an installation or a check reaches the forge after it', async () => {
    await said.connect()
    const makeKey = () => fixture.cp.call('POST', `/api/projects/${fixture.projectId}/deploy_key`)
    const makeDuring = (path: RegExp): void => {
      fixture.host.onCall = async (called) => {
        if (called.method !== 'GET' || !path.test(called.path)) return
        fixture.host.onCall = () => {}
        expect((await makeKey()).status).toBe(201)
      }
    }
    const isCurrent = async (): Promise<void> => {
      await said.rounds()
      const lines = fixture.host.keys.map((key) => key.line)
      expect(lines).toEqual([(await fixture.project()).repo_public_key])
    }
    makeDuring(/hooks$/)
    await makeKey()
    await isCurrent()
    makeDuring(/hooks$/)
    await fixture.cp.call('POST', `${said.path}/check`)
    await isCurrent()
  })

  test('disconnecting removes both, and says what it could not remove', async () => {
    await said.connect()
    fixture.host.denied.add('hooks')
    const { status, body } = await fixture.cp.call<ForgeDisconnected>('DELETE', said.path)
    expect([status, body.removed]).toEqual([200, ['deploy_key']])
    expect(body.left).toMatchObject([{ what: 'webhook', message: expect.stringMatching(/needs/) }])
    expect([fixture.host.keys.length, fixture.host.hooks.length]).toEqual([0, 1])
    expect((await said.shown()).status).toBe('not_connected')
    expect((await fixture.cp.call('DELETE', said.path)).status).toBe(404)
    expect((await fixture.cp.call('POST', `${said.path}/check`)).status).toBe(404)
  })

  test('a deleted project leaves nothing at the forge, also after an outage', async () => {
    await said.connect()
    fixture.host.trouble = { status: 503, json: {} }
    const path = `/api/projects/${fixture.projectId}?confirm=webshop`
    expect((await fixture.cp.call('DELETE', path)).status).toBe(202)
    await said.rounds()
    expect(fixture.host.hooks).toHaveLength(1)
    fixture.host.trouble = undefined
    fixture.cp.clock.offsetMs += FORGE_CONNECTIONS.removalBackoffMs + 1_000
    await said.rounds()
    const left = () => fixture.ctx.db.selectFrom('forgeRemovals').selectAll().execute()
    await until('the removal', async () => (await left()).length === 0 || undefined)
    expect([fixture.host.keys, fixture.host.hooks]).toEqual([[], []])
  })

  test('another repository gets the key and the webhook, and the former one loses them', async () => {
    await said.connect()
    const path = `/api/projects/${fixture.projectId}`
    await fixture.cp.call('PATCH', path, { repo_url: `${fixture.host.url}/acme/other.git` })
    await said.rounds()
    expect(await said.shown()).toMatchObject({ status: 'broken', repository: 'acme/shop' })
    await fixture.cp.call('PATCH', path, { repo_url: `${fixture.host.url}/acme/shop/.git` })
    await said.rounds()
    expect(await said.shown()).toMatchObject({ status: 'ok', repository: 'acme/shop' })
  })

  test('an API at another address: deliveries match by the number of the repository', async () => {
    const path = `/api/projects/${fixture.projectId}`
    const repo_url = 'ssh://git@ssh.git.example.com:2222/acme/shop.git'
    await fixture.cp.call('PATCH', path, { repo_url })
    const { body } = await said.connect()
    expect(statuses(body)).toContain('delivery ok')
    const deliveries = await fixture.cp.call<{ rule: string }[]>('GET', `${path}/deliveries`)
    expect(deliveries.body.map((one) => one.rule)).not.toContain('repository_mismatch')
    expect(deliveries.body).toHaveLength(1)
  })

  test('repositories are listed, searched and paged, with the projects that have them', async () => {
    for (let n = 0; n < 70; n++) {
      fixture.host.listed.push({ name: `acme/app-${n}`, isPrivate: true, isArchived: false })
    }
    fixture.host.listed.push({ name: 'acme/shop', isPrivate: true, isArchived: false })
    await said.connect()
    const [connection] = await organizationForges()
    const path = `/api/forges/${connection?.id}/repositories`
    const first = await fixture.cp.call<ForgeRepository[]>('GET', path)
    expect(first.body).toHaveLength(30)
    const next = /<[^>]*(\/api\/[^>]*)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1]
    const second = await fixture.cp.call<ForgeRepository[]>('GET', next ?? '')
    expect(second.body[0]?.full_name).toBe('acme/app-30')
    const found = await fixture.cp.call<ForgeRepository[]>('GET', `${path}?search=SHOP`)
    expect(found.body).toMatchObject([{ full_name: 'acme/shop', project_ids: [fixture.projectId] }])
    fixture.host.trouble = { status: 401, json: {} }
    const revoked = await fixture.cp.call<Problem>('GET', path)
    expect([revoked.status, problemsOf(revoked)]).toEqual([422, ['token host_token_rejected']])
    expect((await organizationForges())[0]?.error).toBeNull() // reading a list changes nothing
  })

  test('a stored token is not sent to another origin', async () => {
    await said.connect()
    const [connection] = await organizationForges()
    const path = `/api/forges/${connection?.id}`
    const calls = fixture.host.calls.length
    const moved = await fixture.cp.call<Problem>('PATCH', path, {
      api_url: 'http://127.0.0.1:9/api/v1',
    })
    expect([moved.status, problemsOf(moved)]).toEqual([422, ['token token_required']])
    expect(fixture.host.calls).toHaveLength(calls)
    const used = await fixture.cp.call<Problem>('DELETE', path)
    expect([used.status, used.body.code]).toEqual([409, 'forge_in_use'])
    expect(used.body.projects).toEqual([{ id: fixture.projectId, name: 'webshop' }])
    await fixture.cp.call('DELETE', said.path)
    expect((await fixture.cp.call('DELETE', path)).status).toBe(204)
  })

  test('members without the permission neither connect nor list repositories', async () => {
    await said.connect()
    const person = await makePerson(fixture.cp, 'dev', {
      organizationId: await organizationId(),
      role: 'developer',
    })
    const as = { authorization: `Bearer ${person.token}` }
    const [connection] = await organizationForges()
    const calls: [string, string, object?][] = [
      ['PUT', said.path, { token: 'x' }],
      ['POST', `${said.path}/check`],
      ['DELETE', said.path],
      ['GET', `/api/forges/${connection?.id}/repositories`],
      ['DELETE', `/api/forges/${connection?.id}`],
    ]
    for (const [method, path, body] of calls) {
      expect((await fixture.cp.call(method, path, body, as)).status).toBe(403)
    }
    expect((await fixture.cp.call('GET', said.path, undefined, as)).status).toBe(200)
  })

  test('addresses that are no repository are refused at creation', async () => {
    const project = await fixture.project()
    const server_ids = project.servers.map(({ id }) => id)
    for (const repo_url of [
      'javascript:alert(1)',
      'file:/etc/passwd',
      'data:text/html,x',
      'JavaScript:x/y',
    ]) {
      const asked = { name: 'odd', domain: 'odd.example.com', server_ids, repo_url }
      const { status, body } = await fixture.cp.call<Problem>('POST', '/api/projects', asked)
      expect([status, problemsOf({ body })]).toEqual([422, ['repo_url invalid_repo_url']])
    }
  })
})

describe('a forge that sends nothing', () => {
  test('says which address it must reach', async () => {
    const fixture = await RepositoryFixture.start('sqlite')
    const said = new Said(fixture)
    fixture.host.isMute = true
    const { body } = await said.connect()
    const delivery = body.checks.find((check) => check.name === 'delivery')
    expect(delivery?.status).toBe('failed')
    expect(delivery?.message).toContain(`${fixture.cp.url}/webhooks/${fixture.projectId}`)
    await fixture.close()
  }, 60_000)
})

describe.each(['github', 'gitlab', 'bitbucket_cloud', 'bitbucket_server'] as FakeKind[])(
  'a connection to %s',
  (kind) => {
    test('installs, repeats and removes', async () => {
      const fixture = await RepositoryFixture.start('sqlite', kind)
      const said = new Said(fixture)
      const { status, body } = await said.connect()
      expect([status, body.status]).toEqual([200, 'ok'])
      const tested = kind === 'github' || kind === 'gitlab'
      expect(statuses(body).at(-1)).toBe(`delivery ${tested ? 'ok' : 'unknown'}`)
      expect((await said.connect()).body.status).toBe('ok')
      expect([fixture.host.keys.length, fixture.host.hooks.length]).toEqual([1, 1])
      expect((await said.nextDay()).status).toBe('ok')
      const ended = await fixture.cp.call<ForgeDisconnected>('DELETE', said.path)
      expect(ended.body).toEqual({ removed: ['webhook', 'deploy_key'], left: [] })
      expect([fixture.host.keys, fixture.host.hooks]).toEqual([[], []])
      expect(fixture.host.refused).toEqual([])
      await fixture.close()
    }, 60_000)
  },
)
