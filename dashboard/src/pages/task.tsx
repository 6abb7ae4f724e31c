// One deployment or action. A small page; the log viewer makes it whole.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { trpc } from '../api.ts'
import { Page } from '../components/page.tsx'
import { Loaded } from '../components/states.tsx'
import { TaskStatus } from '../components/status.tsx'
import { useFavicon } from '../favicon.ts'
import { useId } from '../params.ts'
import { NotFound } from './not-found.tsx'

export function TaskPage() {
  const id = useId()
  const task = useQuery(trpc.task.get.queryOptions({ task_id: id }))
  useFavicon(task.data?.status)
  return (
    <Loaded query={task} what="The deployment" missing={<NotFound />}>
      {(t) => (
        <Page
          title={`Deployment ${t.id}`}
          trail={
            <Link to="/environments/$id" params={{ id: String(t.environment_id) }}>
              Environment
            </Link>
          }
          facts={<TaskStatus of={t.status} />}
        >
          <ol className="stack-small">
            {t.phases?.map((phase) => (
              <li key={phase.name}>
                {phase.title} <TaskStatus of={phase.status} />
              </li>
            ))}
          </ol>
        </Page>
      )}
    </Loaded>
  )
}
