// The first environment of a new project: created here, then its deployment is followed on the same page.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, change, trpc } from '../../../api.ts'
import { buttonClass } from '../../../components/button.tsx'
import { Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { Icon } from '../../../components/icon.tsx'
import { Loaded, Note } from '../../../components/states.tsx'
import { TaskStatus } from '../../../components/status.tsx'
import { Clock } from '../../../components/time.tsx'
import type { Environment, Project } from '../../../data.ts'
import { duration } from '../../../format.ts'
import css from './new.module.css'

/** The events of the task trigger a refetch; this interval is for a page that is not live. */
const AGAIN_MS = 2_000
const ENDED = ['succeeded', 'failed', 'canceled']

interface Props {
  project: Project
  environment: Environment | undefined
}

export function FirstDeployment({ project: p, environment: e }: Props) {
  const taskId = e?.locked_by?.task_id ?? e?.last_task?.id
  if (e && taskId !== undefined) return <Followed environment={e} taskId={taskId} />
  if (e) return <Start environment={e} />
  return (
    <Form
      submit="Deploy"
      label="First deployment"
      isRow
      send={(data) =>
        change(
          api.environment.create.mutate({
            project_id: p.id,
            identifier: text(data, 'identifier').trim(),
            branch: text(data, 'branch').trim(),
            deploy: true,
          }),
        )
      }
    >
      <Text
        label="Environment"
        name="identifier"
        defaultValue="production"
        autoCapitalize="off"
        spellCheck={false}
        required
      />
      <Text label="Branch" name="branch" defaultValue={p.default_branch} required />
    </Form>
  )
}

function Start({ environment: e }: { environment: Environment }) {
  return (
    <Form
      submit={`Deploy ${e.identifier}`}
      label="First deployment"
      send={() => change(api.environment.deploy.mutate({ environment_id: e.id }))}
    />
  )
}

function Followed({ environment: e, taskId }: { environment: Environment; taskId: number }) {
  const query = useQuery({
    ...trpc.task.get.queryOptions({ task_id: taskId }),
    refetchInterval: ({ state }) =>
      state.data && ENDED.includes(state.data.status) ? false : AGAIN_MS,
  })
  return (
    <Loaded query={query} what="The deployment" lines={3}>
      {(t) => (
        <div className="stack">
          <div role="status" className="row">
            <TaskStatus of={t.status} />
            <Link to="/tasks/$id" params={{ id: String(t.id) }}>
              Deployment {t.id}
            </Link>
            {t.waiting_for && <span className="muted">{t.waiting_for.message}</span>}
          </div>
          <ul className={css.phases}>
            {(t.phases ?? []).map((phase) => (
              <li key={phase.name} className={css.phase}>
                <TaskStatus of={phase.status} word={phase.title} />
                <span className="muted small">
                  {phase.duration_ms !== null
                    ? duration(phase.duration_ms)
                    : phase.status === 'running' &&
                      phase.started_at && <Clock since={phase.started_at} />}
                </span>
              </li>
            ))}
          </ul>
          {t.failure && (
            <Note kind="bad">
              <p>{t.failure.message}</p>
              <Link to="/tasks/$id" params={{ id: String(t.id) }}>
                Open the log
              </Link>
            </Note>
          )}
          {t.status === 'succeeded' && (
            <div className="row">
              {e.url && (
                <a href={e.url} rel="noreferrer" className={buttonClass('main')}>
                  Visit <Icon name="out" size={12} />
                </a>
              )}
              <Link
                to="/environments/$id"
                params={{ id: String(e.id) }}
                className={buttonClass('plain')}
              >
                Open {e.identifier}
              </Link>
            </div>
          )}
          {(t.status === 'failed' || t.status === 'canceled') && <Start environment={e} />}
        </div>
      )}
    </Loaded>
  )
}
