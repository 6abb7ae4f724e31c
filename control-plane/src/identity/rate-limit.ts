// Counts requests per key in windows of a minute. Where the windows are is the caller's choice (windows.ts). An IPv6
// address counts as its /64, because one customer has a whole /64.
import { isIPv6 } from 'node:net'
import { AppError } from '@berth/shared'
import { WINDOW_MS, type Window, type Windows } from './windows.ts'

/** What is left of a key's window after counting a request. */
export interface Quota {
  allowed: boolean
  left: number
  /** Until the window ends. */
  seconds: number
}

export class RateLimit {
  readonly perMinute: number
  readonly #windows: Windows
  /** The operator's setting that raises it; the refusal names it. */
  readonly #setting: string | undefined

  constructor(perMinute: number, windows: Windows, setting?: string) {
    this.perMinute = perMinute
    this.#windows = windows
    this.#setting = setting
  }

  /** Counts one; throws 429 with the seconds to wait if the key used up its minute. */
  async take(key: string): Promise<void> {
    const { allowed, seconds } = await this.count(key)
    if (!allowed) throw tooMany(seconds, this.#setting)
  }

  async count(key: string): Promise<Quota> {
    return this.#quotaOf(await this.#windows.count(nameOf(key)))
  }

  /** Counts nothing: what this process knows of the key, which the table may be ahead of. */
  look(key: string): Quota | undefined {
    const window = this.#windows.find(nameOf(key))
    return window && this.#quotaOf(window)
  }

  /** Undoes a count, because the request turned out to be free. */
  async giveBack(key: string): Promise<void> {
    await this.#windows.giveBack(nameOf(key))
  }

  #quotaOf({ since, count }: Window): Quota {
    return {
      allowed: count <= this.perMinute,
      left: Math.max(0, this.perMinute - count),
      seconds: Math.max(1, Math.ceil((since + WINDOW_MS - this.#windows.now()) / 1_000)),
    }
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
