// What `npm start` runs, from outside: an example that answers, printed commands that work, a restart after everything
// was killed, a start on other ports, and an end that leaves nothing running, also after repeated signals. A container
// ends with it and comes back with the next start; a neighbour's is not touched.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { listProcesses, readOwner } from '../../agent/src/machine/process/processes.ts'
import { findAccount } from '../../agent/src/machine/users/users.ts'
import { callEngine } from '../../scripts/docker-engine.ts'
import { smallApp } from '../fixtures/docker/app.ts'
import { BUSYBOX_IMAGE } from '../fixtures/docker/images.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { removeAccounts, until } from '../fixtures/server/installation.ts'
import {
  type FixtureEngine,
  freeDatagramPort,
  freePort,
  listOwned,
  removeOwned,
} from '../fixtures/server/installation-docker.ts'
import { takePortRange } from '../fixtures/server/packet-rules.ts'

const root = join(import.meta.dirname, '../..')
const data = mkdtempSync(join(tmpdir(), 'berth-dev-'))
chmodSync(data, 0o755) // the example's account must reach its folder
/** Other tests guard their ports, so the example needs its own range. */
const range = takePortRange()
const START_MS = 240_000 // an upper bound: four programs start, and a package is built
const engine = dockerEngine()
const digest = createHash('sha256').update(data).digest('hex')
const accountPrefix = `berth-${digest.slice(0, 6)}-e`
const folderOfSshd = join('/var/lib/berth-dev', digest.slice(0, 12))

/** Its processes, including those that outlive it: their arguments or environment name its folder. */
const ours = (): number[] =>
  listProcesses()
    .map(({ pid }) => pid)
    .filter((pid) => pid !== process.pid && names(pid))

function names(pid: number): boolean {
  try {
    return ['cmdline', 'environ'].some((file) => {
      const text = readFileSync(`/proc/${pid}/${file}`, 'utf8')
      return text.includes(data) || text.includes(folderOfSshd)
    })
  } catch {
    return false // ended meanwhile
  }
}

async function start(): Promise<ChildProcess> {
  const ports = { BERTH_PORT_RANGE: `${range.from}-${range.to}` }
  // never the machine's own engine
  const docker = {
    DOCKER_HOST: `unix://${engine?.socket ?? '/nonexistent/docker.sock'}`,
    ...(engine ? { BERTH_NETWORK_POOL: engine.pool } : {}),
  }
  const env = { ...process.env, ...ports, ...docker, BERTH_DATA: data }
  const child = spawn(process.execPath, ['scripts/dev/main.ts'], { cwd: root, env })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8')
    })
  }
  let isOver = false
  child.once('close', () => {
    isOver = true
  })
  const isUp = () => said.includes('Berth is running.')
  await until('the example', () => isOver || isUp() || undefined, START_MS)
  if (!isUp()) throw new Error(`it ended: ${said}`)
  expect(said).toMatch(engine ? /docker and manual are ready/ : /manual is ready; docker is not/)
  return child
}

const ask = (port: number, host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, headers: { host } }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
    sent.on('error', reject)
    sent.end()
  })

type Ports = Record<'http' | 'agent' | 'git' | 'proxy' | 'ssh', number>
const readPorts = (): Ports => JSON.parse(readFileSync(join(data, 'ports.json'), 'utf8'))

/** Runs a printed command with the client: the administrator's token, no settings of this machine. */
async function berth(
  command: string,
  ...args: string[]
): Promise<{ code: number | null; out: string }> {
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: data,
    BERTH_URL: `http://127.0.0.1:${readPorts().http}`,
    BERTH_TOKEN_FILE: join(data, 'administrator-token'),
  }
  const argv = ['cli/src/main.ts', command, '-p', 'hello', '-e', 'main', ...args]
  const child = spawn(process.execPath, argv, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      out += chunk.toString('utf8')
    })
  }
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out }
}

