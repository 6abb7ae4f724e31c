// The last deployments as bars and as a short list, and why the last one failed.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { trpc } from '../../../api.ts'
import { type Bar, Bars } from '../../../components/charts/bars.tsx'
import { Section } from '../../../components/page.tsx'
import { Message, Note } from '../../../components/states.tsx'
import { Status, TaskStatus } from '../../../components/status.tsx'
import { Clock, Time } from '../../../components/time.tsx'
import type { Environment, Task } from '../../../data.ts'
import { duration, short } from '../../../format.ts'
import css from './overview.module.css'

const LISTED = 4

const TONES: Record<Task['status'], Bar['tone']> = {
  queued: 'busy',
  running: 'busy',
  succeeded: 'ok',
  failed: 'bad',
  canceled: 'none',
}

/** So far, for one that runs. */
const tookOf = (task: Task): number =>
  task.duration_ms ?? (task.started_at ? Math.max(0, Date.now() - Date.parse(task.started_at)) : 0)

function toBar(task: Task, longest: number): Bar {
  const took = tookOf(task)
  const words = task.duration_ms === null ? '' : ` in ${duration(took)}`
  return {
    tone: TONES[task.status],
    height: longest > 0 ? took / longest : 0,
    label: `Deployment ${task.id} ${task.status}${words}`,
    href: `/tasks/${task.id}`,
  }
}

interface LatestProps {
  environment: Environment
  deployments: readonly Task[]
}

export function Latest({ environment: e, deployments }: LatestProps) {
  const longest = Math.max(0, ...deployments.map(tookOf))
  return (
    <Section
      title="Deployments"
      isBare
      actions={
        <Link to="/environments/$id/deployments" params={{ id: String(e.id) }}>
          View all
        </Link>
      }
    >
      <Bars
        label="Last deployments, oldest first"
        bars={deployments.map((task) => toBar(task, longest)).toReversed()}
      />
      <ul className={css.list} aria-label="Latest deployments">
        {deployments.slice(0, LISTED).map((task) => (
          <li key={task.id} className={css.deployment}>
            <TaskStatus of={task.status} />
            <Link to="/tasks/$id" params={{ id: String(task.id) }} className={css.subject}>
              {task.commit_message?.split('\n')[0] ?? `Deployment ${task.id}`}
            </Link>
            <span className={css.facts}>
              {task.commit_sha && <code>{short(task.commit_sha)}</code>}
              <span>{task.triggered_by.name}</span>
              <span>
                {task.duration_ms !== null ? (
                  duration(task.duration_ms)
                ) : task.started_at ? (
                  <Clock since={task.started_at} />
                ) : (
                  task.waiting_for?.message
                )}
              </span>
              <Time at={task.finished_at ?? task.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

export const failureOptions = (environmentId: number) =>
  trpc.environment.diagnostics.queryOptions({ environment_id: environmentId, lines: 12 })

export function LastFailure({ environment: e }: { environment: Environment }) {
  const d = useQuery(failureOptions(e.id)).data
  if (!d?.task || !d.failure) return null
  const isFixed = d.status === 'recovered'
  const keys = d.since_last_success?.variable_keys_changed ?? []
  return (
    <Section title={isFixed ? 'Last failure (fixed)' : 'Last failure'}>
      <div className={isFixed ? 'stack-small muted' : 'stack-small'}>
        <p>
          <Status
            of="failed"
            word={`Deployment ${d.task.id}`}
            {...(isFixed ? { tone: 'none' as const } : {})}
          />{' '}
          {d.failure.step_title}: <Message of={d.failure.message} />
        </p>
        {!isFixed &&
          d.hints.map((h) => (
            <Note key={h.code} kind="warn">
              {h.message}
            </Note>
          ))}
        {d.output && !isFixed && (
          <section
            className={css.output}
            aria-label={`Output of deployment ${d.task.id}`}
            // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard has to reach it
            tabIndex={0}
          >
            <pre>{d.output}</pre>
          </section>
        )}
        <p className="row">
          {/* opens the task at the line that shows the error */}
          <Link to="/tasks/$id" params={{ id: String(d.task.id) }}>
            {d.failure.line ? 'Open at the error' : 'Open the deployment'}
          </Link>
          {d.task.finished_at && (
            <span className="muted">
              <Time at={d.task.finished_at} />
            </span>
          )}
          {d.superseded_by && <span>Fixed by deployment {d.superseded_by.id}</span>}
          {keys.length > 0 && !isFixed && (
            <span>Variables changed since the last success: {keys.join(', ')}</span>
          )}
        </p>
      </div>
    </Section>
  )
}
