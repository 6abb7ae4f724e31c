// One environment at a glance: its address, what runs, what was deployed, and how it does.
import { useQuery } from '@tanstack/react-query'
import { trpc } from '../../api.ts'
import { Empty } from '../../components/states.tsx'
import type { Environment } from '../../data.ts'
import { Changed } from './bits.tsx'
import { EnvironmentFrame } from './frame.tsx'
import { LastFailure, Latest } from './overview/deployments.tsx'
import { Hero } from './overview/hero.tsx'
import { Metrics } from './overview/metrics.tsx'
import css from './overview/overview.module.css'
import { Services } from './overview/services.tsx'

const BARS = 30

export function EnvironmentOverview() {
  return <EnvironmentFrame tab="Overview">{(e) => <Overview environment={e} />}</EnvironmentFrame>
}

function Overview({ environment: e }: { environment: Environment }) {
  const asked = { environment_id: e.id, types: ['deploy' as const], limit: BARS }
  const deployments = useQuery(trpc.task.list.queryOptions(asked)).data?.tasks
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
