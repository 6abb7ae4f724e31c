// One search through a log, from its first line on and then through arriving lines. The worker searches loaded lines.
// For missing lines the server searches texts; for expressions the ranges are fetched one by one.
import { finderOf, type SearchAnswer, type SearchRequest } from './matching.ts'
import { firstOf, type LogStore, RANGE, rangeOf } from './store.ts'

export const MATCHES = 10_000
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
  ): Promise<{ found: number[]; next_line: number | null; log_lines: number }>
  work(request: Omit<SearchRequest, 'id'>): Promise<SearchAnswer['found']>
  later(work: () => void, ms: number): void
}

const NONE: SearchState = {
  query: '',
  isRegex: false,
  matches: [],
  spans: new Map(),
  isBusy: false,
  upTo: 0,
  problem: undefined,
}

export function createSearch({ store, ask, work, later }: SearchParts) {
  let state = NONE
  let run = 0
  const listeners = new Set<() => void>()
  const set = (next: Partial<SearchState>): void => {
    state = { ...state, ...next }
    for (const listener of listeners) listener()
  }

  async function inWorker(from: number): Promise<{ found: SearchAnswer['found']; upTo: number }> {
    const id = rangeOf(from)
    const lines = await store.fetch(id)
    const upTo = Math.min(store.total, firstOf(id) + RANGE - 1)
    const texts: string[] = []
    for (let n = from; n <= upTo; n++) texts.push(lines[n - firstOf(id)]?.text ?? '')
    const { query, isRegex } = state
    return { found: await work({ query, isRegex, first: from, texts }), upTo }
  }

  async function onServer(from: number): Promise<{ found: SearchAnswer['found']; upTo: number }> {
    const { found, next_line: next, log_lines: lines } = await ask(state.query, from)
    const upTo = next === null ? Math.max(lines, from) : next - 1
    return { found: found.map((n) => [n, -1, -1]), upTo }
  }

  function take(found: SearchAnswer['found'], upTo: number): void {
    const last = state.matches.at(-1) ?? 0
    const fresh = found.filter(([n]) => n > last).slice(0, MATCHES - state.matches.length)
    const spans = new Map(state.spans)
    for (const [n, start, end] of found) if (start >= 0) spans.set(n, [start, end])
    set({ upTo, spans, matches: [...state.matches, ...fresh.map(([n]) => n)] })
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
      const { found, upTo } = await (isLocal ? inWorker(from) : onServer(from))
      if (mine !== run) return
      take(found, upTo)
      from = upTo + 1
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
