// A control plane in this process for tests: temporary folder, free ports, either database, a clock that can be moved.
// Speaks to it over real HTTP.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment, ProjectDetail, Server, SetupResponse } from '@berth/shared/rest'
import { type Logger, pino } from 'pino'
import { passDeadlines } from '../control-plane/src/app/deadlines.ts'
import { type Config, readConfig } from '../control-plane/src/config.ts'
import { documentOf } from '../control-plane/src/rest/openapi.ts'
import { type ControlPlane, startControlPlane } from '../control-plane/src/server.ts'
import { type Backup, restoreBackup, takeBackup } from './backups.ts'
import { Contract } from './contract/contract.ts'
import type { EngineName } from './engines.ts'
import { copyPostgres, copySqlite } from './templates.ts'

export interface Answer<T = Record<string, unknown>> {
  status: number
  headers: Headers
  body: T
  text: string
}

/** What comes from outside: more of the environment, other settings than the usual ones, where the log goes. */
export interface Outside {
  env?: Record<string, string>
  config?: Partial<Config>
  logTo?: (line: string) => void
  log?: Logger
  /** Another control plane took the database. */
  onLost?: (message: string) => void
  /** Of the first administrator, who signs in with it. */
  password?: string
}

let contract: Contract | undefined

export class TestControlPlane {
  dir: string
  #databaseUrl: string | undefined
  readonly #left: string[] = []
  running: ControlPlane
  token = ''
  #ports: { http: number; agent: number }

  private constructor(dir: string, databaseUrl: string | undefined, running: ControlPlane) {
    this.dir = dir
    this.#databaseUrl = databaseUrl
    this.running = running
    this.#ports = { http: Number(new URL(running.baseUrl).port), agent: running.door.port }
  }

  static async start(engine: EngineName, outside: Outside = {}): Promise<TestControlPlane> {
    const dir = mkdtempSync(join(tmpdir(), 'berth-cp-'))
    const url = engine === 'postgres' ? await copyPostgres() : undefined
    if (engine === 'sqlite') copySqlite(dir)
    const clock = { offsetMs: 0 }
    const running = await open(dir, url, { http: 0, agent: 0 }, clock, outside)
    const made = new TestControlPlane(dir, url, running)
    made.outside = outside
    made.clock = clock
    return made
  }

  clock = { offsetMs: 0 }
  /** In force from the next start on. */
  outside: Outside = {}

  /** Every answer is held to the document the control plane gives out, which is the same for all. */
  get contract(): Contract {
    contract ??= new Contract(documentOf(this.running.http))
    return contract
  }

  get url(): string {
    return this.running.baseUrl
  }

  /** Moves the clock and lets deadlines pass. */
  async advance(ms: number): Promise<void> {
    this.clock.offsetMs += ms
    await passDeadlines(this.running.ctx)
  }

  /** Stops and starts again on the same data and ports. */
  async restart(): Promise<void> {
    await this.running.close()
    await this.reopen()
  }

  /** After a start that failed. */
  async reopen(): Promise<void> {
    this.running = await open(this.dir, this.#databaseUrl, this.#ports, this.clock, this.outside)
  }

  /** As an operator does, while it runs. */
  async backup(): Promise<Backup> {
    const backup = await takeBackup(this.dir, this.#databaseUrl)
    this.#left.push(backup.folder)
    return backup
  }

  /** The machine is lost; another one goes on from the backup, under the same addresses. */
  async restore(backup: Backup): Promise<void> {
    await this.running.close()
    this.#left.push(this.dir)
    this.dir = mkdtempSync(join(tmpdir(), 'berth-cp-'))
    this.#databaseUrl = await restoreBackup(backup, this.dir)
    await this.reopen()
  }

  async close(): Promise<void> {
    await this.running.close()
    for (const dir of [this.dir, ...this.#left]) rmSync(dir, { recursive: true, force: true })
  }

  async call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    url = this.url,
  ): Promise<Answer<T>> {
    const raw = typeof body === 'string'
    const sent = new Headers({
      ...(this.token ? { authorization: `Bearer ${this.token}` } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    })
    if (sent.get('authorization') === '') sent.delete('authorization') // nobody's
    const answer = await fetch(url + path, {
      method,
      headers: sent,
      ...(body === undefined ? {} : { body: raw ? body : JSON.stringify(body) }),
    })
    const text = await answer.text()
    const { status, headers: seen } = answer
    this.contract.hold(method, path, { status, headers: seen, text })
    const json = answer.headers.get('content-type')?.includes('json') && text !== ''
    const parsed = (json && !text.includes('}\n{') ? JSON.parse(text) : {}) as T
    return { status: answer.status, headers: answer.headers, body: parsed, text }
  }

  async make<T>(path: string, body?: unknown): Promise<T> {
    const answer = await this.call<T>('POST', path, body)
    if (answer.status >= 300) throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }

  async setUp(): Promise<SetupResponse> {
    const made = await this.make<SetupResponse>('/api/setup', {
      token: this.running.setupToken,
      name: 'Ada',
      email: 'ada@example.com',
      organization: 'Acme',
      ...(this.outside.password ? { password: this.outside.password } : {}),
    })
    this.token = made.token
    return made
  }

  server(name = 'one'): Promise<Server> {
    return this.make('/api/servers', { name, hostname: '127.0.0.1' })
  }

  async joinToken(serverId: number, rejoin = false): Promise<string> {
    const path = `/api/servers/${serverId}/join_token`
    return (await this.make<{ token: string }>(path, { rejoin })).token
  }

  project(name: string, serverId: number, over: object = {}): Promise<ProjectDetail> {
    return this.make('/api/projects', {
      name,
      repo_url: `https://git.example.com/${name}.git`,
      domain: `${name}.example.com`,
      server_ids: [serverId],
      default_recipe: 'manual',
      ...over,
    })
  }

  environment(projectId: number, identifier = 'main', over: object = {}): Promise<Environment> {
    const body = { identifier, branch: 'main', ...over }
    return this.make(`/api/projects/${projectId}/environments`, body)
  }
}

function open(
  dir: string,
  databaseUrl: string | undefined,
  ports: { http: number; agent: number },
  clock: { offsetMs: number },
  outside: Outside,
): Promise<ControlPlane> {
  const config = {
    ...readConfig({
      BERTH_DATA_DIR: dir,
      BERTH_DEV: '1',
      BERTH_AGENT_PACKAGES: join(dir, 'packages'), // not what happens to lie in this checkout
      ...outside.env,
    }),
    rateLimitFactor: 10_000, // tests poll and flood; those of the limits themselves set 1
    webhookAnswerMs: 30_000, // what was decided is in the answer, however busy the machine
    databaseUrl,
    port: ports.http,
    agentPort: ports.agent,
    ...outside.config,
  }
  const log = outside.log ?? silentLog(outside)
  const { onLost } = outside
  return startControlPlane({
    config,
    clock: { now: () => Date.now() + clock.offsetMs },
    log,
    ...(onLost ? { onLost } : {}),
  })
}

const silentLog = ({ logTo }: Outside): Logger =>
  logTo
    ? pino({ level: 'trace' }, { write: logTo })
    : pino({ level: process.env.BERTH_LOG ?? 'silent' }, pino.destination(2))
