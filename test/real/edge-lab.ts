// A server's edge of its own for one test file: real edge process, real Caddy, free ports, folders that vanish. With
// small applications that say who they are, and clients that tell every kind of failure apart.
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import {
  type Agent,
  createServer,
  type IncomingHttpHeaders,
  type RequestListener,
  request,
  type Server,
} from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureProxy, keepProxyUp, stopProxy } from '../../agent/src/exec/proxy/care.ts'
import { readProxyProcess } from '../../agent/src/exec/proxy/care-files.ts'
import { type EdgeClient, openEdge } from '../../agent/src/exec/proxy/client.ts'
import { edgePlaces } from '../../agent/src/exec/proxy/places.ts'
import type { EdgeRoute, EdgeTarget } from '../../agent/src/exec/proxy/protocol.ts'
import { silentLog } from '../../agent/src/log.ts'
import { type AgentSettings, readSettings } from '../../agent/src/settings.ts'
import { dockerEngine } from '../components.ts'
import { freeDatagramPort, freePort } from '../lab-docker.ts'
import { makeProxyAccount, removeProxyAccount } from '../proxy-account.ts'

export { freePort }

export const AGENT_PROGRAM = [
  process.execPath,
  join(import.meta.dirname, '../../agent/src/main.ts'),
] as const

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

export interface Ask {
  host: string
  path?: string
  method?: string
  headers?: Record<string, string>
  body?: string | Buffer
  agent?: Agent
  port?: number
}

export class EdgeLab {
  readonly folder: string
  readonly settings: AgentSettings
  readonly edge: EdgeClient
  readonly #servers: Server[] = []
  #fence = 1n
  #letGo: () => void = () => undefined

  private constructor(folder: string, settings: AgentSettings) {
    this.folder = folder
    this.settings = settings
    this.edge = openEdge(settings)
  }

  static async open(env: Record<string, string> = {}): Promise<EdgeLab> {
    const lab = await EdgeLab.prepare(env)
    await ensureProxy(lab.settings, AGENT_PROGRAM)
    return lab
  }

  /** Folders, settings and, unless told otherwise, Caddy's account; nothing runs. */
  static async prepare(
    env: Record<string, string> = {},
    { hasAccount = true } = {},
  ): Promise<EdgeLab> {
    const folder = mkdtempSync(join(tmpdir(), 'berth-edge-'))
    chmodSync(folder, 0o711) // Caddy's account must reach its folders
    const settings = readSettings({
      BERTH_DEV: '1',
      BERTH_ACCOUNT_PREFIX: `bt${randomBytes(2).toString('hex')}-e`,
      BERTH_STATE_DIR: join(folder, 'state'),
      BERTH_RUN_DIR: join(folder, 'run'),
      BERTH_PROXY_HTTP: `127.0.0.1:${await freePort()}`,
      BERTH_EDGE_DNS_PORT: String(await freeDatagramPort()),
      // the engine of this run, never the machine's
      DOCKER_HOST: `unix://${dockerEngine()?.socket ?? '/nonexistent/docker.sock'}`,
      ...env,
    })
    if (hasAccount) await makeProxyAccount(settings)
    return new EdgeLab(folder, settings)
  }

  get fence(): bigint {
    return this.#fence++
  }

  get places() {
    return edgePlaces(this.settings)
  }

  pidOf(which: 'edge' | 'caddy'): number {
    const file = which === 'edge' ? this.places.edgeProcess : this.places.caddyProcess
    return readProxyProcess(file)?.pid ?? 0
  }

  /** What Caddy was given last. */
  configuration(): string {
    return readFileSync(this.places.configuration, 'utf8')
  }

  /** An application on a loopback port; answers with its name unless told otherwise. */
  async application(name: string, listener?: RequestListener): Promise<Application> {
    const server = createServer(
      listener ??
        ((incoming, answer) => {
          answer.setHeader('x-application', name)
          answer.end(`${name} ${incoming.url}`)
        }),
    )
    server.keepAliveTimeout = 60_000
    this.#servers.push(server)
    const port = await freePort()
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', resolve)
    })
    return { server, port, target: { kind: 'loopback', port } }
  }

  route(
    environmentId: number,
    routes: (Partial<EdgeRoute> & { host: string; target: EdgeTarget })[],
    fence = this.fence,
  ): Promise<{ generation: number }> {
    const full = routes.map((route) => ({ service: 'web', path: '/', auth: true, ...route }))
    return this.edge.setRoutes({ environmentId, fence, routes: full })
  }

  ask(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request(
        {
          host: '127.0.0.1',
          port: ask.port ?? this.settings.proxy.http.port,
          path: ask.path ?? '/',
          method: ask.method ?? 'GET',
          headers: { host: ask.host, ...ask.headers },
          agent: ask.agent ?? false,
        },
        (answer) => {
          let text = ''
          answer.setEncoding('utf8')
          answer.on('data', (chunk: string) => {
            text += chunk
          })
          answer.on('error', reject)
          answer.on('end', () => {
            resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text })
          })
        },
      )
      sent.setTimeout(30_000, () => sent.destroy(new Error('no answer in 30 s')))
      sent.on('error', reject)
      sent.end(ask.body)
    })
  }

  /** What the daemon does; returns how to end it, as the end of a daemon does. */
  keepUp(): () => void {
    this.#letGo = keepProxyUp({
      settings: this.settings,
      program: AGENT_PROGRAM,
      log: silentLog,
      onStarted: () => undefined,
    })
    return this.#letGo
  }

  async close(): Promise<void> {
    this.#letGo()
    await stopProxy(this.settings)
    for (const server of this.#servers) {
      server.closeAllConnections()
      server.close()
    }
    removeProxyAccount(this.settings)
    rmSync(this.folder, { recursive: true, force: true })
  }
}

export interface Application {
  server: Server
  port: number
  target: EdgeTarget
}
