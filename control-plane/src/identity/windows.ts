// Where the windows of a rate limit are: in this process, in a table that all control planes count in, or here with
// sums that are exchanged with that table in the background. Memory is bounded: a flood of keys drops the oldest.
import { REST } from '@berth/shared'
import { SHARED_LIMITS } from '../limits/sharing.ts'

export const WINDOW_MS = 60_000

export interface Window {
  since: number
  count: number
}

export interface Windows {
  now(): number
  /** The window after counting one. */
  count(key: string): Window | Promise<Window>
  giveBack(key: string): void | Promise<void>
  /** The window as this process knows it; undefined if it is over. */
  find(key: string): Window | undefined
}

/** A window of one limit, for the table. */
export interface NamedWindow extends Window {
  name: string
  key: string
}

/** The windows of all control planes. */
export interface SharedWindows {
  /** Adds each count to its window and returns the windows as they are then. */
  add(added: readonly NamedWindow[], now: number): Promise<NamedWindow[]>
  sweep(now: number): Promise<void>
}

/** Keeps the newest keys. */
class Newest<T> extends Map<string, T> {
  put(key: string, value: T): void {
    this.delete(key)
    const oldest = this.size >= REST.rateLimitKeys ? this.keys().next().value : undefined
    if (oldest !== undefined) this.delete(oldest)
    this.set(key, value)
  }
}

export class LocalWindows implements Windows {
  readonly now: () => number
  readonly #windows = new Newest<Window>()

  constructor(now: () => number) {
    this.now = now
  }

  count(key: string): Window {
    let window = this.find(key)
    if (!window) {
      window = { since: this.now(), count: 0 }
      this.#windows.put(key, window)
    }
    window.count += 1
    return window
  }

  giveBack(key: string): void {
    const window = this.#windows.get(key)
    if (window && window.count > 0) window.count -= 1
  }

  find(key: string): Window | undefined {
    const window = this.#windows.get(key)
    return window && this.now() - window.since < WINDOW_MS ? window : undefined
  }

  get size(): number {
    return this.#windows.size
  }
}

/** Exact for all control planes: each count is one statement, and without the database there is no answer. */
export class TableWindows implements Windows {
  readonly now: () => number
  readonly #name: string
  readonly #perMinute: number
  readonly #shared: SharedWindows
  /** Keys above the limit: a flood of them costs one statement in a while. */
  readonly #over = new Newest<{ window: Window; until: number }>()

  constructor(name: string, perMinute: number, shared: SharedWindows, now: () => number) {
    this.#name = name
    this.#perMinute = perMinute
    this.#shared = shared
    this.now = now
  }

  async count(key: string): Promise<Window> {
    const known = this.find(key)
    if (known) return known
    const window = await this.#add(key, 1)
    if (window.count > this.#perMinute) {
      this.#over.put(key, { window, until: this.now() + SHARED_LIMITS.refusedMs })
    }
    return window
  }

  async giveBack(key: string): Promise<void> {
    this.#over.delete(key)
    await this.#add(key, -1)
  }

  find(key: string): Window | undefined {
    const over = this.#over.get(key)
    if (!over) return undefined
    const now = this.now()
    if (now < over.until && now - over.window.since < WINDOW_MS) return over.window
    this.#over.delete(key)
    return undefined
  }

  async #add(key: string, count: number): Promise<Window> {
    const now = this.now()
    const [window] = await this.#shared.add([{ name: this.#name, key, since: now, count }], now)
    if (!window) throw new Error('a request could not be counted')
    return window
  }
}

/** Counts here at once and learns of the others' counts with the next exchange. */
export class SummedWindows extends LocalWindows {
  readonly #name: string
  /** So many counts of a key are not kept back until the next exchange. */
  readonly #many: number
  readonly #hasten: () => void
  readonly #unsent = new Map<string, number>()

  constructor(name: string, perMinute: number, now: () => number, hasten: () => void) {
    super(now)
    this.#name = name
    this.#many = Math.max(1, Math.floor(perMinute * SHARED_LIMITS.unsentShare))
    this.#hasten = hasten
  }

  override count(key: string): Window {
    if (!this.find(key)) this.#unsent.delete(key) // of a window that is over
    const window = super.count(key)
    this.#note(key, 1)
    return window
  }

  override giveBack(key: string): void {
    super.giveBack(key)
    if (this.find(key)) this.#note(key, -1)
  }

  #note(key: string, by: number): void {
    const unsent = (this.#unsent.get(key) ?? 0) + by
    if (unsent === 0) this.#unsent.delete(key)
    else this.#unsent.set(key, unsent)
    if (unsent >= this.#many) this.#hasten()
  }

  /** What the table does not know yet; counts of windows that are over are dropped. */
  takeUnsent(): NamedWindow[] {
    const taken: NamedWindow[] = []
    for (const [key, count] of this.#unsent) {
      const since = this.find(key)?.since
      if (since !== undefined) taken.push({ name: this.#name, key, since, count })
    }
    this.#unsent.clear()
    return taken
  }

  /** The table did not take them; they go with the next exchange. */
  keepUnsent({ key, since, count }: NamedWindow): void {
    if (this.find(key)?.since !== since) return
    this.#unsent.set(key, (this.#unsent.get(key) ?? 0) + count)
  }

  /** Goes on with the window that all share. */
  learn({ key, since, count }: NamedWindow): void {
    const window = this.find(key)
    if (!window || this.now() - since >= WINDOW_MS) return
    window.since = since
    window.count = Math.max(0, count + (this.#unsent.get(key) ?? 0))
  }
}

/** Exchanges the sums of this process with the table, in one statement for all limits. */
export class Exchange {
  readonly #shared: SharedWindows
  readonly #now: () => number
  readonly #onFailed: (error: unknown) => void
  readonly #limits = new Map<string, SummedWindows>()
  readonly #timer: NodeJS.Timeout
  #running: Promise<void> | undefined
  #isHastened = false
  #sweptAt: number

  constructor(shared: SharedWindows, now: () => number, onFailed: (error: unknown) => void) {
    this.#shared = shared
    this.#now = now
    this.#onFailed = onFailed
    this.#sweptAt = now()
    this.#timer = setInterval(() => {
      if (!this.#running) void this.exchange()
    }, SHARED_LIMITS.exchangeMs)
    this.#timer.unref()
  }

  open(name: string, perMinute: number): SummedWindows {
    const windows = new SummedWindows(name, perMinute, this.#now, () => void this.exchange())
    this.#limits.set(name, windows)
    return windows
  }

  /** All that was counted so far. Never throws: without the database, each process counts for itself. */
  async exchange(): Promise<void> {
    this.#isHastened = true
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
    await this.#running
  }

  async #run(): Promise<void> {
    while (this.#isHastened) {
      this.#isHastened = false
      if (!(await this.#once())) return
    }
  }

  async #once(): Promise<boolean> {
    const now = this.#now()
    let sent = [...this.#limits.values()].flatMap((windows) => windows.takeUnsent())
    try {
      const sums = sent.length > 0 ? await this.#shared.add(sent, now) : []
      sent = []
      for (const window of sums) this.#limits.get(window.name)?.learn(window)
      if (now - this.#sweptAt < SHARED_LIMITS.sweepMs) return true
      this.#sweptAt = now
      await this.#shared.sweep(now)
      return true
    } catch (error) {
      for (const window of sent) this.#limits.get(window.name)?.keepUnsent(window)
      this.#onFailed(error)
      return false
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#isHastened = false
    await this.#running
  }
}
