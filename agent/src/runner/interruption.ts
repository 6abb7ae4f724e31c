// What may end an attempt from outside: the stop file, the timeout, a signal to the runner, a disk that takes no
// output. They share one AbortSignal, which fires once; the first reason wins. While shielded, a stop is noticed and
// reported immediately but takes effect afterwards. All times are monotonic, so changes of the wall clock have no
// effect.
import { readFileSync } from 'node:fs'
import { attemptPaths } from '../journal/attempt-files.ts'
import { PROCESSES } from '../limits/machine.ts'
import { Interrupted } from './failure.ts'

type Reason =
  | { kind: 'stop'; why: string }
  | { kind: 'timeout' }
  | { kind: 'terminated' }
  | { kind: 'fault'; error: unknown }

export class Interruption {
  readonly #controller = new AbortController()
  readonly #stopFile: string
  readonly #onStopSeen: (why: string) => void
  readonly #poll: NodeJS.Timeout
  #clock: NodeJS.Timeout | undefined
  /** When the timeout fires (monotonic clock), as long as the clock runs. */
  #endsAt: number
  #isClosed = false
  #seen: string | undefined
  #isShielded = false
  #reason: Reason | undefined

  /** `onStopSeen` is called once, when the stop file is noticed. */
  constructor(dir: string, timeoutMs: number, onStopSeen: (why: string) => void) {
    this.#stopFile = attemptPaths(dir).stop
    this.#onStopSeen = onStopSeen
    this.#poll = setInterval(() => this.look(), PROCESSES.stopPollMs)
    this.#endsAt = performance.now() + timeoutMs
    this.#startClock(timeoutMs)
    process.on('SIGUSR2', this.look)
    process.on('SIGTERM', this.#terminate)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get reason(): Reason | undefined {
    return this.#reason
  }

  /** Checks the stop file now; also called on SIGUSR2 and every second. */
  readonly look = (): void => {
    if (this.#seen !== undefined) return
    try {
      this.#seen = readFileSync(this.#stopFile, 'utf8').slice(0, 1_000).trim()
    } catch {
      return // no stop was requested
    }
    this.#onStopSeen(this.#seen)
    if (!this.#isShielded) this.#fire({ kind: 'stop', why: this.#seen })
  }

  /** Output or events cannot be written, and the attempt must not continue unseen. */
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

  /** Stops the clock of the timeout, for a wait that others cause; the returned function lets it go on. */
  pause(): () => void {
    const left = this.#endsAt - performance.now()
    clearTimeout(this.#clock)
    let isOver = false
    return () => {
      if (isOver || this.#isClosed) return
      isOver = true
      this.#endsAt = performance.now() + left
      this.#startClock(left)
    }
  }

  #startClock(ms: number): void {
    this.#clock = setTimeout(() => this.#fire({ kind: 'timeout' }), Math.max(0, ms))
  }

  throwIfFired(): void {
    if (this.#reason) throw new Interrupted('The attempt was interrupted.')
  }

  /** Waits on the monotonic clock; throws Interrupted when an interruption fires. */
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

  /** Disables interruptions: what follows is clean-up with its own time limit. */
  close(): void {
    this.#isClosed = true
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
