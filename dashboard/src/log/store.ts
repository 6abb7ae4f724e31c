// The log of one task outside React: lines by number, in ranges. The socket fills the newest range, HTTP loads the
// others on demand; the least recently used ones are evicted. Listeners are notified once a frame. Invariant: a range
// belongs to one of the two sources, so no line is lost between them or shown twice.
import { createAssembler, type Line, type LogRecord } from './lines.ts'

export const RANGE = 1_000
const KEPT_RANGES = 200
const LOADS_AT_ONCE = 4
const AGAIN_MS = 2_000
/** At most this many answers per range; long lines need several. */
const PARTS = 64

export interface LoadedPart {
  attempt: number
  lines: readonly LogRecord[]
  next_line: number | null
}

interface LogSource {
  load(from: number, to: number): Promise<LoadedPart>
  /** Once a frame at most. */
  schedule(work: () => void): void
  later(work: () => void, ms: number): void
  now(): number
}

interface Range {
  lines: (Line | undefined)[]
}

export type LogStore = ReturnType<typeof createLogStore>

export const rangeOf = (n: number): number => Math.floor((n - 1) / RANGE)
export const firstOf = (range: number): number => range * RANGE + 1

export function createLogStore(source: LogSource, keptRanges = KEPT_RANGES) {
  const ranges = new Map<number, Range>() // least recently used first
  const loading = new Map<number, Promise<void>>()
  const failedAt = new Map<number, number>()
  const listeners = new Set<() => void>()
  let wanted: number[] = []
  let total = 0
  let attempt = 0
  /** The first range that the socket fills. */
  let liveRange = 0
  let generation = 0
  let version = 0
  let isPlanned = false
  let assemble = createAssembler(putLive)

  function bump(): void {
    if (isPlanned) return
    isPlanned = true
    source.schedule(() => {
      isPlanned = false
      version += 1
      for (const listener of listeners) listener()
    })
  }

  function touch(id: number): Range | undefined {
    const range = ranges.get(id)
    if (!range) return undefined
    ranges.delete(id)
    ranges.set(id, range)
    return range
  }

  function make(id: number): Range {
    const range: Range = { lines: [] }
    ranges.set(id, range)
    if (ranges.size > keptRanges) {
      const newest = rangeOf(Math.max(1, total))
      for (const old of ranges.keys()) {
        if (old === newest || old === id) continue
        ranges.delete(old)
        break
      }
    }
    return range
  }

  function putLive(line: Line): void {
    const id = rangeOf(line.n)
    if (id < liveRange) return // a record that reaches back: HTTP owns that line
    if (line.n > total) total = line.n
    const range = ranges.get(id) ?? make(id)
    range.lines[line.n - firstOf(id)] = line
  }

  const lineAt = (n: number): Line | undefined =>
    ranges.get(rangeOf(n))?.lines[n - firstOf(rangeOf(n))]

  /** Ranges that the socket fills are loaded, or were; an evicted one is complete over HTTP. */
  const isLoadable = (id: number): boolean =>
    id >= 0 && total > 0 && id <= rangeOf(total) && (id < liveRange || id < rangeOf(total))

  async function fill(id: number): Promise<void> {
    const began = generation
    const lines: Line[] = []
    const [first, last] = [firstOf(id), firstOf(id) + RANGE - 1]
    const put = createAssembler((line) => {
      if (line.n >= first && line.n <= last) lines[line.n - first] = line
    })
    let from: number | null = first
    for (let part = 0; from !== null && part < PARTS; part++) {
      const answer: LoadedPart = await source.load(from, last)
      if (generation !== began || (attempt > 0 && answer.attempt !== attempt)) return
      for (const record of answer.lines) put(record)
      from = answer.next_line
    }
    failedAt.delete(id)
    const range = touch(id) ?? make(id)
    // lines that the socket sent meanwhile are newer
    for (let i = 0; i < lines.length; i++) range.lines[i] ??= lines[i]
  }

  function load(id: number): Promise<void> {
    const under = loading.get(id)
    if (under) return under
    const work = fill(id).finally(() => {
      loading.delete(id)
      bump()
      pump()
    })
    loading.set(id, work)
    return work
  }

  function pump(): void {
    for (const id of wanted) {
      if (loading.size >= LOADS_AT_ONCE) return
      if (ranges.has(id) || loading.has(id) || !isLoadable(id)) continue
      if (source.now() - (failedAt.get(id) ?? Number.NEGATIVE_INFINITY) < AGAIN_MS) continue
      load(id).catch(() => {
        failedAt.set(id, source.now())
        source.later(pump, AGAIN_MS)
      })
    }
  }

  return {
    get total() {
      return total
    },
    get attempt() {
      return attempt
    },
    get version() {
      return version
    },
    /** Every line is loaded. */
    get isWhole() {
      return ranges.size > rangeOf(total) && lineAt(total) !== undefined
    },
    /** The range of this line is loaded, as far as it has lines. */
    has: (n: number): boolean => ranges.has(rangeOf(n)),
    subscribe(listener: () => void): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    line: lineAt,
    /** Sets the known length of the log; returns the line from which the socket must send. */
    begin(lines: number): number {
      total = Math.max(total, lines)
      liveRange = rangeOf(Math.max(1, total))
      assemble = createAssembler(putLive) // the range restarts at its first record, so its lines are assembled again
      bump()
      return firstOf(liveRange)
    },
    add(records: readonly LogRecord[], ofAttempt: number): void {
      attempt = ofAttempt
      for (const record of records) assemble(record)
      bump()
    },
    /** For another attempt, whose output begins at line 1. */
    reset(): void {
      total = 0
      attempt = 0
      liveRange = 0
      generation += 1
      ranges.clear()
      failedAt.clear()
      assemble = createAssembler(putLive)
      bump()
    },
    /** Loads the lines the reader will see first, before the length of the log is known. */
    prime(n: number): void {
      load(rangeOf(n)).catch(() => {}) // requested again when it is in view
    },
    /** These lines are in view; earlier requests that have not started are dropped. */
    need(lines: readonly number[]): void {
      wanted = [...new Set(lines.map(rangeOf))].filter((id) => !touch(id))
      pump()
    },
    /** The lines of a range; rejects if they cannot be loaded. */
    async fetch(id: number): Promise<readonly (Line | undefined)[]> {
      if (!ranges.has(id) && isLoadable(id)) await load(id)
      return touch(id)?.lines ?? []
    },
  }
}
