// One environment at a glance: its address, what runs, what was deployed, and how it does.
import { useQuery } from '@tanstack/react-query'
import { trpc } from '../../api.ts'
import { Empty } from '../../components/states.tsx'
import type { Environment } from '../../data.ts'
import { useId } from '../../params.ts'
import { Changed, useChanged } from './bits.tsx'
import { EnvironmentFrame } from './frame.tsx'
import { failureOptions, LastFailure, Latest } from './overview/deployments.tsx'
import { Hero } from './overview/hero.tsx'
import { metricsOptions, type Range } from './overview/measures.ts'
import { Metrics, useRange } from './overview/metrics.tsx'
import css from './overview/overview.module.css'
import { Services } from './overview/services.tsx'

const BARS = 30

const deploymentsOptions = (id: number) =>
  trpc.task.list.queryOptions({ environment_id: id, types: ['deploy'], limit: BARS })

/** Asked for once; the part that shows it asks again. */
const firstMetrics = (id: number, range: Range) => ({
  ...metricsOptions(id, range),
  refetchInterval: false as const,
})

/** Everything is asked for at once, in one request. */
export function EnvironmentOverview() {
  const id = useId()
  const also = [
    useQuery(deploymentsOptions(id)),
    useQuery(failureOptions(id)),
    useQuery(firstMetrics(id, useRange())),
    useQuery(firstMetrics(id, 'hour')),
    useChanged(id),
  ]
  return (
    <EnvironmentFrame tab="Overview" also={also}>
      {(e) => <Overview environment={e} />}
    </EnvironmentFrame>
  )
}

function Overview({ environment: e }: { environment: Environment }) {
  const deployments = useQuery(deploymentsOptions(e.id)).data?.tasks
  const isUntouched = deployments?.length === 0
  return (
    <>
      <Hero environment={e} deployments={deployments} />
      {e.variables_changed && <Changed environment={e} />}
      {isUntouched ? (
        <Empty title="Nothing deployed yet">
          <p>
            Deploy it, push to <code>{e.branch}</code>, or run{' '}
            <code>berth deploy -e {e.identifier} --wait</code>.
          </p>
        </Empty>
      ) : (
        <>
          <div className={css.halves}>
            <Services environment={e} />
            {deployments && <Latest environment={e} deployments={deployments} />}
          </div>
          <LastFailure environment={e} />
          {e.commit_sha && <Metrics environment={e} />}
        </>
      )}
    </>
  )
}
