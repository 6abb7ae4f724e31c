// A whole installation of real processes on this machine: control plane, agent daemon, repository host. Used by the
// chaos and bench harnesses and by tests in test/real. Everything lives in one temporary folder; close() ends every
// process it started, removes the accounts it made and the folder.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment, ProjectDetail, Server, Task } from '@berth/shared/rest'
import { unguardServer } from '../agent/src/housekeeping/firewall.ts'
import { readSettings } from '../agent/src/settings.ts'
import { type GitServer, startGitServer } from '../scripts/git-server.ts'
import {
  dockerEnvironment,
  endProcessesOf,
  freePort,
  freeProxyPorts,
  type LabEngine,
  listOwned,
  type OwnedObjects,
  removeOwned,
} from './lab-docker.ts'
import { takePortRange } from './packet-rules.ts'
import { makeProxyAccount, removeProxyAccount } from './proxy-account.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const WAIT_MS = 120_000 // a bound, not a measure
const POLL_MS = 20
const REMOVAL_TRIES = 50

export class ApiError extends Error {
  readonly status: number
  readonly body: Record<string, unknown>
  constructor(status: number, body: Record<string, unknown>) {
    super(`${status} ${String(body.code)}: ${String(body.detail)}`)
    this.status = status
    this.body = body
  }
}

