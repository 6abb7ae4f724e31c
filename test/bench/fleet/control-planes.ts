// Control planes as processes of their own behind the balancer: the bundled program with its own data folder and ports,
// one key and one database.
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Target } from './balancer.ts'

const START_MS = 120_000

export interface Memory {
  rss: number
  rssAfter: number
  heapUsed: number
  external: number
  arrayBuffers: number
}

export interface Loop {
  p99: number
  max: number
  cpu: { user: number; system: number }
}

export class ControlPlaneProcess {
  #child: ChildProcess | undefined
  readonly #program: string
  readonly #env: Record<string, string>
  readonly ports: Target
  readonly #log: string
  #asked = 0

  constructor(program: string, env: Record<string, string>, ports: Target, log: string) {
    this.#program = program
    this.#env = env
    this.ports = ports
    this.#log = log
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Resolves when it is ready. */
  async start(): Promise<void> {
    const probe = join(import.meta.dirname, 'probe.mjs')
    const child = spawn(process.execPath, ['--expose-gc', '--import', probe, this.#program], {
      env: { ...process.env, ...this.#env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    this.#child = child
    const log = createWriteStream(this.#log, { flags: 'a' })
    child.stdout?.pipe(log, { end: false })
    child.stderr?.pipe(log, { end: false })
    for (const end = performance.now() + START_MS; ; ) {
      const ready = await fetch(`http://127.0.0.1:${this.ports.http}/health/ready`).catch(
        () => undefined,
      )
      if (ready?.ok) return
      if (child.exitCode !== null || performance.now() > end) {
        throw new Error(`a control plane did not start; its log is ${this.#log}`)
      }
      await delay(100)
    }
  }

  ask<T>(ask: string, more: object = {}): Promise<T> {
    this.#asked += 1
    const id = this.#asked
    const child = this.#child as ChildProcess
    return new Promise<T>((resolve, reject) => {
      const listen = (message: { id: number; answer: T }): void => {
        if (message.id !== id) return
        stop()
        resolve(message.answer)
      }
      const fail = (): void => {
        stop()
        reject(new Error('the control plane ended'))
      }
      const stop = (): void => void child.off('message', listen).off('exit', fail)
      child.on('message', listen).once('exit', fail)
      child.send({ id, ask, ...more })
    })
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }
}

/** The balancer's process. */
export class Balancer {
  readonly #child: ChildProcess
  readonly ports: Target

  private constructor(child: ChildProcess, ports: Target) {
    this.#child = child
    this.ports = ports
  }

  static async start(targets: Target[]): Promise<Balancer> {
    const child = fork(join(import.meta.dirname, 'balancer.ts'))
    const [ports] = (await once(child, 'message')) as [Target]
    child.send(targets)
    return new Balancer(child, ports)
  }

  stop(): void {
    this.#child.kill()
  }
}