async function api<T>(path: string, body?: object): Promise<T> {
  const token = readFileSync(join(data, 'administrator-token'), 'utf8').trim()
  const answer = await fetch(`http://127.0.0.1:${readPorts().http}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body ?? {}),
  })
  expect(answer.status, path).toBe(201)
  return (await answer.json()) as T
}

/** Another program that listens on a port of this checkout. */
async function take(port: number): Promise<Server> {
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

describe.skipIf(missing('caddy') || missing('git'))('npm start', () => {
  afterAll(async () => {
    for (const pid of ours()) process.kill(pid, 'SIGKILL')
    if (engine) await removeOwned(engine, accountPrefix)
    if (engine && neighbour) await callEngine(engine.socket, 'DELETE', `${neighbour}?force=1`)
    range.giveBack()
    removeAccounts(`berth-${digest.slice(0, 6)}-`)
    for (const folder of [data, folderOfSshd]) {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it(
    'shows an example, starts again after it was killed, and ends whole',
    async () => {
      // not the default ones, which other tests and users need
      const free = { http: await freePort(), agent: await freePort(), proxy: await freePort() }
      const chosen = { ...free, names: await freeDatagramPort() }
      writeFileSync(join(data, 'ports.json'), JSON.stringify(chosen))
      const first = await start()
      const ports = readPorts()
      expect(await ask(ports.proxy, 'main.hello.localhost')).toBe(200)
      const caddies = ours().filter(
        (pid) => listProcesses().find((p) => p.pid === pid)?.name === 'caddy',
      )
      if (process.getuid?.() === 0) {
        const { uid } = (await findAccount(`berth-${digest.slice(0, 6)}-caddy`)) ?? {}
        expect([uid === 0, caddies.map(readOwner)]).toEqual([false, [uid]])
      }
      await tryCommands()
      await followGuide()
      await addServer()
      if (engine) await deployContainer(engine)
      // everything that does not outlive an agent; Caddy, the edge and the example's process do
      const dying = ours().filter((pid) => isOfStart(pid, first.pid))
      for (const pid of dying) process.kill(pid, 'SIGKILL')
      await once(first, 'exit')
      expect(ours()).not.toEqual([])

      const second = await start()
      expect(await ask(ports.proxy, 'main.hello.localhost')).toBe(200)
      const ended = once(second, 'exit')
      const all = ours().length
      second.kill('SIGINT')
      await until('the end to begin', () => ours().length < all || undefined)
      second.kill('SIGINT') // users press twice
      expect(await ended).toEqual([0, null])
      expect(ours()).toEqual([])
      if (engine) expect(await runningContainers(engine)).toEqual([])
      if (engine) expect(await isNeighbourUp(engine)).toBe(true)
    },
    4 * START_MS,
  )

  it(
    'goes on with other ports when ports.json is removed, as its message advises',
    async () => {
      const before = readPorts()
      const others = await Promise.all([before.http, before.agent, before.git].map(take))
      await expect(start()).rejects.toThrow(/is taken.*remove .*ports\.json/)
      rmSync(join(data, 'ports.json'))
      const child = await start()
      const after = readPorts()
      for (const name of ['http', 'agent', 'git'] as const) {
        expect(after[name]).not.toBe(before[name])
      }
      expect(await ask(after.proxy, 'main.hello.localhost')).toBe(200)
      if (engine) {
        const isBack = async () => (await runningContainers(engine)).length === 1 || undefined
        await until('the container', isBack)
      }
      await tryCommands()
      const ended = once(child, 'exit')
      child.kill('SIGINT')
      expect(await ended).toEqual([0, null])
      for (const server of others) server.close()
      expect(ours()).toEqual([])
    },
    4 * START_MS,
  )
})

describe('npm run control-plane', () => {
  it('offers the dashboard, the agent and the client from its first start', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'berth-serve-'))
    const own = { BERTH_DATA_DIR: folder, BERTH_PORT: '0', BERTH_AGENT_PORT: '0' }
    const env = { ...process.env, ...own }
    const child = spawn(process.execPath, ['scripts/serve.ts'], { cwd: root, env })
    let said = ''
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8')
    })
    try {
      const find = () => /listens at (http\S+),/.exec(said)?.[1]
      const url = await until('the control plane', find, START_MS)
      expect((await fetch(`${url}/install.sh`)).status).toBe(200)
      expect((await fetch(`${url}/install-cli.sh`)).status).toBe(200)
      expect(await (await fetch(url)).text()).toContain('<script')
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      expect(await ended).toEqual([0, null])
    } finally {
      child.kill('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

/** The path of a container that is not ours, in the same engine. */
let neighbour: string | undefined

const runningContainers = async (of: FixtureEngine): Promise<string[]> =>
  (await listOwned(of, accountPrefix)).containers.filter((c) => c.running).map((c) => c.name)

async function isNeighbourUp({ socket }: FixtureEngine): Promise<boolean> {
  const { text } = await callEngine(socket, 'GET', `${neighbour}/json`)
  return (JSON.parse(text) as { State: { Running: boolean } }).State.Running
}

/** Deploys a project with the docker recipe, beside a container of another owner. */
async function deployContainer(of: FixtureEngine): Promise<void> {
  const repository = join(data, 'boxed')
  mkdirSync(repository, { recursive: true })
  for (const [name, text] of Object.entries(smallApp('one'))) {
    writeFileSync(join(repository, name), text)
  }
  const address = `http://127.0.0.1:${readPorts().git}/me/boxed.git`
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args], {
      cwd: repository,
      stdio: 'pipe',
    })
  git('init', '--quiet', '--initial-branch=main')
  git('add', '--all')
  git('commit', '--quiet', '--message=one')
  git('push', '--quiet', address, 'main')
  const project = await api<{ id: number }>('/api/projects', {
    name: 'boxed',
    repo_url: address,
    domain: 'boxed.localhost',
    server_ids: [1],
    default_recipe: 'docker',
  })
  const path = `/api/projects/${project.id}/environments`
  await api(path, { identifier: 'main', branch: 'main', auto_deploy: false })
  const done = await berth('deploy', '-p', 'boxed', '--wait')
  expect(done.code, done.out).toBe(0)
  expect(await runningContainers(of)).toHaveLength(1)
  const asked = { Image: BUSYBOX_IMAGE, Cmd: ['/bin/sh', '-c', 'exec sleep 3600'] }
  const { text } = await callEngine(of.socket, 'POST', '/containers/create', JSON.stringify(asked))
  neighbour = `/containers/${(JSON.parse(text) as { Id: string }).Id}`
  await callEngine(of.socket, 'POST', `${neighbour}/start`)
}

