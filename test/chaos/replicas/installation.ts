// Three control planes as real processes on one PostgreSQL with a synchronous standby. Every connection between them,
// to the database and from the balancer goes over a network that a fault can cut. A supervisor starts a process again
// that ended by itself, as systemd and Kubernetes do.
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { unguardServer } from '../../../agent/src/resources/firewall.ts'
import { readSettings } from '../../../agent/src/settings.ts'
import { locate } from '../../fixtures/platform/components.ts'
import {
  type PostgresPair,
  pairUrl,
  startPostgresPair,
} from '../../fixtures/platform/postgres-pair.ts'
import { TcpProxy } from '../../fixtures/platform/tcp-proxy.ts'
import {
  Fixture,
  type FixtureOptions,
  removeAccounts,
  stopServices,
  until,
} from '../../fixtures/server/installation.ts'
import { freePort } from '../../fixtures/server/installation-docker.ts'
import { takePortRange } from '../../fixtures/server/packet-rules.ts'
import { AGENT_MAIN, CONTROL_PLANE_MAIN } from '../../fixtures/server/programs.ts'
import { Balancer } from './balancer.ts'

const AGAIN_MS = 500
const START_MS = 120_000
const STOP_MS = 60_000 // longer than a drain may take

interface Ports {
  http: number
  agent: number
  peer: number
}

/** One control plane and its network. */
export class Replica {
  readonly name: string
  readonly net: { people: TcpProxy; agents: TcpProxy; peers: TcpProxy; database: TcpProxy }
  readonly #ports: Ports
  readonly #spawn: (replica: Replica) => ChildProcess
  #child: ChildProcess | undefined
  #isWanted = false
  printed = ''
  /** Times that the process ended by itself. */
  restarts = 0
  onRestart: ((replica: Replica) => void) | undefined

  private constructor(
    name: string,
    ports: Ports,
    net: Replica['net'],
    spawn: (replica: Replica) => ChildProcess,
  ) {
    this.name = name
    this.#ports = ports
    this.net = net
    this.#spawn = spawn
  }

  static async create(
    name: string,
    database: number,
    spawn: (replica: Replica, ports: Ports) => ChildProcess,
  ): Promise<Replica> {
    const ports = { http: await freePort(), agent: await freePort(), peer: await freePort() }
    const net = {
      people: await TcpProxy.open({ port: ports.http }),
      agents: await TcpProxy.open({ port: ports.agent }),
      peers: await TcpProxy.open({ port: ports.peer }),
      database: await TcpProxy.open({ port: database }),
    }
    return new Replica(name, ports, net, (replica) => spawn(replica, ports))
  }

