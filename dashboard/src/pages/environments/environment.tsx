// One environment at a glance: what runs, what was deployed, why the last deployment failed.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { trpc } from '../../api.ts'
import { Section } from '../../components/page.tsx'
import { Empty, Loaded, Note } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { type Environment, useTasks } from '../../data.ts'
import { TaskTable } from '../deployments/task-table.tsx'
import { Changed } from './bits.tsx'
import css from './environment.module.css'
import { EnvironmentFrame } from './frame.tsx'
import { LifecycleMenu } from './lifecycle.tsx'

const SHOWN = 5

export function EnvironmentOverview() {
  return (
    <EnvironmentFrame tab="Overview">
      {(e) => (
        <>
          {e.variables_changed && <Changed environment={e} />}
          <Services environment={e} />
          <LastFailure environment={e} />
          <Latest environment={e} />
        </>
      )}
    </EnvironmentFrame>
  )
}

function Services({ environment: e }: { environment: Environment }) {
  return (
    <Section title="Services">
      {e.services.length === 0 ? (
        <p className="muted">
          {e.commit_sha ? 'The deployed version names no services.' : 'Nothing runs yet.'}
        </p>
      ) : (
        <ul className={css.services}>
          {e.services.map((s) => (
            <li key={s.name}>
              <span className={css.service}>{s.name}</span>
              <Status of={s.status} />
              {s.replicas && (
                <span className="muted">
                  {s.replicas.running} of {s.replicas.wanted} replicas
                </span>
              )}
              <LifecycleMenu environment={e} service={s} />
              {s.url && (
                <a href={s.url} rel="noreferrer">
                  {s.url}
                </a>
              )}
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}

function LastFailure({ environment: e }: { environment: Environment }) {
  const query = useQuery(
    trpc.environment.diagnostics.queryOptions({ environment_id: e.id, lines: 12 }),
  )
  const d = query.data
  if (!d?.task || !d.failure) return null
  const isFixed = d.status === 'recovered'
  return (
    <Section title={isFixed ? 'Last failure (fixed)' : 'Last failure'}>
      <div className={isFixed ? 'stack-small muted' : 'stack-small'}>
        <p>
          <Status
            of="failed"
            word={`Deployment ${d.task.id}`}
            {...(isFixed ? { tone: 'none' as const } : {})}
          />{' '}
          {d.failure.step_title}: {d.failure.message}
        </p>
        {!isFixed &&
          d.hints.map((h) => (
            <Note key={h.code} kind="warn">
              {h.message}
            </Note>
          ))}
        {d.output && !isFixed && <pre className={css.output}>{d.output}</pre>}
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
          {d.superseded_by && <span>fixed by {d.superseded_by.id}</span>}
          {d.since_last_success &&
            d.since_last_success.variable_keys_changed.length > 0 &&
            !isFixed && (
              <span>
                Variables that changed since the last success:{' '}
                {d.since_last_success.variable_keys_changed.join(', ')}
              </span>
            )}
        </p>
      </div>
    </Section>
  )
}

function Latest({ environment: e }: { environment: Environment }) {
  const tasks = useTasks(e.id)
  return (
    <Section
      title="Deployments"
      isBare
      actions={
        <Link to="/environments/$id/deployments" params={{ id: String(e.id) }}>
          All
        </Link>
      }
    >
      <Loaded query={tasks} what="Deployments">
        {({ tasks: list }) =>
          list.length === 0 ? (
            <Empty title="Nothing was deployed yet.">
              <p>
                Press Deploy, push to <code>{e.branch}</code>, or run{' '}
                <code>berth deploy -e {e.identifier} --wait</code>.
              </p>
            </Empty>
          ) : (
            <TaskTable label="Latest deployments" tasks={list.slice(0, SHOWN)} />
          )
        }
      </Loaded>
    </Section>
  )
}
