// What code of an environment reaches over the network: nothing of another environment, no metadata address of a cloud.
// With a real engine that leaves the firewall alone, real accounts and a listener at a metadata address, in its own
// namespace. Each refusal has a control, which is the same try without the rules.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { METADATA_ADDRESSES } from '@berth/shared'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BuildError, buildImage } from '../../agent/src/machine/docker/build/build.ts'
import { getContainer } from '../../agent/src/machine/docker/engine.ts'
import { startExec } from '../../agent/src/machine/docker/exec.ts'
import { findCgroupMounts } from '../../agent/src/machine/process/cgroups.ts'
import { findSocketListeners } from '../../agent/src/machine/process/ports.ts'
import { listProcesses, readSocketInodes } from '../../agent/src/machine/process/processes.ts'
import { findAccount } from '../../agent/src/machine/users/users.ts'
import { guardServer, unguardServer } from '../../agent/src/resources/firewall.ts'
import { BUSYBOX_IMAGE } from '../fixtures/docker/images.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'

const A = 1
const B = 2
const FORK = 3
const MANUAL = 4
/** Addresses of clouds that this machine is unlikely to be in: the test redirects them for a moment. */
const METADATA = { v4: METADATA_ADDRESSES.v4[3], v6: METADATA_ADDRESSES.v6[1] }

/** The same listener at an address without a rule; rules of other tests also block metadata addresses. */
const BESIDE = '192.0.0.194'

// no kept connections: one from before the rules would continue to work
const SERVER = `require('node:http').createServer((q, r) => r.setHeader('connection', 'close').end('credentials')).listen(80, '::', () => console.log('up'))`

/** A namespace behind this machine in which the metadata service of a cloud answers. */
class FakeCloud {
  readonly #name = `bt${randomBytes(3).toString('hex')}`
  readonly #server: ChildProcess

