// The agent as it ships: bundled and packaged, offered by a control plane, installed by its script as the join command
// says, and then deploying. The script runs in its own mount namespace, so the machine's own folders stay unchanged.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment, Server, SshCertificate, Task } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findShippedCaddy } from '../../scripts/caddy.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Fixture, until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const isRoot = process.getuid?.() === 0
/** An inherited descriptor of the parent, beyond those that Node.js itself marks. */
const STRANGE = 200
const strange = [
  ...Array.from({ length: STRANGE - 3 }, () => 'ignore' as const),
  openSync('/etc/hostname', 'r'),
]
/** For setpriv: `-sys_time,-syslog`. */
const withoutRights = (script: string): string =>
  (/^CapabilityBoundingSet=~(.+)$/m.exec(script)?.[1] ?? '')
    .split(' ')
    .map((name) => name.replace(/^CAP_/, '-').toLowerCase())
    .join(',')
const PRIVATE = ['/opt', '/usr/local/bin', '/etc/systemd']

describe.skipIf(!isRoot)('the packaged agent', () => {
  const dist = mkdtempSync(join(tmpdir(), 'berth-dist-'))
  let fixture: Fixture
  let agent: ChildProcess | undefined
  let server: Server
  let stateDir = ''
  let ssh = ''
  let removeSsh = () => {}
  beforeAll(async () => {
    execFileSync(process.execPath, [join(root, 'scripts/bundle.ts')], {
      env: { ...process.env, BERTH_DIST: dist },
    })
    fixture = await Fixture.open({ env: { BERTH_AGENT_PACKAGES: dist } })
  }, 240_000)
  afterAll(async () => {
    agent?.kill('SIGKILL')
    removeSsh()
    await fixture?.close()
    rmSync(ssh, { recursive: true, force: true })
    rmSync(dist, { recursive: true, force: true })
  })

  /** The port that users get. */
  const gateway = async (environmentId: number): Promise<number> => {
    const { server } = await fixture.get<Environment>(`/api/environments/${environmentId}`)
    const reply = await fixture.post<SshCertificate>(`/api/servers/${server.id}/ssh`, {
      public_key:
        'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKTphRrBoRz3q2o0rCJtGWxFu9ZyPJHG1rsfXm4Lz1qD',
      purpose: 'logs',
      environment_id: environmentId,
    })
    return reply.port
  }

  test('comes with a client in one file, which finds its parts and modules of Node.js', () => {
    const berth = (...words: string[]) =>
      spawnSync(process.execPath, [join(dist, 'berth.cjs'), ...words], {
        env: { ...process.env, BERTH_URL: fixture.url, BERTH_TOKEN: fixture.token },
        encoding: 'utf8',
        timeout: 60_000,
      })
    expect(berth('servers')).toMatchObject({ status: 0, stderr: '' })
    const noCertificate = { status: 2, stderr: expect.stringContaining('no certificate inside') }
    expect(berth('servers', '--cacert', join(root, 'package.json'))).toMatchObject(noCertificate)
  })

  test('is installed by the join command and deploys', async () => {
    stateDir = join(fixture.dir, 'packaged')
    server = await fixture.post<Server>('/api/servers', { name: 'two', hostname: '127.0.0.1' })
    const { command, token } = await fixture.post<{ command: string; token: string }>(
      `/api/servers/${server.id}/join_token`,
    )
    const script = await (await fetch(`${fixture.url}/install.sh`)).text()
    const digest = createHash('sha256').update(script).digest('hex')
    expect(command).toContain(digest)
    expect(withoutRights(script)).toMatch(/^-sys_module,-\S+$/)
    const file = join(fixture.dir, 'install.sh')
    writeFileSync(file, script)
    // a fresh server: no files of ours, and root's umask is strict
    const steps = [
      'umask 077',
      ...PRIVATE.map((folder) => `mkdir -p ${folder} && mount -t tmpfs none ${folder}`),
      'sh "$1" --token-file - --no-start >&2',
      // with the capabilities that its unit leaves it
      `exec setpriv --bounding-set=${withoutRights(script)} /usr/local/bin/berth-agent run`,
    ]
    // sshd trusts only files whose parent folders all belong to root alone, so not /tmp
    ssh = mkdtempSync('/var/lib/berth-ssh-test-')
    chmodSync(ssh, 0o755)
    const port = await freePort()
    const sshEnvironment = {
      BERTH_SSH: missing('sshd') ? 'off' : 'dedicated',
      BERTH_SSH_DIR: join(ssh, 'ssh'),
      BERTH_SSH_LISTEN: `127.0.0.1:${port}`,
    }
    removeSsh = () => {
      const env = { ...process.env, ...fixture.agentEnvironment, ...sshEnvironment }
      const own = { ...env, BERTH_STATE_DIR: stateDir }
      execFileSync(process.execPath, ['agent/src/main.ts', 'ssh', 'remove'], { env: own })
    }
    agent = spawn('unshare', ['-m', 'sh', '-euc', steps.join('\n'), 'sh', file], {
      env: {
        ...process.env,
        ...fixture.agentEnvironment,
        ...sshEnvironment,
        BERTH_STATE_DIR: stateDir,
        BERTH_PROXY: 'on', // the fixture's own agent leaves the ports to this one
        BERTH_LOG_LEVEL: 'warn',
      },
      stdio: ['pipe', 'ignore', 'inherit', ...strange],
    })
    agent.stdin?.end(token)
    await until('the packaged agent to be online', async () => {
      if (agent?.exitCode !== null) throw new Error('it ended')
      const { status } = await fixture.get<Server>(`/api/servers/${server.id}`)
      return status === 'online' || undefined
    })
    const project = await fixture.post<{ id: number }>('/api/projects', {
      name: 'packaged',
      repo_url: fixture.exampleRepository('hello'),
      domain: 'packaged.example.com',
      server_ids: [server.id],
      default_recipe: 'manual',
    })
    const { parts } = await fixture.get<Server>(`/api/servers/${server.id}`)
    const shipped = findShippedCaddy()
    const caddy = parts.find(({ name }) => name === 'caddy')
    if (shipped) expect(caddy?.version).toBe(`${shipped.pin.version} (shipped with Berth)`)
    const { id } = await fixture.environment(project.id, 'main')
    const task = await fixture.finished((await fixture.deploy(id)).id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    for (const folder of [stateDir, join(stateDir, 'environments'), join(stateDir, 'run')]) {
      expect((statSync(folder).mode & 0o777).toString(8), folder).toBe('711')
    }
    // the agent tested a login before it reported this: forced command, accounts and files of the package fit together
    if (!missing('sshd'))
      await until('its sshd', async () => (await gateway(id)) === port || undefined)
    const removal = await fixture.call('DELETE', `/api/environments/${id}`)
    const ended = await fixture.finished(((await removal.json()) as { id: number }).id)
    expect([ended.status, ended.failure]).toEqual(['succeeded', null])
  }, 180_000)

  test('hands none of the descriptors that it was started with to a command', async () => {
    const list = 'ls -m /proc/$$/fd; true'
    const control = spawnSync('sh', ['-c', list], {
      stdio: ['ignore', 'pipe', 'inherit', ...strange],
      encoding: 'utf8',
    })
    expect(control.stdout).toContain(`, ${STRANGE}`)
    const repo_url = fixture.repository('descriptors', {
      '.service.yml': `manual:
  deploy: ['${list}']
  services:
    web: { run: 'ls -m /proc/$$/fd >"$BERTH_SHARED_DIR/service"; exec sleep 1000' }
actions:
  look: { run: '${list}' }
`,
    })
    const project = await fixture.post<{ id: number }>('/api/projects', {
      name: 'descriptors',
      repo_url,
      domain: 'descriptors.example.com',
      server_ids: [server.id],
      default_recipe: 'manual',
    })
    const { id } = await fixture.environment(project.id, 'main')
    const task = await fixture.finished((await fixture.deploy(id)).id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    expect((await fixture.log(task.id)).toString()).toMatch(/^0, 1, 2\r?$/m)
    const file = join(stateDir, 'environments', `e${id}`, 'shared', 'service')
    // the shell has one more while it writes
    expect(readFileSync(file, 'utf8')).toMatch(/^0, 1, (10, )?2\n$/)
    const asked = await fixture.post<Task>(`/api/environments/${id}/actions/look/tasks`)
    const action = await fixture.finished(asked.id)
    expect((await fixture.log(action.id)).toString()).toMatch(/^0, 1, 2\r?$/m)
  }, 120_000)
})