  start(): void {
    this.#isWanted = true
    const child = this.#spawn(this)
    this.#child = child
    child.stdout?.on('data', (bytes) => {
      this.printed = (this.printed + bytes).slice(-10_000)
    })
    child.once('exit', () => {
      if (!this.#isWanted || this.#child !== child) return
      this.restarts += 1
      this.onRestart?.(this)
      setTimeout(() => {
        if (this.#isWanted && this.#child === child) this.start()
      }, AGAIN_MS)
    })
  }

  /** Resolves when it says that it serves. */
  async ready(): Promise<void> {
    await until(
      `${this.name} to be ready`,
      async () =>
        (await fetch(`http://127.0.0.1:${this.#ports.http}/health/ready`)).ok || undefined,
      START_MS,
    )
  }

  send(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** Ends it by this signal, and returns when it is gone. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.#isWanted = false
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill(signal)
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await gone
    clearTimeout(late)
  }

  cut(how: 'blackhole' | 'reset'): void {
    for (const proxy of Object.values(this.net)) proxy.cut(how)
  }

  heal(): void {
    for (const proxy of Object.values(this.net)) proxy.heal()
  }

  async close(): Promise<void> {
    this.send('SIGCONT')
    this.heal()
    await this.end('SIGTERM')
    await Promise.all(Object.values(this.net).map((proxy) => proxy.close()))
  }
}

interface Member {
  id: number
  environment: Record<string, string>
  agent: ChildProcess
  giveBackPorts: () => void
}

export interface ReplicasOptions {
  replicas: number
  agents: number
  build: FixtureOptions
}

export class ReplicasInstallation {
  readonly pair: PostgresPair
  readonly replicas: Replica[] = []
  fixture!: Fixture
  balancer!: Balancer
  readonly #members: Member[] = []

  private constructor(pair: PostgresPair) {
    this.pair = pair
  }

  static async open({ replicas, agents, build }: ReplicasOptions): Promise<ReplicasInstallation> {
    const pair = await startPostgresPair(locate('postgres') ?? '')
    const installation = new ReplicasInstallation(pair)
    try {
      installation.fixture = await Fixture.open({
        ...build,
        controlPlanes: (fixture) => installation.#startFirst(fixture, replicas, build),
      })
      for (const replica of installation.replicas.slice(1)) replica.start()
      await Promise.all(installation.replicas.map((replica) => replica.ready()))
      for (let n = 2; n <= agents; n++) await installation.#addAgent(n, build)
      await installation.allReady()
      return installation
    } catch (error) {
      await installation.close()
      throw error
    }
  }

  get serverIds(): number[] {
    return [this.fixture.serverId, ...this.#members.map(({ id }) => id)]
  }

  /** The first one alone sets the installation up. */
  async #startFirst(fixture: Fixture, count: number, build: FixtureOptions) {
    this.fixture = fixture // also closed if its set-up fails
    const kek = join(fixture.dir, 'kek')
    writeFileSync(kek, `${randomBytes(32).toString('base64')}\n`, { mode: 0o400 })
    const front = { people: await freePort(), agents: await freePort() }
    const url = `http://127.0.0.1:${front.people}`
    for (let n = 1; n <= count; n++) {
      const name = `replica-${n}`
      const replica = await Replica.create(name, this.pair.port, ({ net }, ports) =>
        fixture.spawn(name, [build.controlPlane ?? CONTROL_PLANE_MAIN], {
          BERTH_DATA_DIR: join(fixture.dir, name),
          DATABASE_URL: pairUrl(net.database.port),
          BERTH_KEK_FILE: kek,
          BERTH_PORT: String(ports.http),
          BERTH_AGENT_PORT: String(ports.agent),
          BERTH_AGENT_ENDPOINTS: `127.0.0.1:${front.agents}`,
          BERTH_PEER_HOST: '127.0.0.1',
          BERTH_PEER_PORT: String(ports.peer),
          BERTH_PEER_ADDRESS: `127.0.0.1:${net.peers.port}`,
          BERTH_URL: url,
        }),
      )
      this.replicas.push(replica)
    }
    const backends = this.replicas.map(({ name, net: { people, agents } }) => ({
      name,
      people: people.port,
      agents: agents.port,
    }))
    this.balancer = await Balancer.open(backends, front)
    const [first] = this.replicas
    first?.start()
    await first?.ready().catch((error: Error) => {
      throw new Error(`${error.message}\n${fixture.logOf('replica-1')}`)
    })
    await until('the balancer', () => this.balancer.ready.length > 0 || undefined)
    return { url, agentPort: front.agents, printed: () => first?.printed ?? '' }
  }

  async #addAgent(index: number, build: FixtureOptions): Promise<void> {
    const { fixture } = this
    const range = takePortRange()
    const stateDir = join(fixture.dir, `agent-${index}`)
    mkdirSync(stateDir, { mode: 0o711 })
    chmodSync(stateDir, 0o711)
    const environment = {
      ...fixture.agentEnvironment,
      BERTH_STATE_DIR: stateDir,
      BERTH_ACCOUNT_PREFIX: `b${randomBytes(2).toString('hex')}-e`,
      BERTH_PORT_RANGE: `${range.from}-${range.to}`,
    }
    const id = await fixture.join(`server-${index}`, environment)
    const program = build.agent ?? AGENT_MAIN
    const agent = fixture.spawn(`agent-${index}`, [program, 'run'], environment)
    this.#members.push({ id, environment, agent, giveBackPorts: range.giveBack })
  }

  /** Resolves when the balancer uses all control planes and all servers are connected. */
  async allReady(ms = START_MS): Promise<void> {
    await until(
      'all control planes',
      () => this.balancer.ready.length === this.replicas.length || undefined,
      ms,
    )
    await until(
      'all servers to be online',
      async () => {
        const servers = await this.fixture.get<{ status: string }[]>('/api/servers')
        return servers.every(({ status }) => status === 'online') || undefined
      },
      ms,
    )
  }

  /** Where the present primary is, without a network between. */
  get databaseUrl(): string {
    return pairUrl(this.pair.port)
  }

  logs(): string {
    const names = [...this.replicas.map(({ name }) => name), 'agent']
    return names.map((name) => `--- ${name}\n${this.fixture.logOf(name)}`).join('\n')
  }

  async close(): Promise<void> {
    for (const { agent } of this.#members) {
      if (agent.exitCode !== null || agent.signalCode !== null) continue
      const gone = new Promise((resolve) => agent.once('exit', resolve))
      agent.kill('SIGTERM')
      const late = setTimeout(() => agent.kill('SIGKILL'), 10_000)
      await gone
      clearTimeout(late)
    }
    for (const { environment } of this.#members) {
      stopServices(environment)
      await unguardServer(readSettings(environment))
    }
    await Promise.all(this.replicas.map((replica) => replica.close()))
    await this.balancer?.close()
    await this.fixture?.close()
    for (const { environment, giveBackPorts } of this.#members) {
      giveBackPorts()
      removeAccounts(readSettings(environment).accountPrefix.replace(/e$/, ''))
    }
    await this.pair.stop()
  }
}
