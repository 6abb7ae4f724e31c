// Phases and their steps with durations, each one's share of the total as a bar, and the newest line of what runs.
// Failed and running phases are open, the others are folded. Before the first phase arrives, bars hold its place. On
// narrow screens the list folds into one line above the log.
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState, useSyncExternalStore } from 'react'
import { Icon } from '../../components/icon.tsx'
import { Status, TaskStatus } from '../../components/status.tsx'
import { useNow } from '../../components/time.tsx'
import type { Task } from '../../data.ts'
import { capital, clock, duration } from '../../format.ts'
import { plainText } from '../../log/ansi.ts'
import type { LogSession } from '../../log/session.ts'
import css from './task.module.css'

type Phase = NonNullable<Task['phases']>[number]
type Step = Phase['steps'][number]
type Timed = Pick<Phase, 'status' | 'started_at' | 'duration_ms'>

function elapsed(of: Timed, now: number): number {
  if (of.duration_ms !== null) return of.duration_ms
  if (of.status !== 'running' || !of.started_at) return 0
  return Math.max(0, now - Date.parse(of.started_at))
}

const took = (of: Timed, now: number): string =>
  of.duration_ms !== null
    ? duration(of.duration_ms)
    : of.status === 'running'
      ? clock(elapsed(of, now))
      : ''

/** An SVG scales its width without an inline style. */
function Share({ of, all }: { of: number; all: number }) {
  const width = all <= 0 ? 0 : Math.max(of > 0 ? 0.5 : 0, (100 * of) / all)
  return (
    <svg className={css.share} viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
      <rect width={Math.min(100, width)} height="1" />
    </svg>
  )
}

/** Lines of other steps that run at the same time may come after it. */
const LOOK_BACK = 200

/** The newest line that this step wrote. */
function useLastLine(session: LogSession | undefined, step: string): string {
  const get = (): string => {
    if (!session) return ''
    const { store } = session
    for (let n = store.total; n > Math.max(0, store.total - LOOK_BACK); n--) {
      const line = store.line(n)
      if (line?.step !== step) continue
      const text = plainText(line.text.slice(0, 1_000)).trim()
      if (text !== '') return text
    }
    return ''
  }
  return useSyncExternalStore(session?.store.subscribe ?? never, get)
}
const never = () => () => {}

export const isWide = (): boolean => !matchMedia('(width < 60rem)').matches

interface PhasesProps {
  task: Task
  session: LogSession | undefined
  jump(line: number): void
}

export function Phases({ task: t, session, jump }: PhasesProps) {
  const now = useNow()
  const phases = t.phases ?? []
  const all = phases.reduce((sum, p) => sum + elapsed(p, now), 0)
  const current =
    phases.find((p) => p.status === 'failed') ??
    phases.find((p) => p.status === 'running') ??
    phases.findLast((p) => p.status !== 'pending')
  const done = phases.filter((p) => p.status === 'succeeded' || p.status === 'skipped').length
  const isDone = phases.length > 0 && done === phases.length
  const [isOpen, open] = useState(isWide)
  const hint = current
    ? { of: current.status, word: isDone ? `${done} of ${done}` : capital(current.title) }
    : { of: t.status }
  return (
    <details
      className={css.panel}
      open={isOpen}
      onToggle={(event) => open(event.currentTarget.open)}
    >
      <summary>
        <h2>Phases</h2>
        {!isOpen && <TaskStatus {...hint} />}
      </summary>
      {phases.length === 0 ? (
        <NoPhases isOpen={t.finished_at === null} />
      ) : (
        <ol>
          {phases.map((p) => (
            <PhaseItem key={p.name} phase={p} now={now} all={all} session={session} jump={jump} />
          ))}
        </ol>
      )}
    </details>
  )
}

const PLACES = 6

function NoPhases({ isOpen }: { isOpen: boolean }) {
  if (!isOpen) return <p className={css.none}>It ended before its first phase.</p>
  return (
    <ol aria-label="Phases are not known yet">
      {Array.from({ length: PLACES }, (_, n) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: bars without identity
        <li key={n} className={css.phase}>
          <span className={css.place} />
          <Share of={0} all={0} />
        </li>
      ))}
    </ol>
  )
}

interface ItemProps {
  now: number
  all: number
  session: LogSession | undefined
  jump(line: number): void
}

function PhaseItem({ phase: p, ...rest }: ItemProps & { phase: Phase }) {
  const { now, all } = rest
  const isHot = p.status === 'failed' || p.status === 'running'
  const { phase: named } = useSearch({ strict: false }) as { phase?: string }
  const navigate = useNavigate()
  const [choice, choose] = useState(named === p.name ? true : undefined)
  /** The address of the page then leads to the phase that the reader opened last. */
  const toggle = (isOpen: boolean) => {
    choose(isOpen)
    const search = isOpen ? { phase: p.name } : {}
    void navigate({
      to: '.',
      search,
      hash: true,
      replace: true,
      resetScroll: false,
      hashScrollIntoView: false,
    })
  }
  const [only] = p.steps
  const isSingle = p.steps.length === 1 && only?.title === p.title
  const head = (
    <>
      <State of={p.status} word={capital(p.title)} />
      <span className={css.took}>
        {took(p, now)}
        {!isSingle && <Icon name="down" size={12} />}
      </span>
      <Share of={elapsed(p, now)} all={all} />
    </>
  )
  if (isSingle && only) {
    return (
      <li>
        <div className={css.phase}>{head}</div>
        {p.status === 'running' && <LastLine session={rest.session} step={only.name} />}
      </li>
    )
  }
  return (
    <li>
      <details
        open={choice ?? isHot}
        onToggle={(event) => {
          const { open } = event.currentTarget
          if (open !== (choice ?? isHot)) toggle(open)
        }}
      >
        <summary className={css.phase}>{head}</summary>
        <ol className={css.steps}>
          {p.steps.map((s) => (
            <StepItem key={s.name} step={s} {...rest} />
          ))}
        </ol>
      </details>
    </li>
  )
}

function StepItem({ step: s, now, all, session, jump }: ItemProps & { step: Step }) {
  const line = s.first_line
  const inner = (
    <>
      <State of={s.status} word={s.title} />
      <span className={css.took}>{took(s, now)}</span>
      <Share of={elapsed(s, now)} all={all} />
    </>
  )
  return (
    <li>
      {line === null ? (
        <div className={css.step}>{inner}</div>
      ) : (
        <button type="button" className={css.step} onClick={() => jump(line)}>
          {inner}
        </button>
      )}
      {s.status === 'running' && <LastLine session={session} step={s.name} />}
    </li>
  )
}

/** Its place is there before the first line, so nothing moves. */
function LastLine({ session, step }: { session: LogSession | undefined; step: string }) {
  const text = useLastLine(session, step)
  return (
    <p className={css.last} data-last-line="" title={text}>
      {text || '\u00a0'}
    </p>
  )
}

/** Shape and colour show the state, the word names the phase; screen readers get both. */
function State({ of, word }: { of: string; word: string }) {
  const isRunning = of === 'running'
  return (
    <span className={css.state}>
      <Status
        of={of}
        word={word}
        {...(isRunning ? { tone: 'busy' as const, icon: 'half' as const } : {})}
      />
      <span className="visually-hidden">, {of}</span>
    </span>
  )
}
