// berth up: from a git checkout to an address in one command, against a real control plane and a real git server. It is
// repeatable, asks before it commits, never asks without a terminal, and leaves out nothing that it did not say.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment, Project, ProjectDetail, Task } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { run } from '../../cli/src/program/invoke.ts'
import { nowhere } from '../../cli/src/testing/berth.ts'
import { type TestIo, testIo, testSink } from '../../cli/src/testing/io.ts'
import { GIT_ENV, GitHost, git } from '../fixtures/forge/git-host.ts'
import { as, Browser, PASSWORD, person } from '../fixtures/people/people.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

const NODE = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'package-lock.json': '{}',
  'server.js': "http.createServer(ok).listen(process.env.PORT) // '/healthz'",
}

/** Where the scripted server says that everything answers. */
const URL_OF_ALL = 'http://web.example.localhost:8081'

// each test runs the whole command two or three times, with a dozen calls of git in each
vi.setConfig({ testTimeout: 240_000 })

let p: Platform
let host: GitHost
beforeAll(async () => {
  p = await Platform.start('sqlite', { password: PASSWORD })
  host = await GitHost.start()
})
afterAll(async () => {
  await p.close()
  await host.close()
})

interface Surroundings {
  /** What the user types, line by line; present: a terminal. */
  types?: string[]
  env?: Record<string, string>
}

function openIo(cwd: string, { types, env }: Surroundings = {}): TestIo {
  const isTTY = types !== undefined
  const lines = [...(types ?? [])]
  const readLine = async () => lines.shift() ?? null
  const stdin = { isTTY, read: async () => '', readLine, readSecret: readLine }
  const login = { BERTH_URL: p.cp.url, BERTH_TOKEN: p.cp.token }
  return testIo({
    cwd,
    stdin,
    stdout: testSink({ isTTY }),
    stderr: testSink({ isTTY }),
    env: { ...GIT_ENV, BERTH_CONFIG_DIR: nowhere(), BERTH_POLL_MS: '10', ...login, ...env },
    now: Date.now,
    sleep: async (ms) =>
      void (await new Promise((resolve) => setTimeout(resolve, Math.min(ms, 20)))),
  })
}

async function up(cwd: string, args: string[] = [], surroundings: Surroundings = {}) {
  const io = openIo(cwd, surroundings)
  const code = await run(['up', ...args], io)
  return { code, io, out: io.stdout.text, err: io.stderr.text }
}

const projects = async (): Promise<Project[]> =>
  (await p.cp.call<Project[]>('GET', '/api/projects?per_page=100')).body
const projectNamed = async (name: string): Promise<ProjectDetail> => {
  const found = (await projects()).find((one) => one.name === name)
  return (await p.cp.call<ProjectDetail>('GET', `/api/projects/${found?.id}`)).body
}
const environmentsOf = async (id: number): Promise<Environment[]> =>
  (await p.cp.call<Environment[]>('GET', `/api/projects/${id}/environments`)).body
/** Those that the client started; a look at the repository may start others. */
const tasksOf = async (id: number): Promise<Task[]> => {
  const { body } = await p.cp.call<Task[]>('GET', `/api/environments/${id}/tasks`)
  return body.filter(({ trigger }) => trigger === 'cli')
}

function succeed(): void {
  p.executor.script = async (attempt) => {
    attempt.checkedOut('c'.repeat(40))
    attempt.serve([{ name: 'web', url: URL_OF_ALL }])
    attempt.succeed()
  }
}

