// An installation of three servers whose control plane is lost and restored from a backup: real processes, a real proxy
// on each server, constant visitors, and an oracle outside Berth that counts what every task began.
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Environment, Server, Task } from '@berth/shared/api'
import { unguardServer } from '../../agent/src/resources/firewall.ts'
import { readSettings } from '../../agent/src/settings.ts'
import {
  type Backup,
  restoreBackup,
  type Sums,
  sumTables,
  takeBackup,
} from '../fixtures/platform/backups.ts'
import { installationEnv } from '../fixtures/platform/server-command.ts'
import {
  ApiError,
  Fixture,
  type FixtureOptions,
  removeAccounts,
  stopServices,
  until,
} from '../fixtures/server/installation.ts'
import { dockerEnvironment, freeProxyPorts } from '../fixtures/server/installation-docker.ts'
import { takePortRange } from '../fixtures/server/packet-rules.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'
import { makeProxyAccount } from '../fixtures/server/proxy-account.ts'

const SERVER = `import { createServer } from 'node:http'
const server = createServer((request, response) => response.end('ok'))
server.listen(process.env.PORT)
process.on('SIGTERM', () => { server.close(() => process.exit(0)); server.closeIdleConnections() })
`
const count = `    - name: Count the start
      run: printf '%s %s\\n' "$SERVICE_ENV_IDENTIFIER" "\${BERTH_RELEASE_DIR##*/}" >> "$ORACLE/starts"
    - name: Take a while
      run: sleep 1
`
const WEB = (node: string): string => `manual:
  deploy:
${count}  services:
    web:
      run: exec ${node} server.mjs
      port: auto
      health: /
      stop_timeout: 5s
`
const JOB = `manual:
  deploy:
${count}`

const ASK_EVERY_MS = 50
const DEPLOYED_MS = 120_000
const ASK_MS = 30_000
const START_MS = 300_000 // generous for a busy machine: the measurement begins when it listens

/** A server that is not the fixture's own. */
interface Member {
  id: number
  proxyPort: number
  agent: ChildProcess | undefined
  environment: Record<string, string>
  giveBackPorts: () => void
}

async function addServer(fixture: Fixture, index: number, program: string): Promise<Member> {
  const ports = await freeProxyPorts()
  const range = takePortRange()
  const stateDir = join(fixture.dir, `agent-${index}`)
  mkdirSync(stateDir, { mode: 0o711 })
  chmodSync(stateDir, 0o711)
  const environment = {
    BERTH_DEV: '1',
    BERTH_STATE_DIR: stateDir,
    BERTH_ACCOUNT_PREFIX: `b${randomBytes(2).toString('hex')}-e`,
    BERTH_PORT_RANGE: `${range.from}-${range.to}`,
    ...dockerEnvironment(ports, undefined),
  }
  await makeProxyAccount(readSettings(environment))
  const id = await fixture.join(`server-${index}`, environment)
  const agent = fixture.spawn(`agent-${index}`, [program, 'run'], environment)
  return { id, proxyPort: ports.http, agent, environment, giveBackPorts: range.giveBack }
}

/** One environment, its address, and its requested deployments. */
interface Place {
  environment: Environment
  proxyPort: number
  isServed: boolean
}

export interface Visits {
  ok: number
  failed: number
  failures: string[]
}

export class RestoreInstallation {
  readonly fixture: Fixture
  readonly visits: Visits = { ok: 0, failed: 0, failures: [] }
  readonly #oracle: string
  readonly #members: Member[]
  readonly #paths: Place[] = []
  readonly #folders: string[] = []
  #projects = { web: 0, job: 0 }
  #loops: Promise<void>[] = []
  #visitors: Promise<void>[] = []
  #isBusy = false
  #isVisited = true
  #extra = 0

