// One owner per hostname on the installation: a claim of a .service.yml goes from the runner through the daemon to the
// control plane and back. On both databases, with the real daemon and the real wire.
import type { Environment, Task } from '@berth/shared/api'
import type { FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listHeldHosts } from '../../control-plane/src/store/environments/hostname-claims.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { ScriptedAttempt } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'

interface Refusal {
  message: string
  code: FailureCode
}

/** Claims, serves what it claimed, succeeds; a refusal fails the task with its message. */
const serving =
  (...hosts: string[]) =>
  async (a: ScriptedAttempt): Promise<void> => {
    if (a.isDestroy) return a.succeed()
    try {
      await a.claimHosts(hosts)
      a.serve([{ name: 'web', hosts }])
      a.succeed()
    } catch (error) {
      const { message, code } = error as Refusal
      a.fail(message, 0, code)
    }
  }

describe.each(ENGINES)('host names on %s', (engine) => {
  let p: Platform
  let numbers = 0
  beforeAll(async () => {
    p = await Platform.start(engine)
  })
  afterAll(() => p.close())

  const fresh = (over: object = {}): Promise<Environment> => {
    numbers += 1
    return p.environment(`e${numbers}`, over)
  }
  const held = (environment: Environment): Promise<string[]> =>
    listHeldHosts(p.cp.running.ctx.db, environment.id)
  async function deploy(environment: Environment, script: typeof p.executor.script): Promise<Task> {
    p.executor.script = script
    const started = await p.deploy(environment.id)
    expect(started.status, started.text).toBe(201)
    return p.settled(started.body.id)
  }
  const granted = async (environment: Environment): Promise<string[]> => {
    let hosts: string[] = []
    await deploy(environment, (a) => {
      hosts = a.assignment.spec?.environment?.grantedHosts ?? []
      a.fail('only a look')
    })
    return hosts
  }

  test('a free name is granted, kept by a failure, told with the next deployment, released when unnamed', async () => {
    const one = await fresh()
    const task = await deploy(one, serving(one.domain, 'Docs.One.dev.', 'docs.one.dev'))
    expect(task.status).toBe('succeeded')
    expect(await held(one)).toEqual(['docs.one.dev'])
    expect(await granted(one)).toEqual([one.domain, 'docs.one.dev'])
    expect(await held(one)).toEqual(['docs.one.dev'])
    await deploy(one, serving(one.domain, 'docs.one.dev', `api-${one.domain}`))
    expect(await held(one)).toEqual([`api-${one.domain}`, 'docs.one.dev'])
    await deploy(one, serving(one.domain))
    expect(await held(one)).toEqual([])
    expect(await granted(one)).toEqual([one.domain])
    const audit = await p.cp.call<{ verb: string }[]>('GET', '/api/organizations/1/audit')
    const verbs = audit.body.map((row) => row.verb)
    expect(verbs).toContain('hosts.claim')
    expect(verbs).toContain('hosts.release')
  })

  test('a name of another environment is refused with the sentence that says whose it is', async () => {
    const [one, two] = [await fresh(), await fresh()]
    await deploy(one, serving('docs.two.dev', 'xn--bcher-kva.two.dev'))
    for (const asked of ['docs.two.dev', 'DOCS.two.dev.']) {
      const { failure } = await deploy(two, serving(asked))
      const message = `docs.two.dev is used by shop / ${one.identifier}.`
      expect(failure).toMatchObject({ code: 'domain_in_use', message, is_platform_check: true })
    }
    const umlaut = await deploy(two, serving('bücher.two.dev'))
    expect(umlaut.failure?.message).toContain('xn--bcher-kva.two.dev is used by shop /')
    const domain = await deploy(two, serving(one.domain))
    expect(domain.failure?.message).toBe(`${one.domain} is used by shop / ${one.identifier}.`)
    expect(await held(two)).toEqual([])
  })

  test('removing an environment frees its names; so does moving its domain, after the next deployment', async () => {
    const [one, two] = [await fresh(), await fresh()]
    await deploy(one, serving('docs.three.dev'))
    const removed = await p.cp.call<Task>('DELETE', `/api/environments/${one.id}`)
    await p.settled(removed.body.id)
    expect((await deploy(two, serving('docs.three.dev'))).status).toBe('succeeded')
    const former = two.domain
    const moved = await p.cp.call('PATCH', `/api/environments/${two.id}`, { domain: 'b.three.dev' })
    expect(moved.status).toBe(200)
    const take = () =>
      p.cp.call('POST', `/api/projects/${p.projectId}/environments`, {
        identifier: `taker${two.id}`,
        branch: 'main',
        domain: former,
      })
    expect((await take()).body.code).toBe('domain_in_use') // it is still served there
    await deploy(two, serving('b.three.dev'))
    expect((await take()).status).toBe(201)
  })

  test('two environments at once: one of them gets it', async () => {
    const both = [await fresh(), await fresh()]
    p.executor.script = serving('race.four.dev')
    const started = await Promise.all(both.map(({ id }) => p.deploy(id)))
    const tasks = await Promise.all(started.map(({ body }) => p.settled(body.id)))
    expect(tasks.map((t) => t.status).toSorted()).toEqual(['failed', 'succeeded'])
    const loser = tasks.find((t) => t.status === 'failed')
    expect(loser?.failure?.code).toBe('domain_in_use')
    const owners = await Promise.all(both.map(held))
    expect(owners.flat()).toEqual(['race.four.dev'])
  })

  test('what is reserved: other organizations, other projects, servers, pull requests', async () => {
    const { cp } = p
    await cp.project('docs', p.serverId, { domain: 'docs.example.org' })
    await cp.make('/api/servers', { name: 'fra-1', hostname: 'fra-1.example.net' })
    const one = await fresh()
    const made = await cp.make<{ id: number }>('/api/organizations', { name: 'Rival' })
    const headers = { 'x-service-organization': String(made.id) }
    const rival = async (path: string, body: object) => {
      const answer = await cp.call<{ id: number }>('POST', path, body, headers)
      expect(answer.status, answer.text).toBe(201)
      return answer.body.id
    }
    const server = await rival('/api/servers', { name: 'r', hostname: 'srv.rival.dev' })
    const server_ids = [server]
    const repo_url = 'https://git.example.com/r.git'
    const project = { name: 'rival', repo_url, domain: 'rival.example', server_ids }
    const theirs = await rival('/api/projects', project)
    const place = { identifier: 'main', branch: 'main', domain: 'www.rival.dev' }
    await rival(`/api/projects/${theirs}/environments`, place)
    const elsewhere = (host: string): string => `${host} is used elsewhere on this installation.`
    const reported = {
      'www.rival.dev': elsewhere('www.rival.dev'),
      'srv.rival.dev': elsewhere('srv.rival.dev'),
      'rival.example': elsewhere('rival.example'),
      'deep.in.rival.example': elsewhere('deep.in.rival.example'),
      'a.docs.example.org': 'a.docs.example.org belongs to docs, whose domain is docs.example.org.',
      'fra-1.example.net': 'fra-1.example.net is the server fra-1.',
      'pr-51.shop.example.com': 'pr-51.shop.example.com is kept for pull request 51 of shop.',
    }
    const { failure } = await deploy(one, serving(...Object.keys(reported)))
    expect(failure?.code).toBe('domain_in_use')
    expect(failure?.message).toBe(Object.values(reported).join(' '))
    const odd = ['*.five.dev', '10.1.2.3', 'localhost', 'a..b', `${'x'.repeat(64)}.dev`]
    const none = await deploy(one, serving(...odd))
    expect(none.failure?.code).toBe('domain_not_allowed')
    for (const host of odd) expect(none.failure?.message).toContain(host)
    expect(await held(one)).toEqual([])
    // a project's domain cannot be claimed above a hostname that is being served
    expect((await deploy(one, serving('a.five.dev'))).status).toBe('succeeded')
    const above = await cp.call(
      'POST',
      '/api/projects',
      { ...project, name: 'n', domain: 'five.dev' },
      headers,
    )
    expect(above.body.code).toBe('domain_in_use')
    const same = await cp.call('POST', `/api/projects/${p.projectId}/environments`, {
      identifier: 'same',
      branch: 'main',
      domain: 'a.five.dev',
    })
    expect(same.body.code).toBe('domain_in_use')
  })

  test('a pull request learns what to write', async () => {
    const [one, two] = [await fresh(), await fresh()]
    await deploy(one, serving('docs.six.dev', `docs-${two.identifier}.six.dev`))
    const asPullRequest =
      (host: string) =>
      (a: ScriptedAttempt): Promise<void> => {
        const facts = a.assignment.spec?.environment
        if (facts) facts.type = 1
        return serving(host)(a)
      }
    const hint = `put \${SERVICE_ENV_IDENTIFIER} into the domain.`
    const shared = await deploy(two, asPullRequest('docs.six.dev'))
    expect(shared.failure?.message).toContain(hint)
    const own = await deploy(two, asPullRequest(`docs-${two.identifier}.six.dev`))
    expect(own.failure?.message).not.toContain(hint)
  })

  test('the daemon is away, or the control plane: the runner waits, and says when it waited too long', async () => {
    const one = await fresh()
    let isAsked = false
    p.executor.script = async (a) => {
      isAsked = true
      await until('the daemon to be gone', () => isGone || undefined)
      await serving('docs.seven.dev')(a)
    }
    let isGone = false
    const { body } = await p.deploy(one.id)
    await until('the attempt', () => isAsked || undefined)
    p.killAgent()
    isGone = true
    await p.startAgent()
    expect((await p.settled(body.id)).status).toBe('succeeded')
    let message = ''
    let isAnswered = false
    p.executor.script = async (a) => {
      await until('the answer to the request', () => isAnswered || undefined)
      await p.cp.running.close()
      message = await a.claimHosts(['late.seven.dev'], 300).then(
        () => 'granted',
        (error: Refusal) => error.message,
      )
      await a.claimHosts(['docs.seven.dev'], 1) // held already: needs no request
      await p.cp.reopen()
      await a.claimHosts(['late.seven.dev'])
      a.succeed()
    }
    const { id } = (await p.deploy(one.id)).body
    isAnswered = true
    const last = await p.settled(id)
    expect(message).toBe('New host late.seven.dev could not be confirmed for 0 min.')
    expect(last.status).toBe('succeeded')
  })
})

