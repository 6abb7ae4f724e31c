// Counts wrong signatures per address and project by the minute, and in total by the second; refuses above a limit
// before the body is read. During a flood only addresses with a recent valid signature are accepted; a forge retries,
// and the next reconcile round catches up on what it missed. The total protects this process, so it is not shared.
import { AppError } from '@berth/shared'
import type { RateLimit } from '../../../identity/rate-limit.ts'
import { WEBHOOKS } from '../../../limits/forges.ts'

const KEYS = 10_000
const SECOND_MS = 1_000

export class WebhookFailures {
  readonly #limit: RateLimit
  readonly #now: () => number
  readonly #good = new Map<string, number>()
  #everybody = { since: 0, count: 0 }

  constructor(limit: RateLimit, now: () => number) {
    this.#limit = limit
    this.#now = now
  }

  /** Throws 429 for an address above a limit. Waits for nothing: a flood must stay cheap. */
  check(address: string, project: string): void {
    const known = this.#limit.look(`${address} ${project}`)
    if (known?.left === 0) throw tooMany(known.seconds)
    const isFlood =
      this.#now() - this.#everybody.since < SECOND_MS &&
      this.#everybody.count >= WEBHOOKS.failuresPerSecond
    if (!isFlood) return
    const good = this.#good.get(address)
    if (good === undefined || this.#now() - good >= WEBHOOKS.knownAddressMs) throw tooMany(1)
  }

  /** Records a wrong signature. */
  async note(address: string, project: string): Promise<void> {
    if (this.#now() - this.#everybody.since >= SECOND_MS) {
      this.#everybody = { since: this.#now(), count: 0 }
    }
    this.#everybody.count += 1
    await this.#limit.count(`${address} ${project}`)
  }

  /** Records a valid signature. */
  noteGood(address: string): void {
    put(this.#good, address, this.#now())
  }
}

function put(map: Map<string, number>, key: string, value: number): void {
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
