// Counts requests per key in windows of a minute. Memory is bounded: a flood of keys drops the oldest windows. An IPv6
// address counts as its /64, because one customer has a whole /64.
import { isIPv6 } from 'node:net'
import { AppError, REST } from '@berth/shared'

const WINDOW_MS = 60_000

/** What is left of a key's window after counting a request. */
export interface Quota {
  allowed: boolean
  left: number
  /** Until the window ends. */
  seconds: number
}

export class RateLimit {
  readonly perMinute: number
  /** The operator's setting that raises it; the refusal names it. */
  readonly #setting: string | undefined
  readonly #now: () => number
  readonly #windows = new Map<string, { since: number; count: number }>()

  constructor(perMinute: number, now: () => number, setting?: string) {
    this.perMinute = perMinute
    this.#setting = setting
    this.#now = now
  }

  /** Counts one; throws 429 with the seconds to wait if the key used up its minute. */
  take(key: string): void {
    const { allowed, seconds } = this.count(key)
    if (!allowed) throw tooMany(seconds, this.#setting)
  }

  count(key: string): Quota {
    const now = this.#now()
    const name = nameOf(key)
    let window = this.#windows.get(name)
    if (!window || now - window.since >= WINDOW_MS) {
      this.#windows.delete(name)
      if (this.#windows.size >= REST.rateLimitKeys) {
        this.#windows.delete(this.#windows.keys().next().value as string)
      }
      window = { since: now, count: 0 }
      this.#windows.set(name, window)
    }
    window.count += 1
    return {
      allowed: window.count <= this.perMinute,
      left: Math.max(0, this.perMinute - window.count),
      seconds: Math.max(1, Math.ceil((window.since + WINDOW_MS - now) / 1_000)),
    }
  }

  /** Undoes a count, because the request turned out to be free. */
  giveBack(key: string): void {
    const window = this.#windows.get(nameOf(key))
    if (window && window.count > 0) window.count -= 1
  }

  get size(): number {
    return this.#windows.size
  }
}

export function tooMany(seconds: number, setting?: string): AppError {
  const raise = setting === undefined ? '' : ` The operator of Berth can raise ${setting}.`
  const message = `Too many requests. Try again in ${seconds} s.${raise}`
  return new AppError('rate_limited', message, { retry_after: seconds })
}

function nameOf(key: string): string {
  if (!key.includes(':') || !isIPv6(key)) return key
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(key)?.[1]
  if (mapped) return mapped
  const [head = '', tail] = (key.split('%')[0] ?? '').toLowerCase().split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length)
  const groups = [...left, ...Array<string>(zeros).fill('0'), ...right]
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}/64`
}
