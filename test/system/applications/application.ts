// One of our applications (test/fixtures/applications) as its repository: committed, its .service.yml written by
// `berth config init` where the application has none, deployed, and visited without a pause while it is redeployed.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment, Task } from '@berth/shared/api'
import { WebSocket } from 'ws'
import { deployed } from '../../fixtures/docker/docker-fixture.ts'
import type { Fixture } from '../../fixtures/server/installation.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const CLIENT = join(root, 'cli/src/main.ts')
const WAIT_MS = 15_000

/** What `Fixture.owned` returns after every environment was removed. */
export const NOTHING = { containers: [], images: [], networks: [], volumes: [] }

interface Wishes {
  recipe: 'docker' | 'manual'
  variables?: Record<string, string>
  /** Further arguments of `berth config init`. */
  init?: string[]
  /** Takes the place of registry.example.com in the Dockerfile. */
  registry?: string
}

interface Question extends http.RequestOptions {
  /** Asked at its own address; else at that of the environment. */
  service?: string
}

export class Application {
  readonly #fixture: Fixture
  readonly #name: string
  readonly environment: Environment

  private constructor(fixture: Fixture, name: string, environment: Environment) {
    this.#fixture = fixture
    this.#name = name
    this.environment = environment
  }

  /** A project with one environment; nothing is deployed yet. */
  static async open(fixture: Fixture, name: string, wishes: Wishes): Promise<Application> {
    const folder = join(fixture.dir, 'repositories', name)
    cpSync(join(root, 'test/fixtures/applications', name), folder, { recursive: true })
    if (wishes.registry !== undefined) {
      const path = join(folder, 'Dockerfile')
      const text = readFileSync(path, 'utf8')
      writeFileSync(path, text.replace('registry.example.com', wishes.registry))
    }
    if (!existsSync(join(folder, '.service.yml'))) initialize(folder, wishes.init)
    const project = await fixture.project(name, fixture.repository(name, {}), wishes.recipe)
    const body = { identifier: 'main', branch: 'main', auto_deploy: false }
    const path = `/api/projects/${project.id}/environments`
    const { variables = {} } = wishes
    const environment = await fixture.post<Environment>(path, { ...body, variables })
    return new Application(fixture, name, environment)
  }

  deploy(): Promise<Task> {
    return deployed(this.#fixture, this.environment.id)
  }

  /** Commits the next version: the word that follows "version" in this file. */
  change(file: string, version: string): void {
    const path = join(this.#fixture.dir, 'repositories', this.#name, file)
    const text = readFileSync(path, 'utf8').replace(/one|two|three/, version)
    writeFileSync(path, text)
    this.#fixture.repository(this.#name, {})
  }

  /** As the API shows it now. */
  view(): Promise<Environment> {
    return this.#fixture.get(`/api/environments/${this.environment.id}`)
  }

  async host(service?: string): Promise<string> {
    const { url, services } = await this.view()
    const own = services.find(({ name }) => name === service)
    return new URL((service === undefined ? url : own?.url) ?? '').host
  }

  async ask(path = '/', question: Question = {}, body?: string): Promise<Answer> {
    const { service, ...options } = question
    const headers = { host: await this.host(service) }
    const port = this.#fixture.proxyPort
    return send({ host: '127.0.0.1', port, path, agent: false, ...options, headers }, body)
  }

  async openSocket(): Promise<OpenSocket> {
    const headers = { host: await this.host() }
    const socket = new WebSocket(`ws://127.0.0.1:${this.#fixture.proxyPort}/`, { headers })
    await once(socket, 'open', { signal: AbortSignal.timeout(WAIT_MS) })
    return new OpenSocket(socket)
  }

  /** Visits every address without a pause, in kept and in new connections, until `during` ends; all must be good. */
  async visitWhile<T>(
    during: () => Promise<T>,
    isGood: (text: string) => boolean,
  ): Promise<Visits> {
    const { services } = await this.view()
    const options = { host: '127.0.0.1', port: this.#fixture.proxyPort, path: '/' }
    const visits: Visits = { good: 0, failed: [] }
    let isOver = false
    const worker = async (url: string, agent: http.Agent | false): Promise<void> => {
      const headers = { host: new URL(url).host }
      while (!isOver) {
        const answer = await send({ ...options, headers, agent }).catch((error: Error) => error)
        if (answer instanceof Error) visits.failed.push(answer.message)
        else if (answer.status !== 200 || !isGood(answer.text)) {
          visits.failed.push(`${answer.status} ${answer.text.slice(0, 100)}`)
        } else visits.good += 1
      }
    }
    const kept = new http.Agent({ keepAlive: true })
    const workers = services.flatMap(({ url }) =>
      url === null ? [] : [kept, kept, false as const, false as const].map((a) => worker(url, a)),
    )
    try {
      await during()
    } finally {
      isOver = true
      await Promise.all(workers)
      kept.destroy()
    }
    return visits
  }

  async destroy(): Promise<Task> {
    const answer = await this.#fixture.call('DELETE', `/api/environments/${this.environment.id}`)
    return this.#fixture.finished(((await answer.json()) as Task).id)
  }
}

/** A WebSocket that was accepted. Each message gets one answer. */
export class OpenSocket {
  readonly #socket: WebSocket
  /** The close code of the other side; 1006 if the connection was cut without one. */
  readonly closed: Promise<number>

  constructor(socket: WebSocket) {
    this.#socket = socket
    this.closed = new Promise((resolve) => socket.once('close', resolve))
  }

  async say(text: string): Promise<string> {
    const answer = once(this.#socket, 'message', { signal: AbortSignal.timeout(WAIT_MS) })
    this.#socket.send(text)
    return String((await answer)[0])
  }
}

export interface Visits {
  good: number
  failed: string[]
}

interface Answer {
  status: number
  text: string
}

function initialize(folder: string, more: string[] = []): void {
  execFileSync(process.execPath, [CLIENT, 'config', 'init', ...more], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder },
    stdio: 'pipe',
  })
}

function send(options: http.RequestOptions, body?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = http.request(options, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      answer.on('error', reject)
      answer.on('close', () => {
        if (answer.complete) resolve({ status: answer.statusCode ?? 0, text })
        else reject(new Error('the answer was cut'))
      })
    })
    request.setTimeout(WAIT_MS, () => request.destroy(new Error('no answer in time')))
    request.on('error', reject)
    request.end(body)
  })
}
