// Logs of a running environment: what its services write, and the requests that the proxy answered. One viewer for both:
// filters in one bar, older lines on scrolling up, new lines at the end.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import {
  type KeyboardEvent,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import type { Problem } from '../../api.ts'
import { Button } from '../../components/button.tsx'
import { useShortcuts } from '../../components/shortcuts.ts'
import { Note, Skeleton } from '../../components/states.tsx'
import { Moment } from '../../components/time.tsx'
import { type Environment, useServers } from '../../data.ts'
import viewer from '../../log/log.module.css'
import { isLine, timeOf } from '../../log/runtime/records.ts'
import { RuntimeRowView } from '../../log/runtime/row.tsx'
import { RuntimeRows, type RuntimeRowsHandle } from '../../log/runtime/rows.tsx'
import rowsCss from '../../log/runtime/runtime.module.css'
import { openRuntimeSession, type RuntimeSession } from '../../log/runtime/session.ts'
import type { RuntimeRow } from '../../log/runtime/store.ts'
import { useStore } from '../../stores.ts'
import { EnvironmentFrame } from './frame.tsx'
import { LogsBar } from './logs/bar.tsx'
import { type LogChoice, readChoice, writeChoice } from './logs/choice.ts'
import css from './logs/logs.module.css'

const NARROW = '(width < 48rem)'

export function EnvironmentLogs() {
  return (
    <EnvironmentFrame tab="Logs">{(e) => <Logs key={e.id} environment={e} />}</EnvironmentFrame>
  )
}

function Logs({ environment: e }: { environment: Environment }) {
  const search = useSearch({ strict: false }) as Record<string, unknown>
  const navigate = useNavigate()
  const choice = readChoice(search)
  const key = JSON.stringify(writeChoice(choice))
  const choose = useCallback(
    (change: Partial<LogChoice>) =>
      void navigate({
        to: '/environments/$id/logs',
        params: { id: String(e.id) },
        search: writeChoice({ ...readChoice(JSON.parse(key)), ...change }),
        replace: true,
        resetScroll: false,
      }),
    [navigate, e.id, key],
  )
  const server = useServers().data?.servers.find((s) => s.id === e.server.id)
  const [round, again] = useState(0)
  const isOffline = server?.status === 'offline'
  const session = useSession(e.id, key, round)
  if (!session) return null
  return (
    <Viewer
      environment={e}
      choice={choice}
      choose={choose}
      session={session}
      again={() => again(round + 1)}
      offlineSince={isOffline ? server.last_seen_at : undefined}
    />
  )
}

/** A session for what is chosen; another choice closes it. */
function useSession(id: number, key: string, round: number): RuntimeSession | undefined {
  const [session, set] = useState<RuntimeSession>()
  // biome-ignore lint/correctness/useExhaustiveDependencies: another round begins again
  useEffect(() => {
    const { log, service, levels, statuses, q, until } = readChoice(JSON.parse(key))
    const opened = openRuntimeSession({
      environment_id: id,
      log,
      ...(service === '' ? {} : { services: [service] }),
      ...(levels.length > 0 && log === 'services' ? { levels } : {}),
      ...(statuses.length > 0 && log === 'requests' ? { statuses } : {}),
      ...(q === '' ? {} : { q }),
      ...(until === '' ? {} : { until }),
    })
    set(opened)
    return () => opened.close()
  }, [id, key, round])
  return session
}

interface ViewerProps {
  environment: Environment
  choice: LogChoice
  choose(change: Partial<LogChoice>): void
  session: RuntimeSession
  again(): void
  /** Undefined while the server is online. */
  offlineSince: string | null | undefined
}

const day = new Intl.DateTimeFormat(undefined, { weekday: 'short', day: 'numeric', month: 'short' })

