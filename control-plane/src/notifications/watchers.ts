// Tracks which logs are watched now, here or at another control plane. A watched log is sent and committed at short
// intervals; nothing else depends on it, so what others say is only a hint that is repeated and runs out by itself.
import { LIVE } from '../limits/browser.ts'
import type { Notifier } from './notifier.ts'

const topicOf = (attemptId: string): string => `watch:${attemptId}`

export class Watchers {
  readonly #counts = new Map<string, number>()
  /** Watched by a reader of this process. */
  readonly #here = new Map<string, number>()
  readonly #elsewhere = new Map<string, NodeJS.Timeout>()
  readonly #listeners = new Set<(attemptId: string, watched: boolean) => void>()
  readonly #notifier: Notifier
  #timer: NodeJS.Timeout | undefined

  constructor(notifier: Notifier) {
    this.#notifier = notifier
  }

  isWatched(attemptId: string): boolean {
    return this.#counts.has(attemptId)
  }

  /** Returns the function that ends the watching. */
  watch(attemptId: string): () => void {
    this.#add(attemptId, 1)
    const readers = (this.#here.get(attemptId) ?? 0) + 1
    this.#here.set(attemptId, readers)
    if (readers === 1) this.#notifier.relay(topicOf(attemptId))
    this.#timer ??= setInterval(() => this.#repeat(), LIVE.watchedMs).unref()
    let done = false
    return () => {
      if (done) return
      done = true
      this.#leave(attemptId)
      this.#add(attemptId, -1)
    }
  }

  onChange(listener: (attemptId: string, watched: boolean) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** For the stream that feeds a log: hears of readers at other control planes until the returned function is called. */
  listen(attemptId: string): () => void {
    const off = this.#notifier.on(topicOf(attemptId), () => this.#hear(attemptId))
    return () => {
      off()
      this.#forget(attemptId)
    }
  }

  #hear(attemptId: string): void {
    const known = this.#elsewhere.get(attemptId)
    if (known) {
      known.refresh()
      return
    }
    // longer than two repetitions, so that a lost one changes nothing
    const timer = setTimeout(() => this.#forget(attemptId), 2.5 * LIVE.watchedMs).unref()
    this.#elsewhere.set(attemptId, timer)
    this.#add(attemptId, 1)
  }

  #forget(attemptId: string): void {
    const timer = this.#elsewhere.get(attemptId)
    if (!timer) return
    clearTimeout(timer)
    this.#elsewhere.delete(attemptId)
    this.#add(attemptId, -1)
  }

  #repeat(): void {
    for (const attemptId of this.#here.keys()) this.#notifier.relay(topicOf(attemptId))
  }

  #leave(attemptId: string): void {
    const left = (this.#here.get(attemptId) ?? 1) - 1
    if (left > 0) {
      this.#here.set(attemptId, left)
      return
    }
    this.#here.delete(attemptId)
    if (this.#here.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #add(attemptId: string, by: 1 | -1): void {
    const before = this.#counts.get(attemptId) ?? 0
    const after = before + by
    if (after === 0) this.#counts.delete(attemptId)
    else this.#counts.set(attemptId, after)
    if (before !== 0 && after !== 0) return
    for (const listener of this.#listeners) listener(attemptId, after > 0)
  }
}
