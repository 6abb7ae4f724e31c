// All deployments, actions and removals of an environment.
import { useQuery } from '@tanstack/react-query'
import { api, trpc } from '../../api.ts'
import { More } from '../../components/more.tsx'
import { Empty } from '../../components/states.tsx'
import { TaskTable } from '../deployments/task-table.tsx'
import { EnvironmentFrame } from './frame.tsx'

export function EnvironmentDeployments() {
  return (
    <EnvironmentFrame tab="Deployments">
      {(e) => <Deployments id={e.id} name={e.identifier} />}
    </EnvironmentFrame>
  )
}

function Deployments({ id, name }: { id: number; name: string }) {
  const query = useQuery({
    ...trpc.task.list.queryOptions({ environment_id: id, limit: 30 }),
    select: (page) => ({ items: page.tasks, next: page.next }),
  })
  return (
    <More
      what="Deployments"
      query={query}
      keyOf={(t) => t.id}
      older={async (before) => {
        const page = await api.task.list.query({ environment_id: id, limit: 30, before })
        return { items: page.tasks, next: page.next }
      }}
      empty={
        <Empty title="Nothing deployed yet">
          <p>
            <code>berth deploy -e {name} --wait</code>
          </p>
        </Empty>
      }
    >
      {(tasks) => <TaskTable label="Deployments" tasks={tasks} />}
    </More>
  )
}
