// A server with a Docker engine, an edge and a Caddy of its own, for one test file: deployments with the docker recipe,
// requests through the proxy, and what is left in the engine. `close` leaves nothing behind.
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Recipe } from '@berth/shared/wire'
import {
  listOwnedContainers,
  type OwnedContainer,
  removeContainer,
} from '../../agent/src/exec/docker/containers.ts'
import { type Engine, openEngine } from '../../agent/src/exec/docker/engine.ts'
import { listOwnedImages, removeImage } from '../../agent/src/exec/docker/images.ts'
import { listOwnedNetworks, removeNetwork } from '../../agent/src/exec/docker/networks.ts'
import { listOwnedVolumes, removeVolume } from '../../agent/src/exec/docker/volumes.ts'
import { ensureProxy, stopProxy } from '../../agent/src/exec/proxy/care.ts'
import { type EdgeClient, openEdge } from '../../agent/src/exec/proxy/client.ts'
import { freeDatagramPort, freePort } from '../lab-docker.ts'
import { AgentHost, type DeployRequest } from './agent-host.ts'
import type { Deployment, Files, Repository } from './deployment.ts'
import { eventually } from './deployment.ts'

const PROGRAM = [process.execPath, join(import.meta.dirname, 'agent-process.ts')]

export interface Answer {
  status: number
  text: string
  headers: Record<string, string | string[] | undefined>
}

export class DockerHost extends AgentHost {
  readonly engine: Engine
  readonly edge: EdgeClient

  constructor() {
    super()
    this.engine = openEngine(this.settings)
    this.edge = openEdge(this.settings)
  }

  static async open(): Promise<DockerHost> {
    const host = new DockerHost()
    host.settings.proxy.http.port = await freePort()
    host.settings.proxy.dnsPort = await freeDatagramPort()
    await host.startProxy()
    return host
  }

  async startProxy(): Promise<void> {
    await ensureProxy(this.settings, PROGRAM)
    await eventually(async () => {
      await ensureProxy(this.settings, PROGRAM).catch(() => undefined)
      const found = await this.edge.describe().catch(() => undefined)
      return found?.caddy.up
    }, 'the proxy')
  }

  /** With the docker recipe. */
  run(repository: Pick<Repository, 'url'>, request: DeployRequest = {}): Promise<Deployment> {
    return this.deploy(repository, { recipe: Recipe.DOCKER, ...request })
  }

  begin(repository: Pick<Repository, 'url'>, request: DeployRequest = {}): Deployment {
    return this.start(repository, { recipe: Recipe.DOCKER, ...request })
  }

  /** Through Caddy. */
  get(host: string, path = '/', headers: Record<string, string> = {}): Promise<Answer> {
    const { address, port } = this.settings.proxy.http
    return new Promise((resolve, reject) => {
      const asked = request(
        { host: address, port, path, headers: { ...headers, host }, agent: false, timeout: 10_000 },
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
      asked.once('timeout', () => asked.destroy(new Error('no answer in 10 s')))
      asked.once('error', reject)
      asked.end()
    })
  }

  containers(environmentId?: number): Promise<OwnedContainer[]> {
    return listOwnedContainers(this.engine, this.settings, environmentId)
  }

  /** Names of everything of an environment in the engine. */
  async objects(environmentId?: number): Promise<string[]> {
    const { engine, settings } = this
    const images = await listOwnedImages(engine, settings, environmentId)
    return [
      ...(await this.containers(environmentId)).map(({ name, state }) => `${name} ${state}`),
      ...(await listOwnedNetworks(engine, settings, environmentId)).map(({ name }) => name),
      ...(await listOwnedVolumes(engine, settings, environmentId)).map(({ name }) => name),
      ...images.flatMap(({ id, names }) => (names.length > 0 ? names : [id])),
    ].sort()
  }

  override async close(): Promise<void> {
    const { engine, settings } = this
    await stopProxy(settings)
    for (const { id } of await this.containers()) await removeContainer(engine, id)
    for (const { name } of await listOwnedNetworks(engine, settings)) {
      await removeNetwork(engine, settings, name)
    }
    for (const { name } of await listOwnedVolumes(engine, settings)) {
      await removeVolume(engine, name)
    }
    for (const { id, names } of await listOwnedImages(engine, settings)) {
      for (const name of names.length > 0 ? names : [id]) await removeImage(engine, name)
    }
    await super.close()
  }
}

/** A visitor that never rests takes the processor from what it watches. */
const PAUSE_MS = 50

/** Asks at a host again and again until it is told to stop: what people see meanwhile. */
export class Visitor {
  readonly seen = new Map<string, number>()
  #isOver = false
  readonly #running: Promise<void>

  constructor(host: DockerHost, name: string, path = '/') {
    this.#running = this.#ask(host, name, path)
  }

  async #ask(host: DockerHost, name: string, path: string): Promise<void> {
    while (!this.#isOver) {
      const said = await host.get(name, path).then(
        ({ status, text }) => (status === 200 ? text.trim() : `status ${status}`),
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

/** busybox httpd that answers with its version. */
export const httpd = (version: string, more: Files = {}): Files => ({
  'www/index.html': `version ${version}\n`,
  Dockerfile: [
    'FROM berth-test/busybox',
    'COPY www /www',
    'CMD ["/bin/sh", "-c", "exec httpd -f -p $PORT -h /www"]',
    '',
  ].join('\n'),
  '.service.yml': 'docker: { services: { web: { build: ., port: 8080, health: / } } }\n',
  ...more,
})
