// One of our applications (test/fixtures/applications) as its repository: committed, its .service.yml written by
// `berth config init` where the application has none, deployed, and visited without a pause while it is redeployed.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment, Task } from '@berth/shared/api'
import { deployed } from '../../fixtures/docker/docker-fixture.ts'
import type { Fixture } from '../../fixtures/server/installation.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const CLIENT = join(root, 'cli/src/main.ts')
const WAIT_MS = 15_000

interface Wishes {
  recipe: 'docker' | 'manual'
  variables?: Record<string, string>
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
    if (!existsSync(join(folder, '.service.yml'))) initialize(folder)
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

  async host(): Promise<string> {
    const { url } = await this.#fixture.get<Environment>(`/api/environments/${this.environment.id}`)
    return new URL(url ?? '').host
  }

  async ask(path = '/', options: http.RequestOptions = {}, body?: string): Promise<Answer> {
    const headers = { host: await this.host() }
    const port = this.#fixture.proxyPort
    return send({ host: '127.0.0.1', port, path, agent: false, ...options, headers }, body)
  }

  /** Visits without a pause, in kept and in new connections, until `during` ends; every answer must be good. */
  async visitWhile<T>(
    during: () => Promise<T>,
    isGood: (text: string) => boolean,
  ): Promise<Visits> {
    const headers = { host: await this.host() }
    const options = { host: '127.0.0.1', port: this.#fixture.proxyPort, path: '/', headers }
    const visits: Visits = { good: 0, failed: [] }
    let isOver = false
    const worker = async (agent: http.Agent | false): Promise<void> => {
      while (!isOver) {
        const answer = await send({ ...options, agent }).catch((error: Error) => error)
        if (answer instanceof Error) visits.failed.push(answer.message)
        else if (answer.status !== 200 || !isGood(answer.text)) {
          visits.failed.push(`${answer.status} ${answer.text.slice(0, 100)}`)
        } else visits.good += 1
      }
    }
    const kept = new http.Agent({ keepAlive: true })
    const workers = [worker(kept), worker(kept), worker(false), worker(false)]
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

export interface Visits {
  good: number
  failed: string[]
}

interface Answer {
  status: number
  text: string
}

function initialize(folder: string): void {
  execFileSync(process.execPath, [CLIENT, 'config', 'init'], {
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
