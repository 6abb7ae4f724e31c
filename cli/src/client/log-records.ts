// Records of container logs: parses lines of the server's answer, drops records that a new connection repeats, and
// merges several services in chronological order. Performs no input or output.

import { z } from 'zod'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT } from '../terminal/exit.ts'

const LogEntry = z.looseObject({
  t: z.iso.datetime({ offset: true }),
  s: z.enum(['out', 'err']),
  service: z.string(),
  task: z.int(),
  text: z.string(),
})
export type LogEntry = z.infer<typeof LogEntry>

/** Days whose files were deleted. */
const LogGap = z.looseObject({ kind: z.literal('gone'), service: z.string(), days: z.string() })
type LogGap = z.infer<typeof LogGap>

export type LogItem = LogEntry | LogGap
export const isGap = (item: LogItem): item is LogGap => 'kind' in item && item.kind === 'gone'

const Item = z.union([LogEntry, LogGap])

export function parseItem(line: string): LogItem {
  try {
    return Item.parse(JSON.parse(line)) as LogItem
  } catch {
    throw new CliError(EXIT.error, 'the server sent log records that make no sense')
  }
}

/** Lines of a chunked stream; an unfinished last line is not a record. */
export async function* recordLines(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.trim() !== '') yield line
    if (rest.length > CLIENT.logLineChars * 2) {
      throw new CliError(EXIT.error, 'the server sent a log record without end')
    }
  }
}

interface Seen {
  ms: number
  key: string
}

/**
 * What was already returned, as far as a new connection could repeat it. Everything up to `floor` counts as known;
 * later records are remembered one by one, because equal times are common and equal lines happen.
 */
export class Resumption {
  #recent: Seen[] = []
  #floor = Number.NEGATIVE_INFINITY
  #newest = Number.NEGATIVE_INFINITY
  /** Records that the current connection may repeat. */
  #pending = new Map<string, number>()

  /** Where the next connection must begin; null: nothing was seen, so repeat the first request. */
  get since(): string | null {
    const [first] = this.#recent
    if (!first) return null
    const from = this.#floor === Number.NEGATIVE_INFINITY ? first.ms : this.#floor + 1
    return new Date(from).toISOString()
  }

  /** A connection begins. */
  begin(): void {
    this.#pending.clear()
    for (const { key } of this.#recent) {
      this.#pending.set(key, (this.#pending.get(key) ?? 0) + 1)
    }
  }

  /** False: it was returned before. */
  take(entry: LogEntry): boolean {
    const ms = Date.parse(entry.t)
    if (ms <= this.#floor) return false
    const key = `${entry.t} ${entry.s} ${entry.task} ${entry.service} ${entry.text}`
    const repeats = this.#pending.get(key) ?? 0
    if (repeats > 0) {
      this.#pending.set(key, repeats - 1)
      return false
    }
    this.#recent.push({ ms, key })
    this.#newest = Math.max(this.#newest, ms)
    this.#forget()
    return true
  }

  #forget(): void {
    const first = this.#recent[0]
    const isOld = first !== undefined && first.ms < this.#newest - 2 * CLIENT.logOverlapMs
    const isMuch = this.#recent.length > 2 * CLIENT.logOverlapRecords
    if (!isOld && !isMuch) return
    const sorted = this.#recent.map(({ ms }) => ms).sort((a, b) => a - b)
    const byCount = isMuch ? (sorted[sorted.length - CLIENT.logOverlapRecords] ?? 0) : -Infinity
    // whole milliseconds, because records within one millisecond cannot be ordered
    this.#floor = Math.max(this.#floor, byCount, this.#newest - CLIENT.logOverlapMs)
    this.#recent = this.#recent.filter(({ ms }) => ms > this.#floor)
  }
}

interface Source {
  queue: { item: LogItem; at: number }[]
  done: boolean
  next: Promise<void>
}

const timeOf = (item: LogItem): number => (isGap(item) ? 0 : Date.parse(item.t))

/**
 * Merges several streams, the oldest record first. `patienceMs`: how long a record waits for older ones of quiet
 * streams; null: until those streams have returned a record or ended.
 */
export async function* mergeByTime(
  streams: readonly AsyncIterable<LogItem>[],
  patienceMs: number | null,
  now: () => number = Date.now,
): AsyncGenerator<LogItem> {
  const iterators = streams.map((stream) => stream[Symbol.asyncIterator]())
  const sources: Source[] = iterators.map(() => ({
    queue: [],
    done: false,
    next: Promise.resolve(),
  }))
  const pull = (source: Source, i: number) => {
    source.next = (iterators[i] as AsyncIterator<LogItem>).next().then(({ done, value }) => {
      if (done) source.done = true
      else source.queue.push({ item: value, at: now() })
    })
    source.next.catch(() => {}) // reported by the race below
  }
  sources.forEach(pull)
  try {
    for (;;) {
      const waiting = sources.filter((one) => !one.done && one.queue.length === 0)
      const heads = sources.flatMap((one) => (one.queue[0] ? [one.queue[0]] : []))
      if (heads.length === 0 && waiting.length === 0) return
      const oldest = Math.min(...heads.map(({ at }) => at))
      const left = patienceMs === null ? Infinity : oldest + patienceMs - now()
      if (waiting.length > 0 && (heads.length === 0 || left > 0)) {
        await raceFor(waiting, heads.length === 0 ? Infinity : left)
        continue
      }
      const first = Math.min(...heads.map(({ item }) => timeOf(item)))
      const at = sources.findIndex((one) => one.queue[0] && timeOf(one.queue[0].item) === first)
      const source = sources[at] as Source
      const head = source.queue.shift()
      if (!source.done) pull(source, at)
      if (head) yield head.item
    }
  } finally {
    // not awaited: an iterator that waits for its next record would only react then
    for (const one of iterators) one.return?.().catch(() => {})
  }
}

async function raceFor(sources: readonly Source[], ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>((resolve) => {
    if (Number.isFinite(ms)) timer = setTimeout(resolve, Math.max(0, ms))
  })
  try {
    await Promise.race([...sources.map(({ next }) => next), limit])
  } finally {
    clearTimeout(timer)
  }
}