describe('from nothing', () => {
  test('one command makes, pushes and deploys everything; the second one only deploys', async () => {
    succeed()
    const cwd = host.checkout('corner-shop', NODE)
    const first = await up(cwd, ['--yes'])
    expect(first.code, first.err).toBe(0)
    const made = await projectNamed('corner-shop')
    expect(made).toMatchObject({
      repo_url: host.urlOf('corner-shop'),
      domain: 'corner-shop.localhost',
      default_recipe: 'manual',
      default_branch: 'main',
    })
    const [environment] = await environmentsOf(made.id)
    expect(environment).toMatchObject({ identifier: 'main', branch: 'main', recipe: 'manual' })
    expect(first.out).toBe(`${URL_OF_ALL}\n`)
    // the server has no engine, and both the guess and its reason are shown
    expect(first.err).toMatch(/Recipe +manual +\(The server cannot run the docker recipe/)
    expect(first.err).toMatch(/Server +one +\(the only server; --server changes it\)/)
    expect(first.err).toMatch(/Domain +corner-shop\.localhost/)
    expect(host.pushed('corner-shop')).toContain('.service.yml')
    expect(readFileSync(join(cwd, '.service.yml'), 'utf8')).toContain('run: exec node server.js')
    expect(git(cwd, 'status', '--porcelain')).toBe('')
    expect(first.err).toContain(made.webhook.url)
    // without a terminal the output is a log, so the secret is not in it
    expect(first.err).not.toContain('whsec_')

    const head = git(cwd, 'rev-parse', 'HEAD')
    const second = await up(cwd)
    expect(second.code, second.err).toBe(0)
    expect(git(cwd, 'rev-parse', 'HEAD')).toBe(head)
    expect((await projects()).filter(({ name }) => name === 'corner-shop')).toHaveLength(1)
    expect(await environmentsOf(made.id)).toHaveLength(1)
    expect(await tasksOf(environment?.id ?? 0)).toHaveLength(2)
    expect(second.err).not.toContain('Wrote')
    expect(second.err).not.toContain('Secret')
  })

  test('a terminal: one question, then it opens the address; a no leaves the commit to the user', async () => {
    succeed()
    const cwd = host.checkout('asked', NODE)
    const before = git(cwd, 'rev-parse', 'HEAD')
    const no = await up(cwd, [], { types: ['n'], env: { DISPLAY: ':1' } })
    expect(no.code).toBe(6)
    expect(no.err).toContain('Commit .service.yml and push to origin/main? [y/N]')
    expect(no.err).toContain('.service.yml stay in the folder')
    expect([git(cwd, 'rev-parse', 'HEAD'), host.pushed('asked')]).toEqual([
      before,
      expect.not.arrayContaining(['.service.yml']),
    ])
    expect((await projects()).some(({ name }) => name === 'asked')).toBe(false)

    // the file is there now, so it is found; it is still not committed
    const yes = await up(cwd, [], { types: ['y'], env: { DISPLAY: ':1' } })
    expect(yes.code, yes.err).toBe(0)
    expect(yes.err).toMatch(/Secret +whsec_/)
    expect(host.pushed('asked')).toContain('.service.yml')
    expect(yes.io.launched).toEqual([['xdg-open', `${URL_OF_ALL}/`]])
    const again = await up(cwd, [], { types: [], env: { DISPLAY: ':1' } })
    expect([again.code, again.io.launched]).toEqual([0, []])
  })

  test('earlier commits are named in the question, and never pushed without it', async () => {
    succeed()
    const cwd = host.checkout('ahead', NODE)
    host.commit(cwd, { 'more.js': '' })
    const asked = await up(cwd, [], { types: ['y'] })
    expect(asked.err).toContain('and push, with 1 earlier commit, to origin/main?')
    expect(asked.code, asked.err).toBe(0)
    host.commit(cwd, { 'later.js': '' })
    const later = await up(cwd)
    expect(later.code, later.err).toBe(0)
    expect(later.err).toContain('1 local commit not pushed to origin; the deployment does not have')
    expect(host.pushed('ahead')).not.toContain('later.js')
  })

  test('--json is one document, with what was made', async () => {
    succeed()
    const cwd = host.checkout('data', { 'index.html': '<h1>hello</h1>' })
    const { code, out, err } = await up(cwd, ['--yes', '--json', '-e', 'live'])
    expect(code, err).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      control_plane: p.cp.url,
      project: { name: 'data', domain: 'data.localhost' },
      environment: { identifier: 'live', branch: 'main' },
      task: { status: 'succeeded' },
      files: ['.service.yml'],
      pushed: true,
      url: URL_OF_ALL,
    })
  })

  test('--dry-run shows the plan and changes nothing', async () => {
    const cwd = host.checkout('planned', NODE)
    const before = (await projects()).length
    const { code, out, err } = await up(cwd, ['--dry-run', '--json'])
    expect(code, err).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      dry_run: true,
      guesses: expect.arrayContaining([
        {
          what: 'Domain',
          value: 'planned.localhost',
          why: 'the server is this machine',
          flag: '--domain',
        },
      ]),
      makes: expect.arrayContaining(['write .service.yml', 'create the project planned']),
    })
    expect([(await projects()).length, existsSync(join(cwd, '.service.yml'))]).toEqual([
      before,
      false,
    ])
    const anonymous = await up(cwd, ['--dry-run'], { env: { BERTH_TOKEN: '' } })
    expect(anonymous.code, anonymous.err).toBe(0)
    expect(anonymous.out).toContain('Recipe\tdocker\n')
  })

  test('a deployment that fails: 3, and everything is there for the next try', async () => {
    p.executor.script = async (attempt) => {
      attempt.checkedOut('c'.repeat(40))
      attempt.fail('broken')
    }
    const cwd = host.checkout('broken', NODE)
    const failed = await up(cwd, ['--yes'])
    expect([failed.code, failed.out]).toEqual([3, ''])
    succeed()
    expect((await up(cwd)).code).toBe(0)
  })

  test('a deployment that a push has started is followed, not refused', async () => {
    succeed()
    const cwd = host.checkout('followed', NODE)
    expect((await up(cwd, ['--yes'])).code).toBe(0)
    const [environment] = await environmentsOf((await projectNamed('followed')).id)
    let end = () => {}
    const held = new Promise<void>((resolve) => {
      end = resolve
    })
    p.executor.script = async (attempt) => {
      attempt.checkedOut('c'.repeat(40))
      await held
      attempt.succeed()
    }
    const { body } = await p.deploy(environment?.id ?? 0)
    const io = openIo(cwd)
    const following = run(['up'], io)
    await until('up to follow', async () =>
      io.stderr.text.includes('A deployment is running already') ? true : undefined,
    )
    end()
    expect(await following, io.stderr.text).toBe(0)
    expect(io.stderr.text).toContain(`task ${body.id} succeeded`)
    expect(await tasksOf(environment?.id ?? 0)).toHaveLength(1)
  })
})

