// The log of one task while its page is open: the socket fills the store, HTTP serves the ranges. A subscription that
// ends without a lost connection is restarted where the store is.
import { api, problemOf } from '../api.ts'
import { applyEvent } from '../live/events.ts'
import type { LiveMessage } from '../live/touches.ts'
import { createStore, type Store } from '../stores.ts'
import type { LogRecord } from './lines.ts'
import { createSearch, type Search } from './search.ts'
import { createSearcher } from './search-worker.ts'
import { createLogStore, type LogStore } from './store.ts'

const AGAIN_MS = 3_000

export interface LogSession {
  store: LogStore
  search: Search
  /** Why there is nothing to show. */
  gone: Store<string | undefined>
  /** No more lines will follow. */
  ended: Store<boolean>
  /** Called once, when the page knows the length of the log. */
  begin(lines: number): void
  close(): void
}

interface LogMessage {
  kind: string
  attempt?: number
  lines?: LogRecord[] | number
}

/** A flood is painted about twelve times a second, which leaves the page time for its reader. */
const PAUSE_MS = 80

function createFrames(): (work: () => void) => void {
  let last = 0
  return (work) => {
    const run = () =>
      requestAnimationFrame(() => {
        last = performance.now()
        work()
      })
    const wait = last + PAUSE_MS - performance.now()
    if (wait > 0) setTimeout(run, wait)
    else run()
  }
}

/** `line`: the line the reader will see first. */
export function openLog(taskId: number, line: number): LogSession {
  const gone = createStore<string | undefined>(undefined)
  const ended = createStore(false)
  const searcher = createSearcher()
  const later = (work: () => void, ms: number): void => void setTimeout(work, ms)
  const store = createLogStore({
    load: (from, to) => api.task.log.query({ task_id: taskId, from, to }),
    schedule: createFrames(),
    later,
    now: () => Date.now(),
  })
  const search = createSearch({
    store,
    ask: (query, from) => api.task.search.query({ task_id: taskId, query, from_line: from }),
    work: searcher.search,
    later,
  })
  store.prime(line)
  let subscription: { unsubscribe(): void } | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let isClosed = false

  function hear(message: LogMessage): void {
    if (message.kind === 'log' && store.attempt > 0 && message.attempt !== store.attempt) {
      // a different attempt than the requested one: start at its beginning
      subscription?.unsubscribe()
      store.reset()
      follow(0)
    } else if (message.kind === 'log') store.add(message.lines as LogRecord[], message.attempt ?? 0)
    else if (message.kind === 'log.reset') store.reset()
    else if (message.kind === 'log.end') ended.set(true)
    else applyEvent(message as LiveMessage)
  }

  function follow(lines: number): void {
    if (isClosed) return
    subscription = api.task.stream.subscribe(
      { task_id: taskId, from_line: store.begin(lines) },
      {
        onData: (message) => hear(message.data as LogMessage),
        onError: (error) => {
          const problem = problemOf(error)
          if (problem.code === 'log_expired' || problem.code === 'log_gone')
            gone.set(problem.message)
          else timer = setTimeout(() => follow(store.total), AGAIN_MS)
        },
      },
    )
  }

  return {
    store,
    search,
    gone,
    ended,
    begin(lines) {
      if (!subscription) follow(lines)
    },
    close() {
      isClosed = true
      clearTimeout(timer)
      subscription?.unsubscribe()
      search.close()
      searcher.close()
    },
  }
}
