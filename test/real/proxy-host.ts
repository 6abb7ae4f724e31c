// A server with an edge and a Caddy of its own, for one test file: deployments of either recipe and requests through the
// proxy. `portsEdge` is the edge of a developer without Caddy, in the test's own process: it costs nothing.
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { ensureProxy, stopProxy } from '../../agent/src/exec/proxy/care.ts'
import { type EdgeClient, openEdge } from '../../agent/src/exec/proxy/client.ts'
import { type RunningEdge, startEdge } from '../../agent/src/exec/proxy/edge.ts'
import type { AgentSettings } from '../../agent/src/settings.ts'
import { freeDatagramPort, freePort } from '../lab-docker.ts'
import { makeProxyAccount, removeProxyAccount } from '../proxy-account.ts'
import { AgentHost } from './agent-host.ts'
import { eventually } from './deployment.ts'

/** Before the first deployment. */
export async function portsEdge(settings: AgentSettings): Promise<RunningEdge> {
  settings.proxy.dnsPort = await freeDatagramPort()
  return startEdge(settings, {
    addresses: { addressOf: () => Promise.resolve(null), onChange: () => () => undefined },
    log: () => undefined,
    findVersion: () => Promise.resolve(''),
  })
}

const PROGRAM = [process.execPath, join(import.meta.dirname, 'agent-process.ts')]

/** Longer than the proxy itself waits for anybody. */
const ANSWER_MS = 60_000

export interface Answer {
  status: number
  text: string
  headers: Record<string, string | string[] | undefined>
}

export class ProxyHost extends AgentHost {
  readonly edge: EdgeClient = openEdge(this.settings)
  #hasPorts = false

  async startProxy(): Promise<void> {
    if (!this.#hasPorts) {
      this.settings.proxy.http.port = await freePort()
      this.settings.proxy.dnsPort = await freeDatagramPort()
      this.#hasPorts = true
      await makeProxyAccount(this.settings)
    }
    await ensureProxy(this.settings, PROGRAM)
    await eventually(async () => {
      await ensureProxy(this.settings, PROGRAM).catch(() => undefined)
      const found = await this.edge.describe().catch(() => undefined)
      return found?.caddy.up
    }, 'the proxy')
  }

  /** Through Caddy. */
  get(
    host: string,
    path = '/',
    headers: Record<string, string> = {},
    agent: Agent | false = false,
  ): Promise<Answer> {
    const { address, port } = this.settings.proxy.http
    return new Promise((resolve, reject) => {
      const asked = request(
        { host: address, port, path, headers: { ...headers, host }, agent, timeout: ANSWER_MS },
        (answer) => {
          const parts: Buffer[] = []
          answer.on('data', (part: Buffer) => parts.push(part))
          answer.once('error', reject)
          answer.once('end', () =>
            resolve({
              status: answer.statusCode ?? 0,
              text: Buffer.concat(parts).toString(),
              headers: answer.headers,
            }),
          )
        },
      )
      asked.once('timeout', () => asked.destroy(new Error(`no answer in ${ANSWER_MS} ms`)))
      asked.once('error', reject)
      asked.end()
    })
  }

  override async close(): Promise<void> {
    await stopProxy(this.settings)
    await super.close()
    removeProxyAccount(this.settings)
  }
}

/** A visitor that never rests takes the processor from what it watches. */
const PAUSE_MS = 50

/** Asks at a host again and again until it is told to stop: what people see meanwhile. */
export class Visitor {
  readonly seen = new Map<string, number>()
  /** When something else than 200 was answered first, and with which page. */
  readonly refusals: string[] = []
  #isOver = false
  readonly #running: Promise<void>

  constructor(host: ProxyHost, name: string, path = '/', { keepAlive = false } = {}) {
    const agent = new Agent({ keepAlive, maxSockets: 1 })
    this.#running = this.#ask(host, name, path, agent).finally(() => agent.destroy())
  }

  async #ask(host: ProxyHost, name: string, path: string, agent: Agent): Promise<void> {
    while (!this.#isOver) {
      const said = await host.get(name, path, {}, agent).then(
        ({ status, text }) => {
          if (status === 200) return text.trim()
          const at = new Date().toISOString()
          if (!this.seen.has(`status ${status}`)) this.refusals.push(`${at} ${status} ${text}`)
          return `status ${status}`
        },
        (error: Error) => error.message,
      )
      this.seen.set(said, (this.seen.get(said) ?? 0) + 1)
      await delay(PAUSE_MS)
    }
  }

  /** Every different answer, in the order in which it was seen first. */
  async stop(): Promise<string[]> {
    this.#isOver = true
    await this.#running
    return [...this.seen.keys()]
  }
}
