// A separate Caddy with one fixed upstream, as many platforms route: a switch is a configuration push. Berth works
// differently. The cut-over's positive control and the script of the deploy bench use it, and it is the floor for the
// cost of a request through a proxy.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { locate } from '../fixtures/platform/components.ts'
import { until } from '../fixtures/server/installation.ts'

const configuration = (port: number, admin: string, upstream: string) => ({
  admin: { listen: `unix/${admin}`, origins: ['control'] },
  apps: {
    http: {
      servers: {
        one: {
          listen: [`127.0.0.1:${port}`],
          automatic_https: { disable: true },
          routes: [
            {
              handle: [
                { '@id': 'upstream', handler: 'reverse_proxy', upstreams: [{ dial: upstream }] },
              ],
            },
          ],
        },
      },
    },
  },
})

export class FixedProxy {
  readonly #folder = mkdtempSync(join(tmpdir(), 'berth-control-'))
  readonly port: number
  #child: ChildProcess | undefined

  constructor(port: number) {
    this.port = port
  }

  /** Unix socket of its admin API. */
  get admin(): string {
    return join(this.#folder, 'admin.sock')
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  #text(upstream: string): string {
    return JSON.stringify(configuration(this.port, this.admin, upstream))
  }

  async start(upstream: string): Promise<void> {
    const child = spawn(locate('caddy') ?? 'caddy', ['run', '--config', '-'], {
      env: { PATH: process.env.PATH, HOME: this.#folder, XDG_DATA_HOME: this.#folder },
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#child = child
    child.stdin?.end(this.#text(upstream))
    await until('the control proxy', async () => {
      await fetch(`http://127.0.0.1:${this.port}/`) // any answer will do
      return true
    })
  }

  push(upstream: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', host: 'control', origin: 'control' }
      const options = { socketPath: this.admin, method: 'POST', path: '/load', headers }
      const call = request({ ...options, timeout: 10_000 }, (answer) => {
        answer.resume()
        if (answer.statusCode === 200) resolve()
        else reject(new Error(`the control proxy answered ${answer.statusCode}`))
      })
      call.on('timeout', () => call.destroy(new Error('the control proxy does not answer')))
      call.on('error', reject)
      call.end(this.#text(upstream))
    })
  }

  stop(): void {
    this.#child?.kill('SIGKILL')
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
