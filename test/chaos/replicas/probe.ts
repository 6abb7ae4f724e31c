// Asks for something cheap through the balancer all the time, each time over a new connection, and remembers when the
// answers were good. The time without service is the longest time in which no question was answered well.
import { request } from 'node:http'

const EVERY_MS = 50
const PATIENCE_MS = 2_000 // a person would reload by then

interface Asked {
  at: number
  isGood: boolean
  /** 503 with Retry-After; other failures are broken connections and silence. */
  isHonest: boolean
}

export interface Outage {
  /** Longest time in a row without a good answer. */
  ms: number
  asked: number
  failed: number
  honest: number
}

export class Probe {
  readonly #url: string
  readonly #token: string
  readonly #asked: Asked[] = []
  readonly #timer: NodeJS.Timeout

  constructor(url: string, token: string) {
    this.#url = `${url}/api/me`
    this.#token = token
    this.#timer = setInterval(() => this.#ask(), EVERY_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** What happened between two times; questions that are still open are not in it. */
  between(from: number, to: number): Outage {
    const asked = this.#asked.filter(({ at }) => at >= from && at <= to)
    asked.sort((a, b) => a.at - b.at)
    let good = from
    let ms = 0
    for (const { at, isGood } of asked) {
      if (!isGood) continue
      ms = Math.max(ms, at - good - EVERY_MS)
      good = at
    }
    ms = Math.max(ms, to - good - EVERY_MS)
    const failed = asked.filter(({ isGood }) => !isGood)
    const honest = failed.filter(({ isHonest }) => isHonest).length
    return { ms: Math.max(0, ms), asked: asked.length, failed: failed.length, honest }
  }

  #ask(): void {
    const at = performance.now()
    const headers = { authorization: `Bearer ${this.#token}` }
    const end = (isGood: boolean, isHonest = false): void => {
      this.#asked.push({ at, isGood, isHonest })
    }
    let isOver = false
    const once = (isGood: boolean, isHonest = false): void => {
      if (!isOver) end(isGood, isHonest)
      isOver = true
    }
    const asked = request(this.#url, { headers, agent: false, timeout: PATIENCE_MS }, (answer) => {
      const { statusCode = 0 } = answer
      answer.resume()
      answer.once('error', () => once(false))
      answer.once('end', () =>
        once(statusCode === 200, statusCode === 503 && 'retry-after' in answer.headers),
      )
    })
    asked.once('timeout', () => asked.destroy(new Error('no answer in time')))
    asked.once('error', () => once(false))
    asked.end()
  }
}

/** One line for each kind of fault. */
export function describeOutages(outages: ReadonlyMap<string, readonly Outage[]>): string[] {
  return [...outages].map(([kind, list]) => {
    const times = list.map(({ ms }) => ms).toSorted((a, b) => a - b)
    const sum = (of: (one: Outage) => number) => list.reduce((total, one) => total + of(one), 0)
    const share =
      (100 * sum(({ failed }) => failed)) /
      Math.max(
        1,
        sum(({ asked }) => asked),
      )
    const longest = seconds(times.at(-1) ?? 0)
    const median = seconds(times[Math.floor(times.length / 2)] ?? 0)
    const honest = `${sum(({ honest: one }) => one)} of ${sum(({ failed }) => failed)} failures were 503 with Retry-After`
    return (
      `${kind}: ${list.length} times, without service at most ${longest}, median ${median}; ` +
      `${share.toFixed(1)} % of reads failed, ${honest}`
    )
  })
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`
