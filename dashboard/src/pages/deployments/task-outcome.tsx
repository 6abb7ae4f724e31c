// What a task waits for, or how it ended. Success is in the facts of the heading already; the rest is said here, in a
// few lines, so that the log keeps its place.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState, useSyncExternalStore } from 'react'
import { trpc } from '../../api.ts'
import { Button } from '../../components/button.tsx'
import { Message, Note } from '../../components/states.tsx'
import { Clock, Moment } from '../../components/time.tsx'
import type { Environment, Task } from '../../data.ts'
import { capital } from '../../format.ts'
import { plainText } from '../../log/ansi.ts'
import type { LogSession } from '../../log/session.ts'
import { createStore, useStore } from '../../stores.ts'
import css from './task.module.css'
import { canceledWords } from './words.ts'

const failedStep = (t: Task) =>
  t.phases?.flatMap((p) => p.steps).find((s) => s.name === t.failure?.step)

/** The lines of the failed step that look like errors. */
export function errorOptions(t: Task) {
  const first = failedStep(t)?.first_line ?? null
  return {
    ...trpc.task.errors.queryOptions({ task_id: t.id, from_line: first ?? 1 }),
    enabled: t.failure !== null && first !== null && t.log_complete,
    staleTime: 60_000,
  }
}

/** The first of them, else the last line of the step. */
export function useErrorLine(t: Task): number | undefined {
  const { data, isLoading } = useQuery(errorOptions(t))
  if (!t.failure || isLoading) return undefined // a short wait avoids scrolling twice
  const last = failedStep(t)?.last_line ?? Number.POSITIVE_INFINITY
  return data?.found.find((n) => n <= last) ?? t.failure.line ?? undefined
}

interface OutcomeProps {
  task: Task
  environment: Environment | undefined
  errorLine: number | undefined
  session: LogSession | undefined
  jump(line: number): void
}

export function Outcome(props: OutcomeProps) {
  const { task: t, environment: e } = props
  const server = e?.server.name ?? 'The server'
  return (
    <>
      {t.waiting_for && <Waiting of={t.waiting_for} />}
      {t.unreachable_since && t.finished_at === null && (
        <Note kind="warn">
          {server} disconnected <Clock since={t.unreachable_since} /> ago. The deployment continues
          there.
        </Note>
      )}
      {t.status === 'failed' && <Failed {...props} />}
      {t.status === 'canceled' && <Canceled task={t} environment={e} />}
      {t.late_outcome && (
        <Note kind="warn">
          {server} reported later that it {t.late_outcome}. The task had already been given up.
        </Note>
      )}
      <Warnings of={t.warnings} />
    </>
  )
}

/** One warning is shown; several fold, because each costs a line of the log. */
function Warnings({ of }: { of: Task['warnings'] }) {
  const [first] = of
  if (!first) return null
  if (of.length === 1) return <Note kind="warn">{capital(first.message)}</Note>
  return (
    <Note kind="warn">
      <details>
        <summary>{of.length} warnings</summary>
        <ul className={css.warnings}>
          {of.map((w) => (
            <li key={`${w.code} ${w.step} ${w.message}`}>{capital(w.message)}</li>
          ))}
        </ul>
      </details>
    </Note>
  )
}

function Waiting({ of: w }: { of: NonNullable<Task['waiting_for']> }) {
  return (
    <Note>
      {w.message}
      {w.position !== null && w.position > 0 && ` (${w.position} ahead)`}
      {w.task_id !== null && (
        <>
          {' '}
          <Link to="/tasks/$id" params={{ id: String(w.task_id) }}>
            Task {w.task_id}
          </Link>
        </>
      )}
      {w.deadline && (
        <>
          {' '}
          It fails at <Moment at={w.deadline} />.
        </>
      )}{' '}
      <span className="muted">
        Waiting <Clock since={w.since} />
      </span>
    </Note>
  )
}

/** The line itself, empty until the viewer has loaded it. */
function useLineText(session: LogSession | undefined, n: number | undefined): string {
  const get = () =>
    session && n !== undefined ? plainText(session.store.line(n)?.text ?? '').trim() : ''
  return useSyncExternalStore(session?.store.subscribe ?? never, get)
}
const never = () => () => {}
const unknown = createStore<string | undefined>(undefined)

const LONG = 240

function Failed({ task: t, environment: e, errorLine, session, jump }: OutcomeProps) {
  const text = useLineText(session, errorLine)
  const [isAll, showAll] = useState(false)
  const f = t.failure
  const phase = t.phases?.find((p) => p.name === f?.phase)
  const where = f?.step_title ?? (phase ? capital(phase.title) : 'Failed')
  const message = f?.message ?? 'It failed.'
  const isLong = message.length > LONG || message.includes('\n')
  const isSame = text === message
  const isGone = useStore(session?.gone ?? unknown) !== undefined
  return (
    <Note kind="bad">
      <div className={css.failed}>
        <div className="stack-small">
          <p className={isLong && !isAll ? css.headlineCut : css.headline}>
            {where}
            {f?.exit_code && !/\bexit/.test(message) ? ` (exit code ${f.exit_code})` : ''}
            {!isSame && (
              <>
                : <Message of={message} />
              </>
            )}
          </p>
          {errorLine !== undefined && (text !== '' || !isGone) && (
            <pre className={css.error} title={text}>
              {text}
            </pre>
          )}
          {t.type === 'deploy' && !t.live_at && !t.reset && e?.commit_sha && (
            <p className="small muted">The previous version is still running.</p>
          )}
        </div>
        <div className="row">
          {isLong && (
            <Button small aria-expanded={isAll} onClick={() => showAll(!isAll)}>
              {isAll ? 'Show less' : 'Show all'}
            </Button>
          )}
          {errorLine !== undefined && (
            <Button small onClick={() => jump(errorLine)}>
              Jump to error
            </Button>
          )}
        </div>
      </div>
    </Note>
  )
}

function Canceled({ task: t, environment: e }: Pick<OutcomeProps, 'task' | 'environment'>) {
  const isKept = t.type === 'deploy' && !t.live_at && e?.commit_sha
  return (
    <Note>
      {t.cancel_reason === 'superseded' && t.superseded_by !== null ? (
        <>
          Superseded by{' '}
          <Link to="/tasks/$id" params={{ id: String(t.superseded_by) }}>
            deployment {t.superseded_by}
          </Link>
          , which has a newer commit.
        </>
      ) : (
        canceledWords(t)
      )}
      {isKept && t.cancel_reason !== 'environment_removed' && (
        <> The previous version is still running.</>
      )}
    </Note>
  )
}