  private constructor(fixture: Fixture, members: Member[]) {
    this.fixture = fixture
    this.#members = members
    this.#oracle = join(fixture.dir, 'oracle')
    mkdirSync(this.#oracle)
    chmodSync(this.#oracle, 0o1777)
    // every environment has its own account, and all of them append here
    writeFileSync(join(this.#oracle, 'starts'), '')
    chmodSync(join(this.#oracle, 'starts'), 0o666)
  }

  static async open(options: FixtureOptions, servers: number): Promise<RestoreInstallation> {
    const fixture = await Fixture.open({ ...options, proxy: true, startMs: START_MS })
    const members: Member[] = [
      {
        id: fixture.serverId,
        proxyPort: fixture.proxyPort,
        agent: undefined, // the fixture ends it
        environment: fixture.agentEnvironment,
        giveBackPorts: () => {},
      },
    ]
    const installation = new RestoreInstallation(fixture, members)
    try {
      for (let n = 2; n <= servers; n++) {
        members.push(await addServer(fixture, n, options.agent ?? AGENT_MAIN))
      }
      await installation.online(60_000)
      await installation.#setUp()
      return installation
    } catch (error) {
      await installation.close()
      throw error
    }
  }

  async #setUp(): Promise<void> {
    const { fixture } = this
    const web = { '.service.yml': WEB(fixture.node()), 'server.mjs': SERVER }
    this.#projects = {
      web: await this.#project('web', fixture.repository('web', web)),
      job: await this.#project('job', fixture.repository('job', { '.service.yml': JOB })),
    }
    for (const [index, { id }] of this.#members.entries()) {
      await this.add('web', `web-${index + 1}`, id)
      await this.add('job', `job-${index + 1}`, id)
    }
    await Promise.all(this.#paths.map(({ environment }) => this.#deployed(environment.id)))
    for (const place of this.#paths) if (place.isServed) this.#visitors.push(this.#visit(place))
  }

  async #project(name: string, repoUrl: string): Promise<number> {
    const { id } = await this.fixture.post<{ id: number }>('/api/projects', {
      name,
      repo_url: repoUrl,
      domain: `${name}.example.com`,
      server_ids: this.#members.map((member) => member.id),
      default_recipe: 'manual',
    })
    return id
  }

  /** Adds an environment on a server; from now on it is kept busy and judged. */
  async add(kind: 'web' | 'job', identifier: string, serverId: number): Promise<Environment> {
    const member = this.#members.find(({ id }) => id === serverId)
    const environment = await this.fixture.post<Environment>(
      `/api/projects/${this.#projects[kind]}/environments`,
      {
        identifier,
        branch: 'main',
        server_id: serverId,
        auto_deploy: false,
        variables: { ORACLE: this.#oracle },
      },
    )
    const isServed = kind === 'web'
    this.#paths.push({ environment, proxyPort: member?.proxyPort ?? 0, isServed })
    return environment
  }

  /** Throws immediately if the control plane forgot the task. */
  async #deployed(environmentId: number): Promise<Task> {
    const { id } = await this.fixture.deploy(environmentId)
    const end = await until(
      `task ${id} to finish`,
      async () => {
        const task = await this.fixture.get<Task>(`/api/tasks/${id}`).catch((error: Error) => {
          if (error instanceof ApiError && error.status === 404) return error
          throw error
        })
        if (task instanceof Error) return task
        return task.finished_at !== null && task.log_complete ? task : undefined
      },
      DEPLOYED_MS,
    )
    if (end instanceof Error) throw end
    return end
  }

  /** Requests one page repeatedly, each time over a new connection; records failures. */
  async #visit({ environment, proxyPort }: Place): Promise<void> {
    while (this.#isVisited) {
      const why = await ask(environment.domain, proxyPort)
      if (why === undefined) this.visits.ok += 1
      else {
        this.visits.failed += 1
        this.visits.failures.push(`${new Date().toISOString()} ${environment.domain}: ${why}`)
      }
      await delay(ASK_EVERY_MS)
    }
  }

  /** Deploys every environment repeatedly until the control plane is lost. */
  busy(): void {
    this.#isBusy = true
    this.#loops = this.#paths.map(({ environment }) => this.#keepBusy(environment.id))
  }

  async #keepBusy(environmentId: number): Promise<void> {
    while (this.#isBusy) {
      try {
        await this.#deployed(environmentId)
      } catch (error) {
        // a dead control plane is expected, and so is a deployment that it forgot
        if (error instanceof ApiError && ![404, 409].includes(error.status) && error.status < 500)
          throw error
        await delay(100)
      }
    }
  }

  /** Resolves when a deployment is running: the moment for a backup, and for a kill. */
  async running(): Promise<void> {
    await until('a running deployment', async () => {
      const list = await Promise.all(
        Object.values(this.#projects).map((id) =>
          this.fixture.get<Environment[]>(`/api/projects/${id}/environments`),
        ),
      )
      return list.flat().some((e) => e.locked_by?.status === 'running') || undefined
    })
  }

  /** How many tasks have begun so far, by the oracle. */
  get begun(): number {
    return this.#starts().length
  }

  #starts(): string[] {
    return readFileSync(join(this.#oracle, 'starts'), 'utf8').split('\n').filter(Boolean)
  }

  /** The control plane stands still meanwhile, so that the tables are those of the same moment. */
  async backup(): Promise<{ backup: Backup; sums: Sums }> {
    const { dataDir, databaseUrl } = this.fixture.place
    const { controlPlane } = this.fixture
    controlPlane?.kill('SIGSTOP')
    try {
      const sums = await sumTables(installationEnv(dataDir, databaseUrl))
      const backup = await takeBackup(dataDir, databaseUrl)
      this.#folders.push(backup.folder)
      return { backup, sums }
    } finally {
      controlPlane?.kill('SIGCONT')
    }
  }

  /** Adds an environment that the backup will not know, with a running service. */
  async addUnknown(): Promise<void> {
    this.#extra += 1
    const server = this.#members[this.#extra % this.#members.length]
    if (!server) throw new Error('no server')
    const made = await this.add('job', `late-${this.#extra}`, server.id)
    this.#paths.pop() // the restored control plane does not know it
    await this.#deployed(made.id)
    await this.fixture.deploy(made.id)
  }

  /** kill -9; then another control plane from the backup, elsewhere, under the same addresses. Returns its tables. */
  async lose(backup: Backup, n: number): Promise<Sums> {
    const dataDir = join(this.fixture.dir, `control-plane-${n}`)
    const databaseUrl = await restoreBackup(backup, dataDir)
    const restored = await sumTables(installationEnv(dataDir, databaseUrl))
    const child = this.fixture.controlPlane
    const gone = new Promise((resolve) => child?.once('exit', resolve))
    child?.kill('SIGKILL')
    await gone
    this.#isBusy = false
    this.fixture.place = { dataDir, databaseUrl }
    await this.fixture.startControlPlane()
    return restored
  }

  /** Resolves when everything begun before the loss has ended, or is known to be forgotten. */
  async calm(): Promise<void> {
    await Promise.allSettled(this.#loops)
  }

  /** Waits until all servers are online and stay so for a moment; returns the time it took. */
  async online(ms: number): Promise<number> {
    const began = performance.now()
    let since = began
    await until(
      'every server to be online',
      async () => {
        const servers = await this.fixture.get<Server[]>('/api/servers')
        const isThere = servers.every((server) => server.status === 'online')
        if (!isThere) since = performance.now()
        return isThere && performance.now() - since > 2_000 ? true : undefined
      },
      ms + 2_000,
    )
    return since - began
  }

  /** The servers that are not back, with the last lines of their agents. */
  async missing(): Promise<string[]> {
    const servers = await this.fixture.get<Server[]>('/api/servers')
    return servers
      .filter(({ status }) => status !== 'online')
      .map(({ id, name, status }) => {
        const index = this.#members.findIndex((member) => member.id === id)
        return `${name} is ${status}:\n${this.fixture.logOf(index === 0 ? 'agent' : `agent-${index + 1}`)}`
      })
  }

  /** The number of tasks without progress in time. */
  async stuck(ms: number): Promise<number> {
    const deadline = performance.now() + ms
    for (;;) {
      const tasks = await Promise.all(
        this.#paths.map(({ environment }) =>
          this.fixture.get<Task[]>(`/api/environments/${environment.id}/tasks?per_page=100`),
        ),
      )
      const open = tasks.flat().filter((task) => task.finished_at === null).length
      if (open === 0 || performance.now() > deadline) return open
      await delay(200)
    }
  }

  /** Deploys each environment once more; returns the failures with their reasons. */
  async deployAll(): Promise<string[]> {
    const ends = await Promise.all(
      this.#paths.map(async ({ environment: { id, identifier } }) => {
        const task = await this.#deployed(id).catch((error: Error) => error)
        if (task instanceof Error) return `${identifier}: ${task.message}`
        return task.status === 'succeeded' ? '' : `${identifier}: ${task.failure?.message}`
      }),
    )
    return ends.filter(Boolean)
  }

  /** Tasks whose commands began more than once, by number and environment. */
  twice(): string[] {
    const seen = new Set<string>()
    return this.#starts().filter((line) => seen.size === seen.add(line).size)
  }

  async close(): Promise<void> {
    this.#isBusy = false
    this.#isVisited = false
    await Promise.allSettled([...this.#loops, ...this.#visitors])
    const others = this.#members.slice(1)
    for (const { agent } of others) {
      if (!agent || agent.exitCode !== null || agent.signalCode !== null) continue
      const gone = new Promise((resolve) => agent.once('exit', resolve))
      agent.kill('SIGTERM')
      const late = setTimeout(() => agent.kill('SIGKILL'), 10_000)
      await gone
      clearTimeout(late)
    }
    for (const { environment } of others) {
      stopServices(environment)
      await unguardServer(readSettings(environment))
    }
    await this.fixture.close()
    for (const { environment, giveBackPorts } of others) {
      giveBackPorts()
      removeAccounts(readSettings(environment).accountPrefix.replace(/e$/, ''))
    }
    for (const folder of this.#folders) rmSync(folder, { recursive: true, force: true })
  }
}

/** Undefined if the service answered completely. */
function ask(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, headers: { host }, agent: false, timeout: ASK_MS }
    const asked = request(options, (answer) => {
      let text = ''
      answer.on('data', (piece) => {
        text += String(piece)
      })
      answer.on('close', () => {
        const isGood = answer.statusCode === 200 && text === 'ok' && answer.complete
        resolve(isGood ? undefined : `${answer.statusCode} ${text.slice(0, 80)}`)
      })
    })
    asked.on('timeout', () => asked.destroy(new Error('no answer in time')))
    asked.on('error', (error) => resolve(error.message))
    asked.end()
  })
}
