// People meanwhile: a bounded flow of deployments and of reads through the balancer. Remembers what was acknowledged and
// how long each answer took.
import { createHash, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { judgeDeployment } from '../../histories/acknowledged.ts'
import { HistoryWriter } from '../../histories/history.ts'
import { EventSourceReader, recordPublicEvents } from '../../histories/readers.ts'
import { percentile } from '../figures.ts'

export interface Timing {
  at: number
  ms: number
  isRead: boolean
  /** 0: no answer. */
  status: number
}

const REQUEST_MS = 10_000
const AGAIN_MS = 250
const READS_PER_SECOND = 20
const JUDGE_AT_ONCE = 8
const READERS = 3

export class Flow {
  readonly #url: string
  readonly #token: string
  readonly #environments: number[]
  readonly #history: HistoryWriter
  readonly timings: Timing[] = []
  readonly acknowledged = new Map<number, number>() // task -> environment
  readonly #open = new Set<Promise<void>>()
  #isStopping = false
  #loops: Promise<void>[] = []
  readonly #readers: EventSourceReader[] = []

  constructor(url: string, token: string, environments: number[], history: string) {
    this.#url = url
    this.#token = token
    this.#environments = environments
    this.#history = new HistoryWriter(history, 'client')
  }

  start(deploymentsPerSecond: number): void {
    for (let n = 1; n <= READERS; n += 1) {
      this.#readers.push(new EventSourceReader(this.#source, `stream-${n}`).start())
    }
    this.#loops = [
      this.#every(1_000 / deploymentsPerSecond, (i) => this.#deploy(i)),
      this.#every(1_000 / READS_PER_SECOND, (i) => this.#read(i)),
    ]
  }

  get #source() {
    return { url: this.#url, token: this.#token, history: this.#history }
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all(this.#loops)
    await Promise.all(this.#open)
  }

  /** Milliseconds of answers that came between two moments, and requests without a good answer. */
  between(from: number, to: number) {
    const all = this.timings.filter(({ at, isRead }) => isRead && at >= from && at < to)
    const good = all.filter(({ status }) => status > 0 && status < 500).map(({ ms }) => ms)
    return {
      count: all.length,
      failed: all.length - good.length,
      p50: percentile(good, 50),
      p99: percentile(good, 99),
    }
  }

  /** A fixed pace: a slow answer delays no other request. */
  async #every(ms: number, act: (i: number) => Promise<void>): Promise<void> {
    for (let i = 0, next = performance.now(); !this.#isStopping; i += 1) {
      const acting = act(i).finally(() => this.#open.delete(acting))
      this.#open.add(acting)
      next += ms
      await delay(Math.max(0, next - performance.now()))
    }
  }

  async #ask(method: string, path: string, headers: Record<string, string> = {}) {
    const began = performance.now()
    const at = Date.now()
    const isRead = method === 'GET'
    try {
      const answer = await fetch(this.#url + path, {
        method,
        headers: { authorization: `Bearer ${this.#token}`, ...headers },
        signal: AbortSignal.timeout(REQUEST_MS),
      })
      const text = await answer.text()
      this.timings.push({ at, ms: performance.now() - began, status: answer.status, isRead })
      return { status: answer.status, text }
    } catch {
      this.timings.push({ at, ms: performance.now() - began, status: 0, isRead })
      return undefined
    }
  }

  async #read(i: number): Promise<void> {
    const environment = this.#environments[i % this.#environments.length]
    const last = [...this.acknowledged.keys()].at(-1)
    const paths = [
      '/api/projects',
      `/api/environments/${environment}/tasks`,
      `/api/environments/${environment}`,
      last === undefined ? '/api/projects' : `/api/tasks/${last}`,
    ]
    await this.#ask('GET', paths[i % paths.length] as string)
  }

  /** Repeats under one key until the answer is known. */
  async #deploy(i: number): Promise<void> {
    const environment = this.#environments[i % this.#environments.length] as number
    const key = randomUUID()
    for (let tries = 0; tries < 200; tries += 1) {
      const op = { f: 'deploy' as const, key, environment }
      this.#history.add({ ...op, type: 'invoke' })
      const path = `/api/environments/${environment}/tasks`
      const answer = await this.#ask('POST', path, { 'idempotency-key': key })
      const judged = judgeDeployment(
        answer && { status: answer.status, body: JSON.parse(answer.text) },
      )
      if (typeof judged === 'number') {
        this.acknowledged.set(judged, environment)
        this.#history.add({ ...op, type: 'ok', task: judged })
        return
      }
      this.#history.add({ ...op, type: judged === 'refused' ? 'fail' : 'info' })
      if (judged === 'refused') return
      await delay(AGAIN_MS)
    }
  }

  /** Waits until every acknowledged task has ended, and writes what the control plane says of it. */
  async judge(limitMs: number): Promise<void> {
    const left = [...this.acknowledged]
    const ends = performance.now() + limitMs
    const judgeNext = async (): Promise<void> => {
      for (let next = left.shift(); next; next = left.shift()) {
        const [task, environment] = next
        for (;;) {
          const answer = await this.#ask('GET', `/api/tasks/${task}`)
          if (answer?.status === 404) break // the checker finds that it is gone
          const shown = answer?.status === 200 ? JSON.parse(answer.text) : undefined
          const isOver = ['succeeded', 'failed', 'canceled'].includes(shown?.status)
          if (shown && (isOver || performance.now() > ends)) {
            const log = await this.#ask('GET', `/api/tasks/${task}/log`)
            const logDigest = digestOf(log?.text ?? '')
            const { status } = shown as { status: string }
            this.#history.add({ f: 'task', type: 'ok', environment, task, status, logDigest })
            break
          }
          await delay(AGAIN_MS)
          if (performance.now() > ends + REQUEST_MS) break
        }
      }
    }
    await Promise.all(Array.from({ length: JUDGE_AT_ONCE }, judgeNext))
    await Promise.all(this.#readers.map((reader) => reader.stop()))
    await recordPublicEvents(this.#source)
  }
}

export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')
