// Starts the strict client, asks for its progress, stops it. ClientReport holds its counts.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export type Kind = 'keep-alive' | 'fresh' | 'post' | 'websocket' | 'slow' | 'long'

export interface ClientWishes {
  address: string
  port: number
  /** Header `Host`. */
  host: string
  workers: Partial<Record<Kind, number>>
  /** About this long between two requests of a worker; 0 means full speed. */
  pauseMs?: number
  /** Of the body of every POST; otherwise at most 3 KiB. */
  postBytes?: number
}

export interface ClientReport {
  kinds: Partial<Record<Kind, { ok: number; failed: number; maxMs: number }>>
  /** The first failures, by the wall clock. */
  failures: { kind: Kind; why: string; at: number }[]
  /** By the header `X-Version` of good answers. */
  versions: Record<string, { count: number; firstAt: number; lastAt: number }>
}

/** The longest request (30 s), and a little. */
const STOP_MS = 45_000

export class LoadClient {
  readonly #child: ChildProcess

  constructor(wishes: ClientWishes) {
    const program = join(import.meta.dirname, 'strict-client.ts')
    this.#child = fork(program, [JSON.stringify(wishes)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
  }

  async #ask(what: 'stop' | 'report'): Promise<ClientReport> {
    const signal = AbortSignal.timeout(STOP_MS)
    const answer = once(this.#child, 'message', { signal })
    this.#child.send(what)
    return (await answer)[0] as ClientReport
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  report(): Promise<ClientReport> {
    return this.#ask('report')
  }

  /** Finishes the requests in flight. */
  async stop(): Promise<ClientReport> {
    const gone = once(this.#child, 'exit', { signal: AbortSignal.timeout(STOP_MS) })
    const report = await this.#ask('stop')
    await gone
    return report
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}

export const countOf = (report: ClientReport): { ok: number; failed: number } => {
  const all = Object.values(report.kinds)
  return {
    ok: all.reduce((sum, { ok }) => sum + ok, 0),
    failed: all.reduce((sum, { failed }) => sum + failed, 0),
  }
}
