// kamal-proxy, a peer that switches without loss: started, and told its target, as `kamal deploy` does. It is compiled
// from its Go module; where Go or the module is missing, the bench says so and goes on without it.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { buildGoProgram } from '../fixtures/platform/go-program.ts'
import { until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'

const run = promisify(execFile)
const MODULE = 'github.com/basecamp/kamal-proxy'
const VERSION = 'v0.9.2'

export class KamalProxy {
  readonly #folder: string
  readonly port: number
  #child: ChildProcess | undefined

  private constructor(folder: string, port: number) {
    this.#folder = folder
    this.port = port
  }

  /** Undefined where it cannot be compiled. */
  static async build(): Promise<KamalProxy | undefined> {
    const folder = mkdtempSync(join(tmpdir(), 'berth-kamal-'))
    try {
      await buildGoProgram(folder, MODULE, 'cmd/kamal-proxy', VERSION)
      return new KamalProxy(folder, await freePort())
    } catch (error) {
      const [line = ''] = (error as Error).message.split('\n')
      console.log(`kamal-proxy ${VERSION} is not run beside it: ${line}`)
      rmSync(folder, { recursive: true, force: true })
      return undefined
    }
  }

  get #env(): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, HOME: this.#folder, XDG_RUNTIME_DIR: this.#folder }
  }

  async start(upstream: string): Promise<void> {
    const https = String(await freePort())
    const ports = ['--http-port', String(this.port), '--https-port', https]
    this.#child = spawn(join(this.#folder, 'kamal-proxy'), ['run', ...ports], {
      env: this.#env,
      stdio: 'ignore',
    })
    await until('kamal-proxy', async () => {
      await this.push(upstream)
      return true
    })
  }

  /** Returns when the former target has ended its requests, or after 30 s. */
  async push(upstream: string): Promise<void> {
    const program = join(this.#folder, 'kamal-proxy')
    const args = ['deploy', 'web', '--target', upstream, '--health-check-path', '/healthz']
    await run(program, args, { env: this.#env })
  }

  stop(): void {
    this.#child?.kill('SIGKILL')
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
