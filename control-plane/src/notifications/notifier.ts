// Wake-ups by topic: `agent:<id>`, `task:<id>`, `log:<attempt>` and `events`. Those of this process reach the other
// replicas too. A wake-up is a hint without payload: the table is the truth, every wait has a timeout, and a lost hint
// costs that timeout, never correctness. Wake-ups of one topic coalesce within a turn; there is no queue.
import { AppError } from '@berth/shared'
import { LIVE } from '../limits/browser.ts'

type Listener = () => void

export class Notifier {
  readonly #listeners = new Map<string, Set<Listener>>()
  readonly #report: (error: unknown) => void
  #count = 0
  #pending = new Set<string>()
  #flushing = false
  /** Passes a wake-up on to the other replicas; does nothing where there are none. */
  relay: (topic: string) => void = () => {}

  /** `report` receives what a listener threw; the other listeners still run. */
  constructor(report: (error: unknown) => void) {
    this.#report = report
  }

  /** Number of listeners of all topics. */
  get size(): number {
    return this.#count
  }

  /** Listeners run after the current synchronous code, so call it after the commit. */
  notify(topic: string): void {
    this.relay(topic)
    this.hear(topic)
  }

  /** Hints of the others were lost: wakes every listener. */
  hearAll(): void {
    for (const topic of this.#listeners.keys()) this.hear(topic)
  }

  /** A wake-up for this process alone, as one that came from another replica. */
  hear(topic: string): void {
    if (!this.#listeners.has(topic)) return
    const isFirst = this.#pending.size === 0
    this.#pending.add(topic)
    if (!isFirst) return
    // listeners that notify each other in circles must leave time for sockets and timers
    if (this.#flushing) setImmediate(() => this.#flush())
    else queueMicrotask(() => this.#flush())
  }

  /** Calls `listener` at each wake-up until the returned function is called. */
  on(topic: string, listener: Listener): () => void {
    if (this.#count >= LIVE.listeners)
      throw new AppError(
        'unavailable',
        'Too many live connections are open; close some pages or try again in a minute.',
      )
    const entry: Listener = () => listener() // the same function may listen twice
    const listeners = this.#listeners.get(topic) ?? new Set()
    this.#listeners.set(topic, listeners.add(entry))
    this.#count += 1
    return () => {
      if (!listeners.delete(entry)) return
      this.#count -= 1
      if (listeners.size === 0) this.#listeners.delete(topic)
    }
  }

  /**
   * Resolves at the next wake-up, at the timeout or when `signal` aborts, without saying which. Call it *before*
   * reading the table and await it after, or a wake-up in between is missed.
   */
  wait(topic: string, signal: AbortSignal, timeoutMs: number): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const finish = (): void => {
        off()
        clearTimeout(timer)
        signal.removeEventListener('abort', finish)
        resolve()
      }
      const off = this.on(topic, finish)
      const timer = setTimeout(finish, timeoutMs)
      signal.addEventListener('abort', finish)
    })
  }

  #flush(): void {
    const topics = this.#pending
    this.#pending = new Set()
    this.#flushing = true
    for (const topic of topics) {
      const listeners = this.#listeners.get(topic)
      // a copy: a listener added meanwhile is not called, and neither is one that was removed
      for (const listener of [...(listeners ?? [])])
        if (listeners?.has(listener))
          try {
            listener()
          } catch (error) {
            this.#report(error)
          }
    }
    this.#flushing = false
  }
}
