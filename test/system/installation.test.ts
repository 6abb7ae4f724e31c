// A whole installation of real processes: control plane, daemon, runner, git over HTTP, the client. What a new user
// does, and common mistakes.
import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment, Server, Task } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Fixture, until } from '../fixtures/server/installation.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const SECRET = 'correct-horse-battery'

describe('an installation', () => {
  let fixture: Fixture
  let home: string
  beforeAll(async () => {
    fixture = await Fixture.open({ proxy: true })
    home = mkdtempSync(join(tmpdir(), 'berth-home-'))
  })
  afterAll(async () => {
    await fixture.close()
    rmSync(home, { recursive: true, force: true })
  })

  async function berth(
    args: string[],
    input = '',
    onError: (err: string) => void = () => {},
  ): Promise<{ code: number; out: string; err: string }> {
    const child = spawn(process.execPath, ['cli/src/main.ts', ...args], {
      cwd: root,
      env: { PATH: process.env.PATH ?? '', HOME: home, BERTH_URL: fixture.url, TZ: 'UTC' },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    let out = ''
    let err = ''
    child.stdout.on('data', (d) => {
      out += d
    })
    child.stderr.on('data', (d) => {
      err += d
      onError(err)
    })
    child.stdin.end(input)
    const code = await new Promise<number>((resolve) =>
      child.once('close', (c) => resolve(c ?? -1)),
    )
    return { code, out, err }
  }

  const make = async (name: string, files: Record<string, string>, variables = {}) => {
    const project = await fixture.project(name, fixture.repository(name, files))
    return fixture.environment(project.id, 'main', variables)
  }
  const steps = (...runs: string[]): Record<string, string> => ({
    '.service.yml': `manual:\n  deploy:\n${runs.map((run) => `    - ${JSON.stringify(run)}\n`).join('')}`,
  })

  test('the server tells what it is and can do', async () => {
    const server = await fixture.get<Server>(`/api/servers/${fixture.serverId}`)
    expect(server).toMatchObject({ status: 'online', recipes: ['manual'] })
    expect(server.parts.find((p) => p.name === 'git')?.version).toMatch(/^\d/)
    const firewall = server.parts.find((p) => p.name === 'firewall')
    if (process.getuid?.() === 0)
      expect(firewall?.version, `${firewall?.reason}`).toMatch(/^iptables/)
    expect(server.facts?.cpus).toBeGreaterThan(0)
  })

  test('the example is deployed by the client, answers, and is replaced on its other port', async () => {
    const project = await fixture.project('hello', fixture.exampleRepository('hello'))
    const environment = await fixture.environment(project.id, 'main')
    const login = await berth(['login', '--with-token'], fixture.token)
    expect([login.code, login.err]).toEqual([0, expect.stringContaining('Logged in')])
    expect(statSync(join(home, '.config/berth/credentials.json')).mode & 0o777).toBe(0o600)
    const first = await berth(['deploy', '-p', 'hello', '-e', 'main', '--wait'])
    expect([first.code, first.err]).toEqual([0, expect.stringContaining('succeeded')])
    const before = await fixture.get<Environment>(`/api/environments/${environment.id}`)
    expect((await fixture.visit(before.url)).text).toContain('Hello from Berth')

    const second = await berth(['deploy', '-p', 'hello', '-e', 'main', '--wait'])
    expect(second.code).toBe(0)
    const after = await fixture.get<Environment>(`/api/environments/${environment.id}`)
    expect(after.url).toBe(before.url)
    expect((await fixture.visit(after.url)).text).toContain('Hello from Berth')
    const tasks = await fixture.get<Task[]>(`/api/environments/${environment.id}/tasks`)
    const logs = await Promise.all(tasks.map(({ id }) => fixture.log(id)))
    const ports = logs.map((log) => /web answers on port (\d+)/.exec(log.toString())?.[1])
    expect([ports.length, new Set(ports).size]).toEqual([2, 2]) // they alternate
  })

  test('a failing step: exit 3, the step, its exit code and its output', async () => {
    await make('broken', steps('echo fine', 'echo this is why >&2; exit 7'))
    const { code, err } = await berth(['deploy', '-p', 'broken', '-e', 'main', '--wait'])
    expect(code).toBe(3)
    expect(err).toContain('exit code 7')
    expect(err).toContain('this is why')
    const log = await berth(['log', '-p', 'broken', '-e', 'main', '--failed'])
    expect([log.code, log.out]).toEqual([0, expect.stringContaining('this is why')])
  })

  test('mistakes in .service.yml are located, in the log and in the failure', async () => {
    const environment = await make('typo', {
      '.service.yml': 'manual:\n  deploy: [make]\n  servces: {}\n',
    })
    const { id } = await fixture.deploy(environment.id)
    const task = await fixture.finished(id)
    expect(task.failure).toMatchObject({
      code: 'config_invalid',
      step: 'read-config',
      is_platform_check: true,
    })
    const text = ".service.yml:3:3 unknown key 'servces' in manual; did you mean 'services'?"
    expect((await fixture.log(id)).toString()).toContain(text)
    const missing = await make('empty', { README: 'nothing here' })
    const none = await fixture.finished((await fixture.deploy(missing.id)).id)
    expect(none.failure?.message).toContain('.service.yml was not found')
  })

  test('a secret that a program prints is nowhere but where it must be', async () => {
    const files = steps(
      'printf "%s" "$TOKEN" | head -c 9; sleep 0.3; printf "%s\\n" "$TOKEN" | tail -c +10',
      'printf "%s" "$TOKEN" | base64',
      `echo the length is $\{#TOKEN}`,
    )
    const environment = await make('secret', files, { TOKEN: SECRET })
    const { id } = await fixture.deploy(environment.id)
    expect((await fixture.finished(id)).status).toBe('succeeded')
    const log = (await fixture.log(id)).toString()
    expect(log).toContain(`the length is ${SECRET.length}`)
    expect(log).toContain('***')
    expect(log).not.toContain(SECRET)
    expect(log).not.toContain(Buffer.from(SECRET).toString('base64'))
    for (const file of ['berth.db', 'berth.db-wal']) {
      const path = join(fixture.dir, 'control-plane', file)
      if (existsSync(path)) expect(readFileSync(path).includes(SECRET)).toBe(false)
    }
    expect(readFileSync(join(fixture.stateDir, 'journal.db')).includes(SECRET)).toBe(false)
  })

  test('a cancel ends the whole process tree', async () => {
    const environment = await make(
      'stubborn',
      steps(`trap '' INT TERM; (trap '' INT TERM; setsid sleep 987 &) ; echo going; sleep 987`),
    )
    const { id } = await fixture.deploy(environment.id)
    await until('the step', async () =>
      (await fixture.log(id)).includes('going') ? true : undefined,
    )
    const canceled = await berth(['tasks', 'cancel', String(id)])
    expect(canceled.code).toBe(0)
    expect((await fixture.finished(id)).status).toBe('canceled')
    const account = `${fixture.accountPrefix}${environment.id}`
    await until('silence', () => (processesOf(account) === 0 ? true : undefined))
  })

  test('an unknown commit and a second deployment are refused with what to do', async () => {
    const wait = 'until [ -e "$BERTH_SHARED_DIR/go" ]; do sleep 0.1; done'
    const environment = await make('busy', steps(wait))
    const go = join(fixture.stateDir, `environments/e${environment.id}/shared/go`)
    const gone = await fixture.deploy(environment.id, { commit_sha: 'a'.repeat(40) })
    expect((await fixture.finished(gone.id)).failure?.code).toBe('commit_not_found')
    const { id } = await fixture.deploy(environment.id)
    const refused = await berth(['deploy', '-p', 'busy', '-e', 'main'])
    expect([refused.code, refused.err]).toEqual([6, expect.stringContaining(`task ${id}`)])
    // it ends once a client waits for it, however long the client takes to start
    const attached = await berth(['deploy', '-p', 'busy', '-e', 'main', '--attach'], '', (err) => {
      if (err.includes(`task ${id}`)) writeFileSync(go, '')
    })
    expect(attached.code).toBe(0)
    expect((await fixture.get<Task>(`/api/tasks/${id}`)).status).toBe('succeeded')
  })
})

/** Processes that run under an account. */
function processesOf(account: string): number {
  const uid = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((line) => line.startsWith(`${account}:`))
    ?.split(':')[2]
  if (uid === undefined) return 0
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const status = readFileSync(`/proc/${pid}/status`, 'utf8')
        return new RegExp(`^Uid:\\s+${uid}\\s`, 'm').test(status) && !/^State:\s+Z/m.test(status)
      } catch {
        return false
      }
    }).length
}