describe.each(ENGINES)('listed domains on %s', (engine) => {
  test('foreign names must be on the list of the project, which administrators keep', async () => {
    const p = await Platform.start(engine, { env: { BERTH_CUSTOM_DOMAINS: 'listed' } })
    try {
      const one = await p.environment('main')
      const deploy = async (...hosts: string[]) => {
        p.executor.script = serving(...hosts)
        return (await p.settled((await p.deploy(one.id)).body.id)).failure
      }
      expect(await deploy(`api-${one.domain}`)).toBe(null)
      expect(await deploy('docs.acme.dev')).toMatchObject({
        code: 'domain_not_allowed',
        message:
          "docs.acme.dev is not on the list of custom domains of shop. An administrator can add it in the project's settings.",
      })
      const path = `/api/projects/${p.projectId}`
      await p.cp.call('PATCH', path, { custom_domains: ['acme.dev'] })
      const shown = await p.cp.call<{ custom_domains: string[] }>('GET', path)
      expect(shown.body.custom_domains).toEqual(['acme.dev'])
      expect(await deploy('docs.acme.dev')).toBe(null)
      await p.cp.call('PATCH', path, { custom_domains: [] })
      expect(await deploy('docs.acme.dev')).toBe(null) // it keeps what it holds
    } finally {
      await p.close()
    }
  })
})