/** Waits until `look` gives something; bounded, and says what it waited for. */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  ms = WAIT_MS,
): Promise<T> {
  const deadline = performance.now() + ms
  let last: unknown
  for (;;) {
    try {
      const found = await look()
      if (found !== undefined) return found
    } catch (error) {
      last = error
    }
    if (performance.now() > deadline) {
      throw new Error(`gave up waiting for ${what}`, { cause: last })
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

export interface LabOptions {
  /** Programs that replace the real ones: how a harness shows that it catches a broken build. */
  controlPlane?: string
  agent?: string
  /** Of the agent's Node. */
  agentFlags?: string[]
  env?: Record<string, string>
  /** The engine of the server; absent: it has none. */
  docker?: LabEngine
  /** Its agent routes, also without an engine. */
  proxy?: boolean
  /** For the agent alone; over the lab's own. */
  agentEnv?: Record<string, string>
  /** Where its folder is made; a small file system, say. */
  parent?: string
  /** How long the control plane may take to start. */
  startMs?: number
  /** PostgreSQL instead of SQLite. */
  databaseUrl?: string
}

export class Lab {
  readonly dir: string
  readonly accountPrefix = `b${randomBytes(2).toString('hex')}-e`
  readonly #options: LabOptions
  readonly #range = takePortRange()
  #ports = { http: 0, agent: 0 }
  #proxy = { http: 0, dns: 0 }
  #git: GitServer | undefined
  controlPlane: ChildProcess | undefined
  agent: ChildProcess | undefined
  token = ''
  serverId = 0
  /** Where the control plane keeps its things, from its next start on. */
  place: { dataDir: string; databaseUrl: string | undefined }
  #printed = ''

  private constructor(options: LabOptions) {
    this.#options = options
    this.dir = mkdtempSync(join(options.parent ?? tmpdir(), 'berth-lab-'))
    this.place = { dataDir: join(this.dir, 'control-plane'), databaseUrl: options.databaseUrl }
    chmodSync(this.dir, 0o711) // accounts of environments must reach their folders
  }

  static async open(options: LabOptions = {}): Promise<Lab> {
    const lab = new Lab(options)
    lab.#ports = { http: await freePort(), agent: await freePort() }
    lab.#proxy = await freeProxyPorts()
    mkdirSync(join(lab.dir, 'repositories'))
    mkdirSync(join(lab.dir, 'agent'))
    chmodSync(join(lab.dir, 'agent'), 0o711)
    lab.#git = await startGitServer(join(lab.dir, 'repositories'))
    await lab.startControlPlane()
    if (lab.#routes) await makeProxyAccount(readSettings(lab.agentEnvironment))
    await lab.#setUp()
    await lab.startAgent()
    await lab.online()
    return lab
  }

  get url(): string {
    return `http://127.0.0.1:${this.#ports.http}`
  }

  /** Where the agents' gateway listens on 127.0.0.1. */
  get agentPort(): number {
    return this.#ports.agent
  }

  /** Where the server's proxy listens on 127.0.0.1. */
  get proxyPort(): number {
    return this.#proxy.http
  }

  get stateDir(): string {
    return join(this.dir, 'agent')
  }

  /** A program of this checkout; what it logs is in `<name>.log` of the folder. */
  spawn(name: string, argv: string[], env: Record<string, string>): ChildProcess {
    const log = openSync(join(this.dir, `${name}.log`), 'a')
    return spawn(process.execPath, argv, {
      cwd: root,
      env: {
        ...process.env,
        BERTH_DEV: '1',
        BERTH_LOG: 'warn',
        BERTH_RATE_LIMIT_FACTOR: '10000', // harnesses poll
        ...this.#options.env,
        ...env,
      },
      stdio: ['ignore', 'pipe', log],
    })
  }

  async startControlPlane(): Promise<void> {
    const program = this.#options.controlPlane ?? 'control-plane/src/main.ts'
    const { dataDir, databaseUrl } = this.place
    const child = this.spawn('control-plane', [program], {
      BERTH_DATA_DIR: dataDir,
      ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
      BERTH_PORT: String(this.#ports.http),
      BERTH_AGENT_PORT: String(this.#ports.agent),
      BERTH_URL: this.url,
    })
    this.controlPlane = child
    child.stdout?.on('data', (d) => {
      this.#printed = (this.#printed + d).slice(-10_000)
    })
    const answers = async (): Promise<true | undefined> => {
      if (child.exitCode !== null) throw new Error(this.logOf('control-plane'))
      return (await fetch(`${this.url}/api/health`)).ok || undefined
    }
    await until('the control plane', answers, this.#options.startMs)
  }

  get #routes(): boolean {
    return this.#options.docker !== undefined || this.#options.proxy === true
  }

  get agentEnvironment(): Record<string, string> {
    return {
      BERTH_DEV: '1',
      BERTH_STATE_DIR: this.stateDir,
      BERTH_ACCOUNT_PREFIX: this.accountPrefix,
      // several labs and other tests' servers live at once: each takes ports of its own
      BERTH_PORT_RANGE: `${this.#range.from}-${this.#range.to}`,
      // nothing is routed unless a test asks for it, with ports of its own
      ...(this.#routes ? {} : { BERTH_PROXY: 'off' }),
      ...dockerEnvironment(this.#proxy, this.#options.docker),
      ...this.#options.agentEnv,
    }
  }

  async startAgent(): Promise<void> {
    const { agent: program = 'agent/src/main.ts', agentFlags: flags = [] } = this.#options
    this.agent = this.spawn('agent', [...flags, program, 'run'], this.agentEnvironment)
  }

  logOf(name: string): string {
    const file = join(this.dir, `${name}.log`)
    return existsSync(file) ? readFileSync(file, 'utf8').slice(-4_000) : ''
  }

  async online(): Promise<void> {
    await until('the agent to be online', async () => {
      const server = await this.get<Server>(`/api/servers/${this.serverId}`)
      return server.status === 'online' || undefined
    })
  }

  /** Makes a server of this name and lets an agent with these settings join for it. */
  async join(name: string, agentEnvironment: Record<string, string>): Promise<number> {
    const server = await this.post<Server>('/api/servers', { name, hostname: '127.0.0.1' })
    const { token } = await this.post<{ token: string }>(`/api/servers/${server.id}/join_token`)
    execFileSync(process.execPath, ['agent/src/main.ts', 'join', this.url, token], {
      cwd: root,
      env: { ...process.env, ...agentEnvironment },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    return server.id
  }

  async #setUp(): Promise<void> {
    const token = await until('a set-up token', () => /berth_setup_\w+/.exec(this.#printed)?.[0])
    const person = { name: 'Ada', email: 'ada@example.com', organization: 'Acme' }
    const made = await this.post<{ token: string }>('/api/setup', { token, ...person })
    this.token = made.token
    this.serverId = await this.join('one', this.agentEnvironment)
  }

  async call(method: string, path: string, body?: unknown): Promise<Response> {
    return fetch(this.url + path, {
      method,
      headers: {
        ...(this.token ? { authorization: `Bearer ${this.token}` } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  async #json<T>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await this.call(method, path, body)
    const parsed = (await answer.json()) as Record<string, unknown>
    if (!answer.ok) throw new ApiError(answer.status, parsed)
    return parsed as T
  }

  get<T>(path: string): Promise<T> {
    return this.#json<T>('GET', path)
  }

  post<T>(path: string, body?: unknown): Promise<T> {
    return this.#json<T>('POST', path, body)
  }

  /** Writes a repository from files and gives its address; again: a new commit. */
  repository(name: string, files: Record<string, string>): string {
    const target = join(this.dir, 'repositories', name)
    mkdirSync(target, { recursive: true })
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args], {
        cwd: target,
        stdio: 'pipe',
      })
    if (!existsSync(join(target, '.git'))) git('init', '--quiet', '--initial-branch=main')
    for (const [file, text] of Object.entries(files)) writeFileSync(join(target, file), text)
    git('add', '--all')
    git('commit', '--quiet', '--allow-empty', '--message=Change')
    return `${this.#git?.url}/${name}/.git`
  }

  /** A Node that every account can execute. */
  node(): string {
    const file = join(this.dir, 'node')
    if (existsSync(file)) return file
    try {
      linkSync(process.execPath, file)
    } catch {
      copyFileSync(process.execPath, file)
    }
    return file
  }

  exampleRepository(name: string): string {
    const target = join(this.dir, 'repositories', name)
    cpSync(join(root, 'examples', name), target, { recursive: true })
    return this.repository(name, {})
  }

  project(name: string, repoUrl: string, recipe = 'manual'): Promise<ProjectDetail> {
    return this.post('/api/projects', {
      name,
      repo_url: repoUrl,
      domain: `${name}.example.com`,
      server_ids: [this.serverId],
      default_recipe: recipe,
    })
  }

  environment(
    projectId: number,
    identifier: string,
    variables: Record<string, string> = {},
  ): Promise<Environment> {
    const body = { identifier, branch: 'main', variables }
    return this.post(`/api/projects/${projectId}/environments`, body)
  }

  deploy(environmentId: number, body?: unknown): Promise<Task> {
    return this.post(`/api/environments/${environmentId}/tasks`, body)
  }

  finished(taskId: number, ms = WAIT_MS): Promise<Task> {
    return until(
      `task ${taskId} to finish`,
      async () => {
        const task = await this.get<Task>(`/api/tasks/${taskId}`)
        return task.finished_at !== null && task.log_complete ? task : undefined
      },
      ms,
    )
  }

  async log(taskId: number, query = ''): Promise<Buffer> {
    const answer = await this.call('GET', `/api/tasks/${taskId}/log${query}`)
    if (!answer.ok) throw new Error(`log of task ${taskId}: ${answer.status}`)
    return Buffer.from(await answer.arrayBuffer())
  }

  /** As a browser does, which finds every host of the lab on this machine. */
  visit(url: string | null, credentials = ''): Promise<{ status: number; text: string }> {
    const { host, port, pathname } = new URL(url ?? '')
    const given = `Basic ${Buffer.from(credentials).toString('base64')}`
    const headers = { host, ...(credentials ? { authorization: given } : {}) }
    const options = { host: '127.0.0.1', port, path: pathname, headers, timeout: WAIT_MS }
    return new Promise((resolve, reject) => {
      const asked = request({ ...options, agent: false }, (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (piece: string) => {
          text += piece
        })
        answer.on('error', reject)
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
      })
      asked.on('timeout', () => asked.destroy(new Error(`${url} does not answer`)))
      asked.on('error', reject)
      asked.end()
    })
  }

  /** What the agent has on its engine. */
  owned(): Promise<OwnedObjects> {
    const engine = this.#options.docker
    if (!engine) throw new Error('this lab has no engine')
    return listOwned(engine, this.accountPrefix)
  }

  async close(): Promise<void> {
    for (const child of [this.agent, this.controlPlane]) {
      if (!child || child.exitCode !== null || child.signalCode !== null) continue
      const gone = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGCONT')
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), 10_000)
      await gone
      clearTimeout(timer)
    }
    await this.#git?.close()
    stopServices(this.agentEnvironment)
    await endProcessesOf(this.dir)
    const engine = this.#options.docker
    if (engine) await removeOwned(engine, this.accountPrefix).catch(() => undefined) // it may be gone
    await unguardServer(readSettings(this.agentEnvironment))
    this.#range.giveBack()
    removeAccounts(this.accountPrefix)
    removeAccounts(this.accountPrefix.replace(/e$/, 'git'))
    removeProxyAccount(this) // also one that an agent of the test made
    rmSync(this.dir, { recursive: true, force: true })
  }
}

/** What is left is killed with its account. */
export function stopServices(agentEnvironment: Record<string, string>): void {
  spawnSync(process.execPath, ['agent/src/main.ts', 'services', 'stop'], {
    cwd: root,
    env: { ...process.env, ...agentEnvironment },
    stdio: 'pipe',
  })
}

/** Ends what the accounts of a lab still run, then removes them. */
export function removeAccounts(prefix: string): void {
  if (process.getuid?.() !== 0) return
  for (const line of readFileSync('/etc/passwd', 'utf8').split('\n')) {
    const [name = ''] = line.split(':')
    if (!name.startsWith(prefix)) continue
    for (let tries = 0; tries < REMOVAL_TRIES; tries++) {
      // others remove accounts at the same time, and only one at a time can
      spawnSync('pkill', ['-KILL', '-u', name], { stdio: 'ignore' })
      spawnSync('userdel', [name], { stdio: 'ignore' })
      if (spawnSync('id', ['-u', name], { stdio: 'ignore' }).status !== 0) break
    }
  }
}
