// What a task waits for, or how it ended: the first thing a user of the page wants to know.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useSyncExternalStore } from 'react'
import { api, trpc } from '../../api.ts'
import { useAct } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { FormError } from '../../components/forms/form.tsx'
import { Icon } from '../../components/icon.tsx'
import { Section } from '../../components/page.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Clock, Moment, Time } from '../../components/time.tsx'
import type { Environment, Task } from '../../data.ts'
import { bytes, capital, duration, short } from '../../format.ts'
import { plainText } from '../../log/ansi.ts'
import type { LogSession } from '../../log/session.ts'
import css from './task.module.css'
import { Again, openTicket } from './task-actions.tsx'

const failedStep = (t: Task) =>
  t.phases?.flatMap((p) => p.steps).find((s) => s.name === t.failure?.step)

/** The first line of the failed step that looks like an error, else its last one. */
export function useErrorLine(t: Task): number | undefined {
  const step = failedStep(t)
  const first = step?.first_line ?? null
  const isAsked = t.failure !== null && first !== null && t.log_complete
  const { data } = useQuery({
    ...trpc.task.errors.queryOptions({ task_id: t.id, from_line: first ?? 1 }),
    enabled: isAsked,
    staleTime: 60_000,
  })
  if (!t.failure) return undefined
  if (isAsked && !data) return undefined // a short wait avoids scrolling twice
  const last = step?.last_line ?? Number.POSITIVE_INFINITY
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
  const { task: t } = props
  return (
    <>
      {t.waiting_for && <Waiting of={t.waiting_for} />}
      {t.unreachable_since && t.finished_at === null && (
        <Note kind="warn">
          {props.environment?.server.name ?? 'The server'} disconnected{' '}
          <Clock since={t.unreachable_since} /> ago; its deployment continues there.
        </Note>
      )}
      {t.status === 'failed' && <Failed {...props} />}
      {t.status === 'canceled' && <Canceled task={t} environment={props.environment} />}
      {t.status === 'succeeded' && <Succeeded {...props} />}
      {t.warnings.map((w) => (
        <Note key={`${w.code} ${w.step} ${w.message}`} kind="warn">
          {w.message}
        </Note>
      ))}
      {t.late_outcome && (
        <Note kind="warn">
          The server reported later that it {t.late_outcome}. This result was not taken any more.
        </Note>
      )}
      {t.type === 'action' && <Artifacts task={t} />}
    </>
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

/** The line itself, once the viewer has loaded it. */
function useLineText(session: LogSession | undefined, n: number | undefined): string {
  const get = () =>
    session && n !== undefined ? plainText(session.store.line(n)?.text ?? '').trim() : ''
  return useSyncExternalStore(session?.store.subscribe ?? never, get)
}
const never = () => () => {}

function Failed({ task: t, environment: e, errorLine, session, jump }: OutcomeProps) {
  const text = useLineText(session, errorLine)
  const f = t.failure
  const phase = t.phases?.find((p) => p.name === f?.phase)
  const where = [phase && capital(phase.title), f?.step_title].filter(Boolean)
  return (
    <Note kind="bad">
      <div className="stack-small">
        <p className={css.headline}>
          {where.length > 0 ? where.join(', ') : 'It failed'}
          {f?.exit_code ? ` (exit code ${f.exit_code})` : ''}: {f?.message}
        </p>
        {text && <pre className={css.error}>{text}</pre>}
        <Since task={t} />
        <p className="row">
          {errorLine !== undefined && (
            <Button small onClick={() => jump(errorLine)}>
              Jump to error
            </Button>
          )}
          {f?.code === 'not_started' && e && <Again task={t} environment={e} />}
          {t.type === 'deploy' && !t.live_at && !t.reset && e?.commit_sha && (
            <span>The version deployed before keeps running.</span>
          )}
        </p>
      </div>
    </Note>
  )
}

/** What changed since the last successful deployment. */
function Since({ task: t }: { task: Task }) {
  const { data } = useQuery({
    ...trpc.task.compare.queryOptions({ task_id: t.id }),
    enabled: t.type === 'deploy',
  })
  if (t.type !== 'deploy' || data === undefined) return null
  if (data === null) return <p className="muted">No deployment here has succeeded before.</p>
  const changes = [
    data.commit_sha !== t.commit_sha &&
      `commit ${short(data.commit_sha)} → ${short(t.commit_sha) || 'unknown'}`,
    data.service_file_changed && '.service.yml',
    data.variable_keys_changed.length > 0 && `variables ${data.variable_keys_changed.join(', ')}`,
  ].filter(Boolean)
  return (
    <p>
      Changed since the last success (
      <Link to="/tasks/$id" params={{ id: String(data.task_id) }}>
        {data.task_id}
      </Link>
      ): {changes.length > 0 ? changes.join(', ') : 'nothing that Berth knows of'}.
    </p>
  )
}

function Canceled({ task: t, environment: e }: Pick<OutcomeProps, 'task' | 'environment'>) {
  if (t.cancel_reason === 'superseded' && t.superseded_by !== null) {
    return (
      <Note>
        Superseded by{' '}
        <Link to="/tasks/$id" params={{ id: String(t.superseded_by) }}>
          {t.superseded_by}
        </Link>
        , which deploys something newer.
      </Note>
    )
  }
  const why =
    t.cancel_reason === 'environment_removed'
      ? 'Canceled: the environment is being removed.'
      : 'Canceled by a user.'
  return (
    <Note>
      {why}
      {t.type === 'deploy' &&
        !t.live_at &&
        e?.commit_sha &&
        ' The version deployed before keeps running.'}
    </Note>
  )
}

const HISTORY = 10

function middle(values: number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  const at = sorted.length >> 1
  if (sorted.length === 0) return undefined
  return sorted.length % 2 ? sorted[at] : ((sorted[at - 1] ?? 0) + (sorted[at] ?? 0)) / 2
}

function Succeeded({ task: t, environment: e }: OutcomeProps) {
  const { data } = useQuery({
    ...trpc.task.list.queryOptions({
      environment_id: t.environment_id,
      status: ['succeeded'],
      types: ['deploy'],
      before: t.id,
      limit: HISTORY,
    }),
    enabled: t.type === 'deploy',
  })
  if (t.type !== 'deploy') return null
  const before = data?.tasks.flatMap((p) => (p.duration_ms === null ? [] : [p.duration_ms])) ?? []
  const median = middle(before)
  const isCurrent = e?.commit_sha === t.commit_sha
  const urls = isCurrent ? (e?.services.filter((s) => s.url !== null) ?? []) : []
  return (
    <Note kind="ok">
      <div className="stack-small">
        <p>
          Deployed in {duration(t.duration_ms ?? 0)}
          {median !== undefined && `, ${compared(t.duration_ms ?? 0, median, before.length)}`}.
        </p>
        {urls.length > 0 && (
          <ul className="row">
            {urls.map((s) => (
              <li key={s.name}>
                {s.name}{' '}
                <a href={s.url ?? ''} rel="noreferrer">
                  {s.url}
                </a>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Note>
  )
}

/** A difference within a tenth counts as usual. */
function compared(took: number, median: number, of: number): string {
  const usual = `the median of the ${of === 1 ? 'one' : `${of}`} before (${duration(median)})`
  const by = Math.round((100 * (took - median)) / Math.max(1, median))
  if (Math.abs(by) <= 10) return `about ${usual}`
  return `${Math.abs(by)} % ${by > 0 ? 'above' : 'below'} ${usual}`
}

function Artifacts({ task: t }: { task: Task }) {
  const query = useQuery(trpc.artifact.list.queryOptions({ task_id: t.id }))
  return (
    <Loaded query={query} what="Files">
      {({ artifacts }) =>
        artifacts.length === 0 ? null : (
          <Section title="Files">
            <ul className="stack-small">
              {artifacts.map((a) => (
                <ArtifactLink key={a.id} artifact={a} />
              ))}
            </ul>
          </Section>
        )
      }
    </Loaded>
  )
}

type Artifact = Awaited<ReturnType<typeof api.artifact.list.query>>['artifacts'][number]

function ArtifactLink({ artifact: a }: { artifact: Artifact }) {
  const { isBusy, problem, run } = useAct()
  const get = () => openTicket(api.artifact.ticket.mutate({ artifact_id: a.id }), false)
  return (
    <li className="row">
      <Button small busy={isBusy} onClick={() => void run(get)}>
        <Icon name="download" /> {a.path}
      </Button>
      <span className="muted small">
        {bytes(a.size_bytes)}, <Time at={a.collected_at} />, available until{' '}
        <Moment at={a.expires_at} />
      </span>
      {problem && <FormError problem={problem} />}
    </li>
  )
}