describe('without a terminal', () => {
  test('everything that is missing is one error that names the flags, and nothing is made', async () => {
    const cwd = host.checkout('ci', NODE)
    const path = `/api/servers/${p.serverId}`
    // no name leads to it, so no domain can be guessed
    expect((await p.cp.call('PATCH', path, { hostname: '203.0.113.9' })).status).toBe(200)
    // a server that never joined is no choice, so the only one is still the only one
    const second = await p.cp.server('two')
    const both = await up(cwd, ['--json'])
    await p.cp.call('PATCH', path, { hostname: '127.0.0.1' })
    await p.cp.call('DELETE', `/api/servers/${second.id}?confirm=two`)
    expect(both.code).toBe(2)
    const { error } = JSON.parse(both.out) as { error: { message: string; exit_code: number } }
    expect(error.exit_code).toBe(2)
    expect(error.message).toContain('--domain DOMAIN (*.DOMAIN must lead to one (203.0.113.9))')
    expect(error.message).toContain('--yes (commits .service.yml and pushes main to origin)')
    expect(both.err).toContain('hint:  berth up --domain DOMAIN --yes')
    expect((await projects()).some(({ name }) => name === 'ci')).toBe(false)
    expect(existsSync(join(cwd, '.service.yml'))).toBe(false)
    git(cwd, 'remote', 'rename', 'origin', 'upstream')
    git(cwd, 'remote', 'add', 'fork', host.urlOf('ci'))
    const remotes = await up(cwd, ['--yes'])
    expect(remotes.err).toContain('--remote NAME (which remote: fork, upstream)')
  })

  test('no login: 4, and both variables are named together', async () => {
    const cwd = host.checkout('anonymous', NODE)
    const { code, err } = await up(cwd, ['--yes'], { env: { BERTH_URL: '', BERTH_TOKEN: '' } })
    expect(code).toBe(4)
    expect(err).toContain('set BERTH_URL (or --url URL) and BERTH_TOKEN')
  })

  test('no checkout, no remote, a wrong flag: 2, before anything is asked', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'berth-none-'))
    try {
      expect((await up(folder)).err).toContain('this folder is not a git checkout')
      git(folder, 'init', '--quiet', '--initial-branch=main')
      const none = await up(folder, ['--yes'])
      expect([none.code, none.err]).toEqual([2, expect.stringContaining('has no remote')])
      const wrong = await up(folder, ['--domain', 'Not A Domain'])
      expect([wrong.code, wrong.err]).toEqual([
        2,
        expect.stringContaining('--domain must be a host name'),
      ])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  test('a file with errors, a folder that says nothing, a file on another branch: 2, nothing made', async () => {
    const bad = host.checkout('bad-file', { '.service.yml': 'manual: { deplyo: [x] }\n' })
    expect((await up(bad)).err).toContain("unknown key 'deplyo'")
    const empty = host.checkout('says-nothing', { 'README.md': '' })
    const said = await up(empty, ['--yes'])
    expect([said.code, said.err]).toEqual([2, expect.stringContaining('add a Dockerfile')])
    const other = host.checkout('other-branch', NODE)
    git(other, 'switch', '--quiet', '--create', 'feature')
    const branch = await up(other, ['--yes', '--branch', 'main'])
    expect(branch.code).toBe(2)
    expect(branch.err).toContain('--branch feature')
    expect(existsSync(join(other, '.service.yml'))).toBe(false)
  })

  test('containers on a server without an engine: 6, and what to do', async () => {
    const cwd = host.checkout('boxes', { Dockerfile: 'FROM scratch\nEXPOSE 80\n' })
    const { code, err } = await up(cwd, ['--yes'])
    expect(code).toBe(6)
    expect(err).toContain('one cannot run the docker recipe')
    expect(err).toContain('install Docker on one')
  })
})

