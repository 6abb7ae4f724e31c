// One search through a log, from its first line on and then through arriving lines. The worker searches loaded lines.
// For missing lines the server searches texts; for expressions the ranges are fetched one by one.
import { folded, type Line } from './lines.ts'
import { finderOf, type SearchAnswer, type SearchRequest } from './matching.ts'
import { firstOf, type LogStore, RANGE, rangeOf } from './store.ts'

export const MATCHES = 10_000
/** Characters of found lines that are kept, so that they can be shown when their range is not loaded. */
const KEPT_CHARS = 4_000_000
/** New lines are collected this long before they are searched. */
const COLLECT_MS = 300
/** Avoids a search for the first letter of a word that is being typed. */
const TYPING_MS = 120

export interface SearchState {
  query: string
  isRegex: boolean
  /** Line numbers, ascending. */
  matches: readonly number[]
  /** Where the match of a line is, if the worker reported it. */
  spans: ReadonlyMap<number, readonly [number, number]>
  /** The found lines themselves, as far as they are kept. */
  lines: ReadonlyMap<number, Line>
  isBusy: boolean
  /** The last line that was searched. */
  upTo: number
  problem: string | undefined
}

interface SearchParts {
  store: Pick<LogStore, 'total' | 'has' | 'isWhole' | 'fetch' | 'subscribe'>
  ask(
    query: string,
    from: number,
  ): Promise<{ found: number[]; texts?: string[]; next_line: number | null; log_lines: number }>
  work(request: Omit<SearchRequest, 'id'>): Promise<SearchAnswer['found']>
  later(work: () => void, ms: number): void
}

const NONE: SearchState = {
  query: '',
  isRegex: false,
  matches: [],
  spans: new Map(),
  lines: new Map(),
  isBusy: false,
  upTo: 0,
  problem: undefined,
}

interface Found {
  found: SearchAnswer['found']
  lines: Line[]
  upTo: number
}

export function createSearch({ store, ask, work, later }: SearchParts) {
  let state = NONE
  let run = 0
  let keptChars = 0
  const listeners = new Set<() => void>()
  const set = (next: Partial<SearchState>): void => {
    state = { ...state, ...next }
    for (const listener of listeners) listener()
  }

  async function inWorker(from: number): Promise<Found> {
    const id = rangeOf(from)
    const lines = await store.fetch(id)
    const upTo = Math.min(store.total, firstOf(id) + RANGE - 1)
    const texts: string[] = []
    for (let n = from; n <= upTo; n++) texts.push(lines[n - firstOf(id)]?.text ?? '')
    const { query, isRegex } = state
    const found = await work({ query, isRegex, first: from, texts })
    return { found, lines: found.flatMap(([n]) => lines[n - firstOf(id)] ?? []), upTo }
  }

  async function onServer(from: number): Promise<Found> {
    const { found, texts = [], next_line: next, log_lines: total } = await ask(state.query, from)
    const upTo = next === null ? Math.max(total, from) : next - 1
    const lines = texts.map((text, i) => {
      return { n: found[i] ?? 0, t: 0, s: 'out', step: null, text: folded(text) }
    })
    return { found: found.map((n) => [n, -1, -1]), lines, upTo }
  }

  function take({ found, lines, upTo }: Found): void {
    const last = state.matches.at(-1) ?? 0
    const fresh = found.filter(([n]) => n > last).slice(0, MATCHES - state.matches.length)
    const spans = new Map(state.spans)
    for (const [n, start, end] of found) if (start >= 0) spans.set(n, [start, end])
    const kept = new Map(state.lines)
    for (const line of lines) {
      keptChars += line.text.length
      if (keptChars <= KEPT_CHARS) kept.set(line.n, line)
    }
    set({ upTo, spans, lines: kept, matches: [...state.matches, ...fresh.map(([n]) => n)] })
  }

  /** Resolves when lines arrive after the searched part. */
  const more = (mine: number): Promise<void> =>
    new Promise((resolve) => {
      const stop = store.subscribe(() => {
        if (mine === run && store.total <= state.upTo) return
        stop()
        later(resolve, COLLECT_MS)
      })
      enders.add(() => {
        stop()
        resolve()
      })
    })
  const enders = new Set<() => void>()

  async function go(mine: number): Promise<void> {
    let from = 1
    while (mine === run && state.matches.length < MATCHES) {
      if (from > store.total) {
        set({ isBusy: false })
        await more(mine)
        enders.clear()
        // the last line may have been incomplete, so it is searched again
        from = Math.max(1, state.upTo)
        continue
      }
      const isLocal = state.isRegex || store.isWhole || store.has(from)
      const part = await (isLocal ? inWorker(from) : onServer(from))
      if (mine !== run) return
      take(part)
      from = part.upTo + 1
    }
    if (mine === run) set({ isBusy: false })
  }

  const goOn = (mine: number): void =>
    void go(mine).catch((error: unknown) => {
      if (mine !== run) return
      set({ isBusy: false, problem: error instanceof Error ? error.message : 'It failed.' })
    })

  const end = (): void => {
    run += 1
    for (const ender of enders) ender()
    enders.clear()
  }

  return {
    get: (): SearchState => state,
    subscribe(listener: () => void): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    start(query: string, isRegex: boolean): void {
      end()
      const mine = run
      keptChars = 0
      set({ ...NONE, query, isRegex, isBusy: query !== '' })
      if (query === '') return
      try {
        finderOf(query, isRegex)
      } catch {
        set({ isBusy: false, problem: 'This is not a regular expression.' })
        return
      }
      later(() => {
        if (mine === run) goOn(mine)
      }, TYPING_MS)
    },
    close: end,
  }
}

export type Search = ReturnType<typeof createSearch>
