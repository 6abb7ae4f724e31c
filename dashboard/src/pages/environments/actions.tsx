// Actions of the repository's .service.yml, each with a button and its confirmation.
import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Icon } from '../../components/icon.tsx'
import { Section } from '../../components/page.tsx'
import { Empty, Loaded } from '../../components/states.tsx'
import { TaskStatus } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import type { Environment, Task } from '../../data.ts'
import { useId } from '../../params.ts'
import { Artifacts, filesOptions } from '../deployments/artifacts.tsx'
import { actReason } from './bits.tsx'
import { EnvironmentFrame } from './frame.tsx'
import { ActionSchedule } from './schedule.tsx'

/** Files are shown for this many recent runs. */
const SHOWN = 3

type Action = Awaited<ReturnType<typeof api.action.list.query>>['actions'][number]

/** The actions, and the runs of each, newest first. */
function useActions(id: number) {
  const list = useQuery(trpc.action.list.queryOptions({ environment_id: id }))
  const tasks = useQuery(
    trpc.task.list.queryOptions({ environment_id: id, types: ['action'], limit: 50 }),
  )
  const runsOf = (a: Action) => tasks.data?.tasks.filter((t) => t.action === a.name) ?? []
  return { list, tasks, runsOf }
}

export function EnvironmentActions() {
  const id = useId()
  const { list, tasks, runsOf } = useActions(id)
  const shown = list.data?.actions.flatMap((a) => runsOf(a).slice(0, SHOWN)) ?? []
  const files = useQueries({ queries: shown.map((run) => filesOptions(run.id)) })
  return (
    <EnvironmentFrame tab="Actions" also={[list, tasks, ...files]}>
      {(e) => <Actions environment={e} />}
    </EnvironmentFrame>
  )
}

function Actions({ environment: e }: { environment: Environment }) {
  const { list: query, runsOf } = useActions(e.id)
  return (
    <Loaded query={query} what="Actions">
      {({ actions }) =>
        actions.length === 0 ? (
          <Empty title="No actions yet">
            <p>
              Commands under <code>actions:</code> in .service.yml appear here after a deployment.{' '}
              <a href="/docs/service-file">Read the reference</a>.
            </p>
          </Empty>
        ) : (
          actions.map((a) => <One key={a.name} environment={e} action={a} runs={runsOf(a)} />)
        )
      }
    </Loaded>
  )
}

function reasonOf(e: Environment, a: Action): string | undefined {
  if (!a.enabled) return a.disabled_reason ?? 'This action is disabled.'
  return actReason(e)
}

function One({
  environment: e,
  action: a,
  runs,
}: {
  environment: Environment
  action: Action
  runs: Task[]
}) {
  const [isAsking, ask] = useState(false)
  const start = () =>
    change(
      api.action.run.mutate({
        environment_id: e.id,
        name: a.name,
        ...(a.confirm ? { confirm: true } : {}),
      }),
    )
  const last = runs[0]
  return (
    <Section
      title={a.title}
      actions={
        <Button reason={reasonOf(e, a)} onClick={() => ask(true)}>
          <Icon name="play" /> Start
        </Button>
      }
    >
      {a.description && <p>{a.description}</p>}
      {a.schedule && <ActionSchedule environment={e} name={a.name} schedule={a.schedule} />}
      {last ? (
        <p className="row">
          <TaskStatus of={last.status} />
          <Link to="/tasks/$id" params={{ id: String(last.id) }}>
            Task {last.id}
          </Link>
          <span className="muted">
            <Time at={last.finished_at ?? last.created_at} /> by {last.triggered_by.name}
          </span>
        </p>
      ) : (
        <p className="muted">
          Not run yet.{' '}
          <code>
            berth actions run {a.name} -e {e.identifier}
          </code>
        </p>
      )}
      {runs.slice(0, SHOWN).map((run) => (
        <Artifacts key={run.id} taskId={run.id} />
      ))}
      {isAsking && (
        <Ask
          title={`Start ${a.title}?`}
          submit="Start"
          kind="main"
          onClose={() => ask(false)}
          send={start}
          done="Started."
        >
          <p>{a.confirm ?? `It runs in ${e.identifier} on ${e.server.name}.`}</p>
        </Ask>
      )}
    </Section>
  )
}
