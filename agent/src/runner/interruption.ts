// What may end an attempt from outside: the stop file, the clock, a signal to the runner, a disk that takes no
// output. One AbortSignal for all of them, fired once; the first reason stands. While shielded, a stop is noticed and
// told at once but takes effect only afterwards. All times are monotonic, so a changed wall clock ends nothing.
import { readFileSync } from 'node:fs'
import { PROCESSES } from '@berth/shared'
import { attemptPaths } from '../journal/attempt-files.ts'
import { Interrupted } from './failure.ts'

export type Reason =
  | { kind: 'stop'; why: string }
  | { kind: 'timeout' }
  | { kind: 'terminated' }
  | { kind: 'fault'; error: unknown }

export class Interruption {
  readonly #controller = new AbortController()
  readonly #stopFile: string
  readonly #onStopSeen: (why: string) => void
  readonly #poll: NodeJS.Timeout
  readonly #clock: NodeJS.Timeout
  #seen: string | undefined
  #isShielded = false
  #reason: Reason | undefined

  /** `onStopSeen` is called once, when the stop file is noticed. */
  constructor(dir: string, timeoutMs: number, onStopSeen: (why: string) => void) {
    this.#stopFile = attemptPaths(dir).stop
    this.#onStopSeen = onStopSeen
    this.#poll = setInterval(() => this.look(), PROCESSES.stopPollMs)
    this.#clock = setTimeout(() => this.#fire({ kind: 'timeout' }), timeoutMs)
    process.on('SIGUSR2', this.look)
    process.on('SIGTERM', this.#terminate)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get reason(): Reason | undefined {
    return this.#reason
  }

  /** Looks at the stop file now; also on SIGUSR2 and every second. */
  readonly look = (): void => {
    if (this.#seen !== undefined) return
    try {
      this.#seen = readFileSync(this.#stopFile, 'utf8').slice(0, 1_000).trim()
    } catch {
      return // nobody asked
    }
    this.#onStopSeen(this.#seen)
    if (!this.#isShielded) this.#fire({ kind: 'stop', why: this.#seen })
  }

  /** Output or events cannot be written: the attempt cannot go on unseen. */
  fail(error: unknown): void {
    this.#fire({ kind: 'fault', error })
  }

  shield(): void {
    this.#isShielded = true
  }

  unshield(): void {
    this.#isShielded = false
    if (this.#seen !== undefined) this.#fire({ kind: 'stop', why: this.#seen })
  }

  throwIfFired(): void {
    if (this.#reason) throw new Interrupted('The attempt was interrupted.')
  }

  /** Waits on the monotonic clock; throws Interrupted when something fires meanwhile. */
  async wait(ms: number): Promise<void> {
    this.throwIfFired()
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      this.signal.addEventListener('abort', done, { once: true })
    })
    this.throwIfFired()
  }

  /** Nothing fires any more: what comes now is clean-up with its own bound. */
  close(): void {
    clearInterval(this.#poll)
    clearTimeout(this.#clock)
    process.off('SIGUSR2', this.look)
  }

  readonly #terminate = (): void => this.#fire({ kind: 'terminated' })

  #fire(reason: Reason): void {
    if (this.#reason) return
    this.#reason = reason
    this.#controller.abort()
  }
}
