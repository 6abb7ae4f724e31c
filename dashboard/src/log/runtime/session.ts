// One view of a runtime log: which lines, the pages around them, and new lines while it is live. A changed selection is a
// new session. An agent that cannot read pages sends its last lines instead; then the filters work here.
import { createLineFilter, levelOf } from '@berth/shared/log-lines'
import { api, type Problem, problemOf } from '../../api.ts'
import { createStore, type Store } from '../../stores.ts'
import type { RuntimeSelection } from './records.ts'
import { RuntimeStore } from './store.ts'

const PAGE = 500
const LAST_LINES = 1_000
const AGAIN_MS = 3_000
/** Lines arrive in bursts; one paint covers many. */
const PAINT_MS = 100

export interface RuntimeView {
  state: 'loading' | 'ready' | 'failed'
  problem: Problem | undefined
  /** New lines appear by themselves. */
  isLive: boolean
  /** The agent sends only its last lines. */
  isOutdated: boolean
  isLoading: 'older' | 'newer' | undefined
  /** How far a search got. */
  searchedTo: string | null
  /** Counts changes of the rows. */
  version: number
  /** The first row after the chosen time. */
  startKey: number | undefined
}

export interface RuntimeSession {
  store: RuntimeStore
  view: Store<RuntimeView>
  loadOlder(): void
  loadNewer(): void
  close(): void
}

export function openRuntimeSession(selection: RuntimeSelection): RuntimeSession {
  const store = new RuntimeStore()
  const { until, ...rest } = selection
  const view = createStore<RuntimeView>({
    state: 'loading',
    problem: undefined,
    isLive: false,
    isOutdated: false,
    isLoading: undefined,
    searchedTo: null,
    version: 0,
    startKey: undefined,
  })
  const closing = new AbortController()
  const { signal } = closing
  let subscription: { unsubscribe(): void } | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let painting: ReturnType<typeof setTimeout> | undefined
  const show = (change: Partial<RuntimeView>): void => {
    if (!signal.aborted) view.set({ ...view.get(), ...change })
  }
  const changed = (change: Partial<RuntimeView> = {}): void =>
    show({ ...change, version: view.get().version + 1 })
  const paint = (): void => {
    painting ??= setTimeout(() => {
      painting = undefined
      changed()
    }, PAINT_MS)
  }
  const later = (act: () => void): void => {
    clearTimeout(timer)
    timer = setTimeout(act, AGAIN_MS)
  }
  const fail = (error: unknown): void => {
    if (signal.aborted) return
    const problem = problemOf(error)
    if (problem.code === 'agent_outdated' && selection.log === 'services') followLast()
    else {
      show({ state: 'failed', problem, isLoading: undefined })
      // an offline server comes back
      if ((problem.status ?? 503) >= 500) later(start)
    }
  }
  const unfollow = (): void => {
    clearTimeout(timer)
    subscription?.unsubscribe()
    subscription = undefined
  }

  const follow = (): void => {
    unfollow()
    const after = store.newer
    if (after === undefined || signal.aborted) return
    show({ isLive: true, problem: undefined })
    subscription = api.runtimeLog.lines.subscribe(
      { ...rest, after },
      {
        onData(message) {
          const cursor = message.id === '-' ? '' : message.id
          store.append(message.data.records, cursor)
          store.trim('older')
          show({ problem: undefined })
          if (message.data.records.length > 0) paint()
        },
        onError(error) {
          show({ problem: problemOf(error) })
          later(follow)
        },
        onComplete: () => later(follow),
      },
    )
  }

  /** All that an older agent can do. */
  const followLast = (): void => {
    unfollow()
    const accept = createLineFilter({ search: rest.q, levels: rest.levels })
    const asked = {
      environment_id: rest.environment_id,
      tail: LAST_LINES,
      ...(rest.services ? { services: rest.services } : {}),
    }
    store.clear()
    store.append([], '')
    show({ state: 'ready', isOutdated: true, isLive: true })
    subscription = api.environment.logs.subscribe(asked, {
      onData(message) {
        if (message.kind === 'begun') {
          store.clear()
          store.append([], '')
        } else {
          const records = message.records.map((record) =>
            'kind' in record ? record : { ...record, level: levelOf(record.text) },
          )
          const wanted = records.filter((r) => 'kind' in r || !accept || accept(r.text))
          store.append(wanted, '')
          store.trim('older')
        }
        paint()
      },
      onError(error) {
        show({ problem: problemOf(error) })
        later(followLast)
      },
    })
  }

  const load = async (direction: 'older' | 'newer', cursor: string): Promise<void> => {
    show({ isLoading: direction })
    const where = direction === 'older' ? { before: cursor } : { after: cursor }
    const page = await api.runtimeLog.page.query({ ...rest, ...where, limit: PAGE }, { signal })
    if (direction === 'older') {
      store.prepend(page.records, page.older, cursor)
      const isCut = store.trim('newer')
      if (isCut) unfollow()
      const { isLive } = view.get()
      changed({ isLoading: undefined, searchedTo: page.searched_to, isLive: isLive && !isCut })
      return
    }
    store.append(page.records, page.newer)
    store.trim('older')
    changed({ isLoading: undefined })
    if (page.is_last) follow()
  }

  const begin = async (): Promise<void> => {
    const page = await api.runtimeLog.page.query({ ...selection, limit: PAGE }, { signal })
    store.clear()
    store.prepend(page.records, page.older, page.newer)
    changed({ state: 'ready', problem: undefined, searchedTo: page.searched_to })
    if (until === undefined) return follow()
    // the chosen time is in the middle of what is shown
    await load('newer', page.newer)
    changed({ startKey: 0 })
  }
  const start = (): void => void begin().catch(fail)
  start()

  const guarded = (direction: 'older' | 'newer') => (): void => {
    const { state, isLoading, isLive, isOutdated } = view.get()
    const cursor = direction === 'older' ? store.older : isLive ? undefined : store.newer
    if (state !== 'ready' || isLoading || isOutdated || cursor == null) return
    load(direction, cursor).catch((error: unknown) => {
      if (signal.aborted) return
      show({ problem: problemOf(error) })
      later(() => show({ isLoading: undefined, problem: undefined }))
    })
  }

  return {
    store,
    view,
    loadOlder: guarded('older'),
    loadNewer: guarded('newer'),
    close() {
      closing.abort()
      unfollow()
      clearTimeout(painting)
    },
  }
}