/** The commands it prints for users. */
async function tryCommands(): Promise<void> {
  expect(await berth('deploy', '--wait')).toMatchObject({ code: 0 })
  expect(await berth('tasks')).toMatchObject({ code: 0 })
  if (process.getuid?.() !== 0 || missing('sshd')) return
  expect(await berth('logs')).toMatchObject({ code: 0 })
  const shell = await berth('ssh', '--', 'pwd')
  expect(shell).toMatchObject({ code: 0, out: expect.stringContaining('/releases/') })
}

/** Runs docs/guide/getting-started.md, command by command, with this installation's address and folder. */
async function followGuide(): Promise<void> {
  const page = readFileSync(join(root, 'docs/guide/getting-started.md'), 'utf8')
  const blocks = [...page.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block)
  expect(blocks.length).toBeGreaterThan(3)
  for (const command of blocks.flatMap((block) => block.trim().split('\n'))) {
    const line = command
      .replaceAll('http://127.0.0.1:7080', `http://127.0.0.1:${readPorts().http}`)
      .replaceAll('.data/', `${data}/`)
    const env = { PATH: process.env.PATH ?? '', HOME: data }
    const child = spawn('sh', ['-c', line], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        out += chunk.toString('utf8')
      })
    }
    const [code] = (await once(child, 'close')) as [number | null]
    expect(code, `${line}\n${out}`).toBe(0)
  }
}

/** The join command of an added server finds its script and its package. */
async function addServer(): Promise<void> {
  const { id } = await api<{ id: number }>('/api/servers', { name: 'two', hostname: '192.0.2.7' })
  const { command } = await api<{ command: string }>(`/api/servers/${id}/join_token`)
  const [url] = /http\S+\/install\.sh/.exec(command) ?? [command]
  const script = await (await fetch(url)).text()
  expect(command).toContain(createHash('sha256').update(script).digest('hex'))
  const [, name, digest] = /package='(\S+)' digest='(\w+)'/.exec(script) ?? []
  const archive = await fetch(new URL(`/install/${name}`, url))
  const bytes = Buffer.from(await archive.arrayBuffer())
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(digest)
}

/** The process itself and its children. */
function isOfStart(pid: number, start: number | undefined): boolean {
  return pid === start || listProcesses().find((p) => p.pid === pid)?.parent === start
}
