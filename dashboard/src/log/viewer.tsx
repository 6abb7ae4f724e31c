// The log of a task: its rows, the bar above them, and navigation by mouse, keys and addresses.
import { useLocation, useNavigate } from '@tanstack/react-router'
import {
  type ComponentType,
  type KeyboardEvent,
  type MouseEvent,
  type RefObject,
  useCallback,
  useEffect,
  useImperativeHandle,
  useMemo,
  useReducer,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react'
import { api } from '../api.ts'
import { Button } from '../components/button.tsx'
import { useShortcuts } from '../components/shortcuts.ts'
import { say } from '../components/toast.tsx'
import { remembered, useStore } from '../stores.ts'
import { type Lines, pick, readLines, writeLines } from './links.ts'
import css from './log.module.css'
import { Row } from './row.tsx'
import { FixedRows, MOST_ROWS, type RowsHandle, type RowsProps } from './rows.tsx'
import type { LogSession } from './session.ts'
import { Picked, QUERY_CHARS, Toolbar } from './toolbar.tsx'

/** A step of the task, as far as the log needs it. */
export interface LogStep {
  name: string
  /** "Build · Build image web" */
  words: string
  startedAt: number | undefined
  firstLine: number | undefined
  startsPhase: boolean
}

export interface ViewerHandle {
  jump(line: number): void
}

interface ViewerProps {
  taskId: number
  session: LogSession
  label: string
  steps: readonly LogStep[]
  /** More lines will come, so the view begins at the end. */
  isOpen: boolean
  /** Where the view begins if the address names no line. */
  start: number | undefined
  /** The line that says what went wrong. */
  error: number | undefined
  handle: RefObject<ViewerHandle | null>
}

/** The lines in the address; setting them does not scroll. */
function usePicked(): [Lines | undefined, (lines: Lines | undefined) => void] {
  const hash = useLocation({ select: (l) => l.hash })
  const navigate = useNavigate()
  const lines = useMemo(() => readLines(hash), [hash])
  const set = useCallback(
    (next: Lines | undefined) => {
      void navigate({
        to: '.',
        search: true,
        hash: next ? writeLines(next) : '',
        replace: true,
        resetScroll: false,
        hashScrollIntoView: false,
      })
    },
    [navigate],
  )
  return [lines, set]
}

const PREVIOUS = 'N'

const isNarrow = (): boolean => matchMedia('(width < 48rem)').matches

const timesChoice = remembered('berth.log.times')

/** The rows as asked for; wrapping ones are loaded on demand, and until then the others stay. */
function useRows(rows: RefObject<RowsHandle | null>, onReady: () => void) {
  const [isWrapped, setWrapped] = useState(isNarrow)
  const [Wrapped, setRows] = useState<ComponentType<RowsProps>>()
  /** The row that stays at the top when other rows take over; later rows begin where they are told to. */
  const [begin, setBegin] = useState<number>()
  useEffect(() => {
    if (begin !== undefined) setBegin(undefined)
  }, [begin])
  const ready = useRef(onReady)
  ready.current = onReady
  const wrap = (is: boolean) => {
    setBegin(rows.current?.first())
    setWrapped(is)
  }
  useEffect(() => {
    if (!isWrapped || Wrapped) return
    import('./wrapped-rows.tsx').then(
      (loaded) => {
        setBegin(rows.current?.first())
        setRows(() => loaded.WrappedRows)
        requestAnimationFrame(() => ready.current())
      },
      () => {
        say('Wrapping could not be loaded. Check your connection.')
        setWrapped(false)
      },
    )
  }, [isWrapped, Wrapped, rows])
  return { Rows: isWrapped && Wrapped ? Wrapped : FixedRows, isWrapped, wrap, begin }
}

/** The next of some ascending numbers; wraps around. */
function nextOf(numbers: readonly number[], at: number, by: 1 | -1): number | undefined {
  if (by > 0) return numbers.find((n) => n > at) ?? numbers[0]
  return numbers.findLast((n) => n < at) ?? numbers.at(-1)
}

export function LogViewer(props: ViewerProps) {
  const { session, steps, taskId } = props
  const { store } = session
  useSyncExternalStore(store.subscribe, () => store.version)
  const search = useSyncExternalStore(session.search.subscribe, session.search.get)
  const gone = useStore(session.gone)
  const [hasTimes, setTimes] = useState(() => timesChoice.get() === 'on')
  const [isOnly, showOnly] = useState(false)
  const [isFollowing, follow] = useState(props.isOpen)
  const [leftAt, leave] = useState<number>()
  const [at, setAt] = useState(0)
  const top = useRef(1)
  const here = useRef<string | null>(null)
  const redraw = useReducer((n: number) => n + 1, 0)[1]
  const [base, setBase] = useState(0)
  const [picked, setPicked] = usePicked()
  const rows = useRef<RowsHandle>(null)
  const input = useRef<HTMLInputElement>(null)
  const root = useRef<HTMLDivElement>(null)
  /** The line that the page jumped to, until the reader moves on. */
  const target = useRef<number>(undefined)
  const { Rows, isWrapped, wrap, begin } = useRows(rows, () => {
    if (target.current !== undefined) jump(target.current)
  })
  const { total } = store

  const isFiltered = isOnly && search.query !== ''
  const first = isFollowing ? Math.max(0, total - MOST_ROWS) : base
  const size = isFiltered ? search.matches.length : Math.min(total - first, MOST_ROWS)
  const numberAt = (index: number): number =>
    isFiltered ? (search.matches[index] ?? 0) : first + index + 1
  const matched = useMemo(() => new Set(search.matches), [search.matches])
  const stepByName = useMemo(() => new Map(steps.map((s) => [s.name, s])), [steps])
  const view = useRef({ numberAt, total })
  view.current = { numberAt, total }

  const setFollowing = useCallback(
    (is: boolean) => {
      follow(is)
      leave(store.total)
      if (!is) setBase(Math.max(0, store.total - MOST_ROWS))
    },
    [store],
  )
  const onView = useCallback(
    (from: number, to: number, first: number) => {
      const { numberAt: number } = view.current
      const numbers = Array.from({ length: to - from }, (_, i) => number(from + i))
      store.need(numbers.filter((n) => n > 0))
      top.current = number(first)
      // rows rerender themselves; the heading above them only when it changes
      const step = store.line(top.current)?.step ?? null
      if (step !== null && step !== here.current) redraw()
    },
    [store],
  )
  const jump = useCallback(
    (n: number) => {
      if (store.total === 0) return
      const line = Math.min(n, store.total)
      target.current = line
      setFollowing(false)
      showOnly(false)
      const from = store.total > MOST_ROWS ? Math.max(0, line - MOST_ROWS / 2) : 0
      setBase(from)
      requestAnimationFrame(() => rows.current?.show(line - from - 1))
    },
    [store, setFollowing],
  )
  useImperativeHandle(props.handle, () => ({
    jump(line) {
      setPicked({ from: line, to: line })
      jump(line)
      rows.current?.focus()
      reveal()
    },
  }))
  /** On a low or narrow window the page scrolls; the log itself must then come into view as well. */
  const reveal = () => root.current?.scrollIntoView({ block: 'nearest' })

  // after the first lines arrive: scroll to the line of the address, or to the start position
  const placed = useRef('')
  const address = picked ? writeLines(picked) : ''
  const wanted = picked?.from ?? props.start
  useEffect(() => {
    if (total === 0 || wanted === undefined) return
    const key = address || `start ${wanted}`
    if (placed.current === key || (placed.current !== '' && !address)) return
    placed.current = key
    jump(wanted)
    if (address) root.current?.scrollIntoView({ block: 'nearest' })
  }, [total, wanted, address, jump])
  const anchor = useRef(picked)
  anchor.current = picked
  const onNumber = useCallback(
    (event: MouseEvent<HTMLAnchorElement>, n: number) => {
      if (event.metaKey || event.ctrlKey) return
      event.preventDefault()
      const next = pick(anchor.current, n, event.shiftKey)
      placed.current = writeLines(next) // it is in view already
      setPicked(next)
    },
    [setPicked],
  )

  const toMatch = (n: number) => {
    setAt(n)
    if (isFiltered) rows.current?.show(search.matches.indexOf(n))
    else jump(n)
    reveal()
  }
  const step = (by: 1 | -1) => {
    const n = nextOf(search.matches, at, by)
    if (n !== undefined) toMatch(n)
  }
  // a new search goes to its first match from here on, as soon as that is known
  const huntFrom = useRef<number>(undefined)
  const start = (query: string, isRegex: boolean) => {
    huntFrom.current = query === '' ? undefined : top.current
    setAt(0)
    session.search.start(query, isRegex)
  }
  useEffect(() => {
    const from = huntFrom.current
    if (from === undefined) return
    const n = search.matches.find((m) => m >= from)
    const found = n ?? (search.isBusy ? undefined : search.matches[0])
    if (found === undefined) return
    huntFrom.current = undefined
    toMatch(found)
  })
  // a shared address may carry a search
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when the page opens
  useEffect(() => {
    const query = new URLSearchParams(location.search).get('q')
    if (!query) return
    start(query.slice(0, QUERY_CHARS), false)
    if (picked) huntFrom.current = undefined // the lines of the address come first
  }, [])
  const setOnly = (is: boolean) => {
    const n = at || numberAt(rows.current?.first() ?? 0)
    showOnly(is)
    if (search.query === '') return
    if (!is) return jump(n)
    const index = search.matches.findIndex((m) => m >= n)
    requestAnimationFrame(() => rows.current?.show(Math.max(0, index)))
  }
  const showTimes = (is: boolean) => {
    timesChoice.set(is ? 'on' : null)
    setTimes(is)
  }
  const phases = steps.filter((s) => s.startsPhase && s.firstLine).map((s) => s.firstLine ?? 1)
  const toPhase = (by: 1 | -1) => {
    const n = nextOf(phases, top.current, by)
    if (n !== undefined) jump(n)
  }
  const toError = async () => {
    const ask = (from_line: number) => api.task.errors.query({ task_id: taskId, from_line })
    const from = (picked?.from ?? 0) + 1
    const [n = (await ask(1)).found[0]] = (await ask(from)).found
    if (n === undefined) return say('No line looks like an error.')
    setPicked({ from: n, to: n })
    jump(n)
  }
  const toEnd = () => {
    setFollowing(true)
    rows.current?.toEnd()
  }
  const followToggle = {
    label: 'Follow',
    isOn: isFollowing,
    set: (is: boolean) => (is ? toEnd() : setFollowing(false)),
  }
  const find = () => {
    input.current?.focus()
    input.current?.select()
  }
  useShortcuts({
    '/': find,
    n: () => step(1),
    [PREVIOUS]: () => step(-1),
    f: () => (isFollowing ? setFollowing(false) : toEnd()),
    e: () => void toError().catch(() => say('The log could not be searched.')),
    '[': () => toPhase(-1),
    ']': () => toPhase(1),
  })
  const onKey = (event: KeyboardEvent) => {
    const isFind = event.key === 'f' && (event.ctrlKey || event.metaKey)
    const isInput = event.target === input.current
    if (isFind) find()
    else if (event.key === 'Home' && !isInput) {
      setFollowing(false)
      setBase(0)
      rows.current?.toStart()
    } else if (event.key === 'End' && !isInput) toEnd()
    else return
    event.preventDefault()
  }

  const row = (index: number, top?: number) => {
    const n = numberAt(index)
    const line = store.line(n) ?? search.lines.get(n)
    const isMatch = matched.has(n)
    const began = line?.step ? stepByName.get(line.step)?.startedAt : undefined
    return (
      <Row
        key={n}
        n={n}
        line={line}
        top={top}
        size={props.isOpen ? -1 : isFiltered ? size : total}
        position={isFiltered ? index + 1 : n}
        isLinked={picked !== undefined && n >= picked.from && n <= picked.to}
        isCurrent={n === at && isMatch}
        isWrong={n === props.error}
        found={isMatch ? search.query : ''}
        span={isMatch ? search.spans.get(n) : undefined}
        since={hasTimes ? (began ?? line?.t ?? 0) : undefined}
        onNumber={onNumber}
      />
    )
  }
  const fresh = isFollowing || leftAt === undefined ? 0 : total - leftAt
  here.current = store.line(top.current)?.step ?? here.current
  if (gone) {
    return (
      <div className={css.viewer}>
        <p className={css.nothing}>{gone} The summary is kept.</p>
      </div>
    )
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys that bubble from the log and its search
    <div
      ref={root}
      className={css.viewer}
      onKeyDown={onKey}
      onWheel={() => {
        target.current = undefined
      }}
      onPointerDown={() => {
        target.current = undefined
      }}
    >
      <Toolbar
        search={search}
        total={total}
        at={at}
        input={input}
        onSearch={start}
        onStep={step}
        onLeave={() => rows.current?.focus()}
        toggles={[
          { label: 'Only matches', isOn: isOnly, set: setOnly },
          { label: 'Wrap', isOn: isWrapped, set: wrap },
          { label: 'Times', isOn: hasTimes, set: showTimes },
          ...(props.isOpen ? [followToggle] : []),
        ]}
      />
      {picked && (
        <Picked
          lines={picked}
          store={store}
          query={search.query}
          onDrop={() => setPicked(undefined)}
        />
      )}
      <div className={css.place}>
        <span>{stepByName.get(here.current ?? '')?.words ?? 'Log'}</span>
        <span>{total === 1 ? '1 line' : `${total.toLocaleString('en')} lines`}</span>
      </div>
      {size === 0 ? (
        <p className={css.nothing}>
          {isFiltered ? 'No line matches.' : props.isOpen ? 'No output yet.' : 'No output.'}
        </p>
      ) : (
        <Rows
          count={size}
          begin={begin}
          isFollowing={isFollowing && !isFiltered}
          setFollowing={setFollowing}
          onView={onView}
          row={row}
          label={props.label}
          handle={rows}
        />
      )}
      {fresh > 0 && !isFiltered && (
        <div className={css.new}>
          <Button kind="main" small onClick={toEnd}>
            ↓ {fresh.toLocaleString('en')} new {fresh === 1 ? 'line' : 'lines'}
          </Button>
        </div>
      )}
    </div>
  )
}
