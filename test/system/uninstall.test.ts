// `berth-agent uninstall` on a server with environments of both recipes: what it refuses, what it loses, what is left.
// The agent of a fixture has its own prefix, folders and ports, so the machine itself stays as it is. An installed
// program, units and sshd are part of test/system/server-install.test.ts.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Server } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { callEngine } from '../../scripts/docker-engine.ts'
import { smallApp } from '../fixtures/docker/app.ts'
import { deployed, dockerEnvironment } from '../fixtures/docker/docker-fixture.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { Fixture } from '../fixtures/server/installation.ts'
import { listProcessesOf } from '../fixtures/server/installation-docker.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const engine = dockerEngine()
const isRoot = process.getuid?.() === 0

describe.skipIf(!engine || !isRoot || missing('caddy'))('a server with environments', () => {
  let fixture: Fixture
  const ids: number[] = []
  const uninstall = (...words: string[]) =>
    spawnSync(process.execPath, [AGENT_MAIN, 'uninstall', ...words], {
      cwd: root,
      env: { ...process.env, ...fixture.agentEnvironment },
      encoding: 'utf8',
      timeout: 120_000,
    })
  const inAccounts = (): string[] =>
    ['/etc/passwd', '/etc/group']
      .flatMap((file) => readFileSync(file, 'utf8').split('\n'))
      .filter((line) => line.startsWith(fixture.accountPrefix.replace(/e$/, '')))
  const rules = (): string[] =>
    ['iptables-save', 'ip6tables-save']
      .flatMap((program) => execFileSync(program, { encoding: 'utf8' }).split('\n'))
      .filter((line) => line.includes(fixture.stateDir))
  const groups = (): string[] => globSync(`/sys/fs/cgroup/**/berth/${fixture.accountPrefix}*`)
  const server = () => fixture.get<Server>(`/api/servers/${fixture.serverId}`)
  let foreign = ''

  beforeAll(async () => {
    if (!engine) return
    fixture = await Fixture.open({ docker: engine })
    const app = smallApp('one', ['volumes: ["data:/data"]'])
    const file = `${app['.service.yml']}`.replace('docker:\n', 'docker:\n  volumes: [data]\n')
    const docker = await dockerEnvironment(fixture, 'shop', { ...app, '.service.yml': file })
    await deployed(fixture, docker.id)
    const project = await fixture.project('hello', fixture.exampleRepository('hello'))
    const manual = await fixture.environment(project.id, 'main')
    const task = await fixture.finished((await fixture.deploy(manual.id)).id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    ids.push(docker.id, manual.id)
    // of another agent on the same engine
    const made = await callEngine(
      engine.socket,
      'POST',
      '/volumes/create',
      JSON.stringify({
        Name: `stranger-${fixture.accountPrefix}1`,
        Labels: { 'dev.berth.agent': 'stranger' },
      }),
    )
    foreign = (JSON.parse(made.text) as { Name: string }).Name
  }, 240_000)
  afterAll(async () => {
    if (engine && foreign) await callEngine(engine.socket, 'DELETE', `/volumes/${foreign}`)
    await fixture?.close()
  })

  test('is refused while they are there, with what would be lost', async () => {
    const before = readFileSync(join(fixture.stateDir, 'ledger.db')).length
    const { status, stdout } = uninstall('--yes')
    expect(status).toBe(1)
    expect(stdout).toMatch(
      new RegExp(`environment ${ids[0]}\\): 1 container, the data of \\S+${ids[0]}-data, its`),
    )
    expect(stdout).toMatch(new RegExp(`environment ${ids[1]}\\): 1 service, its files`))
    expect(stdout).toContain('berth-agent uninstall --purge')
    expect(readFileSync(join(fixture.stateDir, 'ledger.db')).length).toBe(before)
    expect((await server()).status).toBe('online')
  })

  test('asks first, and wants an answer that exists', async () => {
    const { status, stdout } = uninstall('--purge')
    expect([status, stdout]).toEqual([1, expect.stringContaining('Add --yes')])
    expect(uninstall('--quickly')).toMatchObject({ status: 2 })
    expect((await server()).status).toBe('online')
  })

  test('leaves nothing behind, although the daemon is dead, and says so to the control plane', async () => {
    fixture.agent?.kill('SIGKILL')
    expect(inAccounts().length).toBeGreaterThan(2)
    expect(rules().length).toBeGreaterThan(0)
    const owned = await fixture.owned()
    expect([owned.containers.length, owned.volumes.length, owned.networks.length]).toEqual([
      1, 1, 1,
    ])
    const { status, stdout, stderr } = uninstall('--yes', '--purge')
    expect([status, stderr, stdout]).toEqual([0, '', expect.stringMatching(/Berth is removed/)])
    expect(stdout).toContain('The control plane shows one as uninstalled. It still lists 2 ')
    expect(await fixture.owned()).toEqual({ containers: [], images: [], networks: [], volumes: [] })
    expect(inAccounts()).toEqual([])
    expect(rules()).toEqual([])
    expect(groups()).toEqual([])
    expect(existsSync(fixture.stateDir)).toBe(false)
    // edge, Caddy, supervisor, runners; the control plane has the folder in its arguments too
    const left = listProcessesOf(fixture.stateDir).filter(
      ({ pid }) => pid !== fixture.controlPlane?.pid,
    )
    expect(left).toEqual([])
    expect((await server()).status).toBe('uninstalled')
    const all = JSON.parse((await callEngine(engine?.socket ?? '', 'GET', '/volumes')).text)
    expect(all.Volumes.map(({ Name }: { Name: string }) => Name)).toContain(foreign)
  }, 180_000)

  test('can be repeated', () => {
    expect(uninstall('--yes')).toMatchObject({
      status: 0,
      stdout: 'Nothing of Berth is on this server.\n',
    })
  })

  test('works with half of an installation, and without a control plane', async () => {
    const env = { ...process.env, ...fixture.agentEnvironment }
    const setUp = spawnSync(process.execPath, [AGENT_MAIN, 'setup', 'proxy-account'], { env })
    expect(setUp.status).toBe(0)
    await fixture.join('three', fixture.agentEnvironment)
    rmSync(join(fixture.stateDir, 'identity', 'gen-1', 'key.pem'))
    fixture.controlPlane?.kill('SIGKILL')
    const { status, stdout } = uninstall('--yes')
    expect([status, stdout]).toEqual([0, expect.stringMatching(/could not be told/)])
    expect([existsSync(fixture.stateDir), inAccounts()]).toEqual([false, []])
  }, 60_000)
})