describe('access', () => {
  test('a password in the address of a remote goes nowhere', async () => {
    succeed()
    const cwd = host.checkout('private', NODE)
    const url = host.urlOf('private').replace('http://', 'http://ada:hunter2@')
    git(cwd, 'remote', 'set-url', 'origin', url)
    const { code, out, err } = await up(cwd, ['--yes', '--json'])
    expect(code, err).toBe(0)
    expect((await projectNamed('private')).repo_url).toBe(host.urlOf('private'))
    expect(out + err).not.toContain('hunter2')
  })

  test('a repository that cannot be read: the key and where it goes; the next up goes on', async () => {
    succeed()
    const cwd = host.checkout('later', NODE)
    git(cwd, 'remote', 'set-url', 'origin', host.urlOf('not-yet'))
    // nothing can be pushed there, so the file must be there before
    host.commit(cwd, { '.service.yml': 'manual: { deploy: ["true"] }\n' })
    const repo = ['--repo', host.urlOf('not-yet')]
    const first = await up(cwd, repo)
    expect(first.code).toBe(6)
    const made = await projectNamed('later')
    expect(first.err).toContain(made.repo_public_key)
    expect(await environmentsOf(made.id)).toEqual([])
    const waiting = await up(cwd, repo, { types: [''] })
    expect(waiting.err).toContain('Press Enter when the key is there')
    host.make('not-yet')
    host.push(cwd, 'not-yet')
    const last = await up(cwd, repo)
    expect(last.code, last.err).toBe(0)
    expect(await environmentsOf(made.id)).toHaveLength(1)
  })

  test('a developer cannot make a project, and deploys one that is there', async () => {
    succeed()
    const cwd = host.checkout('team', NODE)
    const bea = await person(p.cp, 'Bea', 'developer')
    const env = { BERTH_TOKEN: bea.token }
    const refused = await up(cwd, ['--yes'], { env })
    expect(refused.code).toBe(6)
    expect(refused.err).toContain('your role in Acme is developer, which cannot make projects')
    expect(existsSync(join(cwd, '.service.yml'))).toBe(false)
    expect((await up(cwd, ['--yes'])).code).toBe(0)
    const deployed = await up(cwd, [], { env })
    expect(deployed.code, deployed.err).toBe(0)
  })

  test('a token without the scope: 4, and the command that gets one', async () => {
    const cwd = host.checkout('narrow', NODE)
    const made = await p.cp.make<{ token: string }>('/api/tokens', {
      name: 'narrow',
      scopes: ['read', 'deploy', 'write'],
      expires_in_days: 1,
    })
    const { code, err } = await up(cwd, ['--yes'], { env: { BERTH_TOKEN: made.token } })
    expect([code, err]).toEqual([4, expect.stringContaining('lacks the scope admin')])
  })

  test('a project of another repository is not taken over', async () => {
    const cwd = host.checkout('mine', NODE)
    const named = await up(cwd, ['--yes', '-p', 'shop'])
    expect(named.code).toBe(6)
    expect(named.err).toContain('the project shop deploys https://git.example.com/shop.git')
    const same = host.checkout('shop', NODE)
    const guessed = await up(same, ['--yes'])
    expect(guessed.code).toBe(2)
    expect(guessed.err).toContain('-p NAME (the name shop is taken')
  })

  test.each([
    ['an administrator', 'ada@example.com', true],
    ['a developer', 'carl@example.com', false],
  ])(
    'signs in %s with one approval, and keeps the scopes that fit the role',
    async (who, email, may) => {
      succeed()
      const name = may ? 'signs-in' : 'signs-in-again'
      const cwd = host.checkout(name, NODE)
      if (!may) {
        await person(p.cp, 'Carl', 'developer')
        expect((await up(cwd, ['--yes'])).code, who).toBe(0)
      }
      const folder = mkdtempSync(join(tmpdir(), 'berth-up-login-'))
      try {
        const env = { BERTH_URL: '', BERTH_TOKEN: '', BERTH_CONFIG_DIR: folder }
        const io = openIo(cwd, { types: [p.cp.url, 'y'], env })
        const running = run(['up'], io)
        await until('the code', async () =>
          /Waiting for approval/.test(io.stderr.text) ? true : undefined,
        )
        const code = /one-time code: (\S+)/.exec(io.stderr.text)?.[1]
        const browser = new Browser(p.cp)
        await browser.signIn(email, PASSWORD)
        const { status } = await browser.send('POST', '/device/approve', { user_code: code })
        expect(status).toBe(200)
        await p.cp.advance(60_000) // the client polls faster here than the server allows
        expect(await running, io.stderr.text).toBe(0)
        const stored = JSON.parse(readFileSync(join(folder, 'credentials.json'), 'utf8'))
        expect(Object.keys(stored)).toEqual([p.cp.url])
        const me = await as(p.cp, stored[p.cp.url].access_token, () => p.cp.call('GET', '/api/me'))
        const scopes = ['read', 'deploy', 'write', 'ssh', ...(may ? ['admin'] : [])]
        expect(me.body).toMatchObject({ token: { scopes } })
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
  )
})