  constructor() {
    const [near, far] = [`${this.#name}n`, `${this.#name}f`]
    const ip = (...argv: string[]): void => void execFileSync('ip', argv, { stdio: 'pipe' })
    const inside = (...argv: string[]): void => ip('-n', this.#name, ...argv)
    ip('netns', 'add', this.#name)
    ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', this.#name)
    ip('addr', 'add', '192.0.0.9/32', 'dev', near)
    ip('addr', 'add', 'fd20:ce::9/128', 'dev', near, 'nodad')
    ip('link', 'set', near, 'up')
    for (const device of ['lo', far]) inside('link', 'set', device, 'up')
    inside('addr', 'add', `${METADATA.v4}/32`, 'dev', far)
    inside('addr', 'add', `${BESIDE}/32`, 'dev', far)
    ip('route', 'add', `${BESIDE}/32`, 'dev', near)
    inside('addr', 'add', `${METADATA.v6}/128`, 'dev', far, 'nodad')
    inside('route', 'add', 'default', 'via', '192.0.0.9', 'dev', far, 'onlink')
    inside('-6', 'route', 'add', 'default', 'via', 'fd20:ce::9', 'dev', far, 'onlink')
    ip('route', 'add', `${METADATA.v4}/32`, 'dev', near)
    ip('-6', 'route', 'add', `${METADATA.v6}/128`, 'dev', near)
    const argv = [`--net=/run/netns/${this.#name}`, process.execPath, '-e', SERVER]
    this.#server = spawn('nsenter', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  }

  async up(): Promise<void> {
    await once(this.#server.stdout as NodeJS.ReadableStream, 'data')
  }

  async close(): Promise<void> {
    const gone = once(this.#server, 'exit')
    this.#server.kill('SIGKILL')
    await gone
    spawnSync('ip', ['link', 'del', `${this.#name}n`])
    execFileSync('ip', ['netns', 'del', this.#name])
  }
}

/** As the service manager sets it up; returns a function that restores everything. */
function ownGroup(socket: string): () => void {
  const [{ inode = '' } = {}] = findSocketListeners(socket)
  const engine = listProcesses().find(({ pid }) => readSocketInodes(pid).has(inode))
  const root = findCgroupMounts().get('unified') ?? ''
  const folder = join(root, `berth-test-${randomBytes(4).toString('hex')}`)
  mkdirSync(folder)
  writeFileSync(join(folder, 'cgroup.procs'), String(engine?.pid))
  return () => {
    // the processes it started move along
    for (const pid of readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n')) {
      if (pid !== '') writeFileSync(join(root, 'cgroup.procs'), pid)
    }
    rmdirSync(folder)
  }
}

const WAIT = { timeout: 180_000 }

describe.skipIf(!isRoot || !dockerEngine() || missing('caddy'))('code of an environment', () => {
  let host: DockerHost
  let cloud: FakeCloud

  beforeAll(async () => {
    cloud = new FakeCloud()
    await cloud.up()
    host = await DockerHost.open()
    for (const [environmentId, untrusted] of [
      [A, false],
      [B, false],
      [FORK, true],
    ] as const) {
      const repository = host.repository(`r${environmentId}`)
      repository.commit(httpd(`of ${environmentId}`))
      const run = await host.run(repository, { environmentId, untrusted })
      const { message, state } = await run.verdict()
      expect([message, state], run.log()).toEqual(['', AttemptState.SUCCEEDED])
    }
    const manual = host.repository(`r${MANUAL}`)
    const listen = `require('node:http').createServer((q, r) => r.setHeader('connection', 'close').end('manual')).listen(process.env.PORT, '0.0.0.0')`
    const run = `exec ${host.node} -e "${listen}"`
    const yaml = `manual:\n  deploy: [echo]\n  services:\n    web: { port: auto, run: ${JSON.stringify(run)} }\n`
    manual.commit({ '.service.yml': yaml })
    const deployed = await host.deploy(manual, { environmentId: MANUAL })
    expect((await deployed.verdict()).message, deployed.log()).toBe('')
  }, 300_000)
  afterAll(async () => {
    await host.close()
    await cloud.close()
  }, 60_000)

  async function idOf(environmentId: number, service = 'web'): Promise<string> {
    const found = (await host.containers(environmentId)).find(({ name }) =>
      name.includes(`-${service}-`),
    )
    if (!found) throw new Error('no container')
    return found.id
  }

  /** Its address, and this machine's address in its network, which is the first of its /26. */
  async function networkOf(environmentId: number, service = 'web') {
    const container = await getContainer(host.engine, await idOf(environmentId, service))
    const { NetworkSettings } = await container.inspect()
    const address = Object.values(NetworkSettings.Networks)[0]?.IPAddress ?? ''
    const at = (offset: number): string =>
      address.replace(/\d+$/, (n) => String(Math.floor(Number(n) / 64) * 64 + offset))
    return { address, gateway: at(1), subnet: `${at(0)}/26` }
  }

  /** What a container reads there; empty if nothing. */
  async function fromContainer(environmentId: number, url: string): Promise<string> {
    let said = ''
    const exec = await startExec(host.engine, await idOf(environmentId), {
      argv: ['/bin/timeout', '3', '/bin/wget', '-q', '-O', '-', url],
      directory: null,
      env: [],
      onOutput: (stream, chunk) => {
        if (stream === 'out') said += chunk.toString()
      },
    })
    await exec.exited
    return said.trim()
  }

  /** What a process of the manual environment reads there. */
  async function fromProcess(url: string): Promise<string> {
    const account = await findAccount(`${host.settings.accountPrefix}${MANUAL}`)
    const rights = [
      '--reuid',
      String(account?.uid),
      '--regid',
      String(account?.gid),
      '--clear-groups',
    ]
    const source = `fetch(process.argv[1], { signal: AbortSignal.timeout(30_000) }).then((a) => a.text()).then(console.log, () => undefined)`
    const argv = [...rights, '--', host.node, '-e', source, url]
    return spawnSync('setpriv', argv, { encoding: 'utf8' }).stdout.trim()
  }

  /** What a RUN of a build reads there. */
  const fromBuild = (url: string): Promise<string> =>
    build(`RUN timeout 3 wget -q -O - ${url}; true`)

  /** What the engine fetches for a build. */
  const fromEngine = (url: string): Promise<string> =>
    build(`ADD ${url}?${randomBytes(4).toString('hex')} /fetched\nRUN cat /fetched`)

  async function build(commands: string): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), 'berth-build-'))
    const lines: string[] = []
    writeFileSync(join(folder, 'Dockerfile'), `FROM ${BUSYBOX_IMAGE}\n${commands}\n`)
    try {
      await buildImage(host.engine, {
        folder,
        dockerfile: 'Dockerfile',
        target: null,
        args: {},
        tag: `${host.settings.accountPrefix}probe`,
        labels: {},
        noCache: true,
        onStep: () => undefined,
        onText: (_step, text) => void lines.push(String(text)),
      })
    } catch (error) {
      if (!(error instanceof BuildError)) throw error
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
    return lines.join('')
  }

  async function withoutRules<T>(act: () => Promise<T>): Promise<T> {
    await unguardServer(host.settings)
    try {
      return await act()
    } finally {
      const ledger = host.ledger()
      await guardServer(host.settings, ledger, { isFresh: true })
      ledger.close()
    }
  }

  const fromRoot = async (url: string): Promise<string> => (await fetch(url)).text()

  it('no container reaches another environment’s container', WAIT, async () => {
    const url = `http://${(await networkOf(B)).address}:8080/`
    expect(await fromRoot(url)).toBe('version of 2\n')
    expect(await fromContainer(B, url)).toBe('version of 2')
    expect(await withoutRules(() => fromContainer(A, url))).toBe('version of 2')
    expect(await fromContainer(A, url)).toBe('')
    expect(await fromContainer(FORK, url)).toBe('')
  })

  it('no build reaches one either', WAIT, async () => {
    const url = `http://${(await networkOf(B)).address}:8080/`
    expect(await withoutRules(() => fromBuild(url))).toContain('version of 2')
    expect(await fromBuild(url)).not.toContain('version of 2')
  })

  it('no process of a manual environment does', WAIT, async () => {
    const url = `http://${(await networkOf(B)).address}:8080/`
    expect(await withoutRules(() => fromProcess(url))).toBe('version of 2')
    expect(await fromProcess(url)).toBe('')
  })

  it(
    'no container reaches the port of a manual service, at any address of the server',
    WAIT,
    async () => {
      const ledger = host.ledger()
      const port = ledger.listProcesses(MANUAL)[0]?.port
      ledger.close()
      const own = (await networkOf(A)).gateway
      const others = (await networkOf(B)).gateway
      const forks = (await networkOf(FORK)).gateway
      expect(await withoutRules(() => fromContainer(A, `http://${own}:${port}/`))).toBe('manual')
      expect(await withoutRules(() => fromContainer(FORK, `http://${forks}:${port}/`))).toBe(
        'manual',
      )
      for (const gateway of [own, others]) {
        expect(await fromContainer(A, `http://${gateway}:${port}/`)).toBe('')
      }
      expect(await fromContainer(FORK, `http://${forks}:${port}/`)).toBe('')
      expect(await fromBuild(`http://${own}:${port}/`)).not.toContain('manual')
      expect(await fromRoot(`http://127.0.0.1:${port}/`)).toBe('manual')
    },
  )

  it('nothing reaches a metadata address', WAIT, async () => {
    const [v4, v6] = [`http://${METADATA.v4}/`, `http://[${METADATA.v6}]/`]
    await eventually(() => fromRoot(v4).catch(() => undefined), 'the cloud')
    expect(await fromRoot(v6)).toBe('credentials')
    expect(await fromContainer(A, `http://${BESIDE}/`)).toBe('credentials')
    expect(await fromBuild(`http://${BESIDE}/`)).toContain('credentials')
    expect(await withoutRules(() => fromProcess(v4))).toBe('credentials')
    expect(await withoutRules(() => fromProcess(v6))).toBe('credentials')
    expect(await fromContainer(A, v4)).toBe('')
    expect(await fromContainer(FORK, v4)).toBe('')
    expect(await fromProcess(v4)).toBe('')
    expect(await fromProcess(v6)).toBe('')
    expect(await fromBuild(v4)).not.toContain('credentials')
  })

  it('the engine fetches nothing of it for a build', WAIT, async () => {
    const ledger = host.ledger()
    const port = ledger.listProcesses(MANUAL)[0]?.port
    ledger.close()
    const urls = {
      'version of 2': `http://${(await networkOf(B)).address}:8080/`,
      manual: `http://127.0.0.1:${port}/`,
      credentials: `http://${METADATA.v4}/`,
    }
    const tryAll = async (): Promise<string[]> => {
      const said: string[] = []
      for (const url of Object.values(urls)) said.push((await fromEngine(url)).trim())
      return said
    }
    // a build may not use the server's own network
    const shared = `RUN --network=host timeout 3 wget -q -O - ${urls.manual}; true`
    expect(await build(shared)).not.toContain('manual')
    const found = Object.keys(urls).map((text) => expect.stringContaining(text))
    expect(await withoutRules(tryAll)).toEqual(found)
    const giveBack = ownGroup(host.settings.dockerSocket)
    try {
      const ledger = host.ledger()
      const state = await guardServer(host.settings, ledger)
      ledger.close()
      expect(state).toMatchObject({ isInForce: true, engine: 'bound' })
      const left = (await tryAll()).join()
      for (const text of Object.keys(urls)) expect(left).not.toContain(text)
    } finally {
      giveBack()
    }
  })

  it('containers of one environment reach each other', WAIT, async () => {
    const repository = host.repository('r5')
    const yaml = `docker:
  services:
    web: { build: ., port: 8080, health: / }
    back: { build: ., port: 8080, health: /, path: /back }
`
    repository.commit(httpd('of both', { '.service.yml': yaml }))
    const run = await host.run(repository, { environmentId: 5 })
    expect((await run.verdict()).message, run.log()).toBe('')
    const back = await networkOf(5, 'back')
    expect(await fromContainer(5, `http://${back.address}:8080/`)).toBe('version of both')
  })

  it('a network that goes takes its rule along', WAIT, async () => {
    const { subnet } = await networkOf(5)
    const saved = (): string =>
      execFileSync('iptables-save', ['-t', 'mangle'], { encoding: 'utf8' })
    expect(saved()).toContain(`-d ${subnet}`)
    const removal = await host.run(host.repository('r5'), { environmentId: 5, destroy: true })
    expect((await removal.verdict()).message, removal.log()).toBe('')
    expect(saved()).not.toContain(`-d ${subnet}`)
  })
})
