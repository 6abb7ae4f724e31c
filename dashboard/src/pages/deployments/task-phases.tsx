// Phases and their steps with their durations, and each one's share of the total as a bar. Failed and running phases
// are open, the others are folded. On narrow screens the list folds into one line above the log.
import { useState } from 'react'
import { Icon } from '../../components/icon.tsx'
import { Status, TaskStatus } from '../../components/status.tsx'
import { useNow } from '../../components/time.tsx'
import type { Task } from '../../data.ts'
import { capital, clock, duration } from '../../format.ts'
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
  if (all <= 0) return null
  const width = Math.max(of > 0 ? 0.5 : 0, (100 * of) / all)
  return (
    <svg className={css.share} viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
      <rect width={Math.min(100, width)} height="1" />
    </svg>
  )
}

export function Phases({ task, jump }: { task: Task; jump(line: number): void }) {
  const now = useNow()
  const phases = task.phases ?? []
  const all = phases.reduce((sum, p) => sum + elapsed(p, now), 0)
  const current =
    phases.find((p) => p.status === 'failed') ??
    phases.find((p) => p.status === 'running') ??
    phases.findLast((p) => p.status !== 'pending')
  const done = phases.filter((p) => p.status === 'succeeded' || p.status === 'skipped').length
  const isDone = done === phases.length
  const [isOpen, open] = useState(() => !matchMedia('(width < 60rem)').matches)
  if (phases.length === 0) return null
  return (
    <details
      className={css.phases}
      open={isOpen}
      onToggle={(event) => open(event.currentTarget.open)}
    >
      <summary>
        <h2>Phases</h2>
        {!isOpen && current && (
          <TaskStatus
            of={current.status}
            word={isDone ? `${done} of ${done}` : capital(current.title)}
          />
        )}
      </summary>
      <ol>
        {phases.map((p) => (
          <PhaseItem key={p.name} phase={p} now={now} all={all} jump={jump} />
        ))}
      </ol>
    </details>
  )
}

interface ItemProps {
  now: number
  all: number
  jump(line: number): void
}

function PhaseItem({ phase: p, now, all, jump }: ItemProps & { phase: Phase }) {
  const isHot = p.status === 'failed' || p.status === 'running'
  const [choice, choose] = useState<boolean>()
  const isSingle = p.steps.length === 1 && p.steps[0]?.title === p.title
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
  if (isSingle) return <li className={css.phase}>{head}</li>
  return (
    <li>
      <details
        open={choice ?? isHot}
        onToggle={(event) => {
          const { open } = event.currentTarget
          if (open !== (choice ?? isHot)) choose(open)
        }}
      >
        <summary className={css.phase}>{head}</summary>
        <ol className={css.steps}>
          {p.steps.map((s) => (
            <StepItem key={s.name} step={s} now={now} all={all} jump={jump} />
          ))}
        </ol>
      </details>
    </li>
  )
}

function StepItem({ step: s, now, all, jump }: ItemProps & { step: Step }) {
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
    </li>
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