function Viewer(props: ViewerProps) {
  const { environment: e, choice, choose, session } = props
  const view = useStore(session.view)
  const { rows } = session.store
  const [isWrapped, wrap] = useState(() => matchMedia(NARROW).matches)
  const [follows, setFollows] = useState(choice.until === '')
  const [top, setTop] = useState<RuntimeRow>()
  const [seen, setSeen] = useState<number>()
  const input = useRef<HTMLInputElement>(null)
  const list = useRef<RuntimeRowsHandle>(null)
  const box = useTop()
  const isFollowing = follows && view.isLive

  // a new choice begins at its end
  // biome-ignore lint/correctness/useExhaustiveDependencies: a session is a choice
  useEffect(() => setFollows(choice.until === ''), [session])

  const last = rows.at(-1)?.key
  const setFollowing = useCallback(
    (is: boolean) => {
      setFollows(is)
      setSeen(is ? undefined : last)
    },
    [last],
  )
  const toEnd = () => {
    if (!view.isLive) return choose({ until: '' })
    setFollowing(true)
    list.current?.toEnd()
  }
  const onNear = useCallback(
    (end: 'older' | 'newer') => (end === 'older' ? session.loadOlder() : session.loadNewer()),
    [session],
  )
  const onTime = useCallback(
    (t: string) => choose({ until: t, q: '', levels: [], statuses: [] }),
    [choose],
  )
  const { startKey } = view
  const row = useCallback(
    ({ record, key }: RuntimeRow) => (
      <RuntimeRowView record={record} found={choice.q} isStart={key === startKey} onTime={onTime} />
    ),
    [choice.q, onTime, startKey],
  )
  const services = useMemo(
    () => [...new Set(rows.flatMap(({ record: r }) => (isLine(r) ? base(r.service) : [])))],
    [rows],
  )
  const find = () => {
    input.current?.focus()
    input.current?.select()
  }
  useShortcuts({ '/': find, f: () => (isFollowing ? setFollowing(false) : toEnd()) })
  const onKey = (event: KeyboardEvent) => {
    const isField =
      event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement
    if (event.key === 'f' && (event.ctrlKey || event.metaKey)) find()
    else if (isField) return
    else if (event.key === 'End') toEnd()
    else if (event.key === 'Home') {
      setFollowing(false)
      list.current?.toStart()
    } else return
    event.preventDefault()
  }
  const fresh = seen === undefined || last === undefined || isFollowing ? 0 : last - seen
  const label = choice.log === 'services' ? 'Output of the services' : 'Requests'
  const noun = choice.log === 'services' ? 'line' : 'request'
  const topTime = top && timeOf(top.record)
  return (
    <>
      {view.isOutdated && <Outdated environment={e} />}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: keys that bubble from the log and its search */}
      <div ref={box} className={`${viewer.viewer} ${rowsCss.viewer}`} onKeyDown={onKey}>
        <LogsBar
          environment={e}
          choice={choice}
          services={services}
          input={input}
          isWrapped={isWrapped}
          isFollowing={isFollowing}
          choose={choose}
          wrap={wrap}
          follow={(is) => (is ? toEnd() : setFollowing(false))}
        />
        <div className={css.place}>
          <span>{topTime ? day.format(new Date(topTime)) : label}</span>
          <Progress session={session} choice={choice} />
          <span>
            {`${rows.length.toLocaleString('en')} ${rows.length === 1 ? noun : `${noun}s`}`}
            {view.state === 'ready' && session.store.older === null && rows.length > 0 && ', all'}
          </span>
        </div>
        {rows.length > 0 ? (
          <RuntimeRows
            key={`${choice.log} ${choice.until}`}
            rows={rows}
            isFollowing={isFollowing}
            setFollowing={setFollowing}
            isWrapped={isWrapped}
            startKey={view.startKey}
            onNear={onNear}
            onTop={setTop}
            row={row}
            serviceChars={Math.min(20, Math.max(4, ...services.map((name) => name.length)) + 1)}
            label={label}
            handle={list}
          />
        ) : (
          <Nothing {...props} state={view.state} problem={view.problem} />
        )}
        {fresh > 0 && (
          <div className={css.new}>
            <Button kind="main" small onClick={toEnd}>
              ↓ {fresh.toLocaleString('en')} new {fresh === 1 ? noun : `${noun}s`}
            </Button>
          </div>
        )}
      </div>
    </>
  )
}

