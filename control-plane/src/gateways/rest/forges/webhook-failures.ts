// Counts wrong signatures per address and project by the minute, and in total by the second; refuses above a limit
// before the body is read. During a flood only addresses with a recent valid signature are accepted; a forge retries,
// and the next reconcile round catches up on what it missed. Memory is bounded: the oldest keys are dropped.
import { AppError } from '@berth/shared'
import { WEBHOOKS } from '../../../limits/forges.ts'

const KEYS = 10_000
const MINUTE_MS = 60_000
const SECOND_MS = 1_000

interface Window {
  since: number
  count: number
}

export class WebhookFailures {
  readonly #now: () => number
  readonly #windows = new Map<string, Window>()
  readonly #good = new Map<string, number>()
  #everybody: Window = { since: 0, count: 0 }

  constructor(now: () => number) {
    this.#now = now
  }

  #current(key: string): Window | undefined {
    const window = this.#windows.get(key)
    return window && this.#now() - window.since < MINUTE_MS ? window : undefined
  }

  /** Throws 429 for an address above a limit. */
  check(address: string, project: string): void {
    const window = this.#current(`${address} ${project}`)
    if (window && window.count >= WEBHOOKS.failuresPerMinute) {
      throw tooMany(Math.ceil((window.since + MINUTE_MS - this.#now()) / 1_000))
    }
    const isFlood =
      this.#now() - this.#everybody.since < SECOND_MS &&
      this.#everybody.count >= WEBHOOKS.failuresPerSecond
    if (!isFlood) return
    const good = this.#good.get(address)
    if (good === undefined || this.#now() - good >= WEBHOOKS.knownAddressMs) throw tooMany(1)
  }

  /** Records a wrong signature. */
  note(address: string, project: string): void {
    if (this.#now() - this.#everybody.since >= SECOND_MS) {
      this.#everybody = { since: this.#now(), count: 0 }
    }
    this.#everybody.count += 1
    const key = `${address} ${project}`
    const window = this.#current(key)
    if (window) window.count += 1
    else put(this.#windows, key, { since: this.#now(), count: 1 })
  }

  /** Records a valid signature. */
  noteGood(address: string): void {
    put(this.#good, address, this.#now())
  }
}

function put<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key)
  const oldest = map.size >= KEYS ? map.keys().next().value : undefined
  if (oldest !== undefined) map.delete(oldest)
  map.set(key, value)
}

const tooMany = (seconds: number): AppError =>
  new AppError(
    'rate_limited',
    `Too many wrong signatures. Try again in ${Math.max(1, seconds)} s.`,
    {
      retry_after: Math.max(1, seconds),
    },
  )
