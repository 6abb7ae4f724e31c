// All deployments of a project, including those of deleted environments.
import { useQuery } from '@tanstack/react-query'
import { api, trpc } from '../../api.ts'
import { More } from '../../components/more.tsx'
import { Empty } from '../../components/states.tsx'
import { useEnvironments } from '../../data.ts'
import { TaskTable } from '../deployments/task-table.tsx'
import { ProjectFrame } from './frame.tsx'

export function ProjectDeployments() {
  return <ProjectFrame tab="Deployments">{(p) => <Deployments id={p.id} />}</ProjectFrame>
}

function Deployments({ id }: { id: number }) {
  const query = useQuery({
    ...trpc.task.list.queryOptions({ project_id: id, limit: 30 }),
    select: (page) => ({ items: page.tasks, next: page.next }),
  })
  const environments = useEnvironments(id)
  const names = new Map(environments.data?.environments.map((e) => [e.id, e.identifier]))
  // without the names every environment would look removed
  const isNamed = environments.data !== undefined || environments.isError
  return (
    <More
      what="Deployments"
      query={isNamed ? query : { ...query, data: undefined }}
      keyOf={(t) => t.id}
      older={async (before) => {
        const page = await api.task.list.query({ project_id: id, limit: 30, before })
        return { items: page.tasks, next: page.next }
      }}
      empty={
        <Empty title="Nothing deployed yet">
          <p>
            <code>berth deploy --wait</code> in the repository's folder deploys the branch you are
            on.
          </p>
        </Empty>
      }
    >
      {(tasks) => <TaskTable label="Deployments" tasks={tasks} names={names} />}
    </More>
  )
}