const base = (service: string): string => service.replace(/\.\d+$/, '')

/** The log ends at the bottom of the window, so it needs to know what is above it. */
function useTop() {
  const ref = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    const e = ref.current
    if (!e) return
    const measure = () => {
      const top = Math.round(e.getBoundingClientRect().top + scrollY)
      e.style.setProperty('--runtime-top', `${top}px`)
    }
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(document.body)
    return () => observer.disconnect()
  }, [])
  return ref
}

function Outdated({ environment: e }: { environment: Environment }) {
  return (
    <Note kind="warn">
      The agent on {e.server.name} is too old to look back or search. You see its newest lines.{' '}
      <Link to="/servers/$id" params={{ id: String(e.server.id) }}>
        Update the agent
      </Link>
    </Note>
  )
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

function Progress({ session, choice }: { session: RuntimeSession; choice: LogChoice }) {
  const { isLoading, searchedTo, problem, state } = useStore(session.view)
  if (problem && state === 'ready') {
    return <span className={css.problem}>Not live: {problem.message}</span>
  }
  const isSearch = choice.q !== '' || choice.levels.length > 0 || choice.statuses.length > 0
  if (isLoading === 'older' && isSearch && searchedTo) {
    return <span role="status">Searching, back to {clock.format(new Date(searchedTo))}…</span>
  }
  return isLoading === 'older' ? <span role="status">Loading older lines…</span> : null
}

interface NothingProps extends ViewerProps {
  state: 'loading' | 'ready' | 'failed'
  problem: Problem | undefined
}

/** What the viewer shows in place of lines. */
function Nothing(props: NothingProps) {
  const { environment: e, choice, choose, state, problem, session, offlineSince } = props
  const isFiltered =
    choice.q !== '' || choice.service !== '' || choice.levels.length + choice.statuses.length > 0
  if (state === 'loading') {
    return (
      <div className={css.loading}>
        <Skeleton lines={8} />
      </div>
    )
  }
  if (state === 'failed') {
    const isOff = problem?.code === 'server_offline'
    return (
      <div className={css.middle} role="alert">
        {isOff ? (
          <p>
            {e.server.name} offline
            {offlineSince && (
              <>
                {' '}
                since <Moment at={offlineSince} />
              </>
            )}
            . Its logs are on the server and load when it is back.
          </p>
        ) : (
          <p>{problem?.message}</p>
        )}
        {problem?.code !== 'request_log_unavailable' && (
          <Button onClick={props.again}>Try again</Button>
        )}
      </div>
    )
  }
  return <Empty {...{ choice, choose, session, isFiltered }} isDeployed={e.deployed !== null} />
}

interface EmptyProps extends Pick<ViewerProps, 'choice' | 'choose' | 'session'> {
  isFiltered: boolean
  isDeployed: boolean
}

function Empty({ choice, choose, session, isFiltered, isDeployed }: EmptyProps) {
  const { isLoading } = useStore(session.view)
  const isMore = session.store.older !== null
  // nothing on the first page: the search goes on
  useEffect(() => {
    if (isMore && !isLoading) session.loadOlder()
  }, [isMore, isLoading, session])
  if (isMore) {
    return (
      <div className={css.middle}>
        <p className={css.quiet}>Searching…</p>
      </div>
    )
  }
  const noun = choice.log === 'services' ? 'lines' : 'requests'
  return (
    <div className={css.middle}>
      <p className={css.quiet}>
        {isFiltered
          ? `No ${noun} match.`
          : choice.until !== ''
            ? `No ${noun} at that time.`
            : isDeployed
              ? `No ${noun} yet. New ones appear here.`
              : 'Nothing is deployed yet.'}
      </p>
      {(isFiltered || choice.until !== '') && (
        <Button onClick={() => choose({ ...readChoice({}), log: choice.log })}>
          Clear filters
        </Button>
      )}
    </div>
  )
}
