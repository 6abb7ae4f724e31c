// The schedule of an action: when it runs next, or why it is paused, and what became of its runs.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { type api, trpc } from '../../api.ts'
import { Button } from '../../components/button.tsx'
import { TaskStatus } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { useNow } from '../../components/time.tsx'
import type { Environment } from '../../data.ts'
import { capital, count } from '../../format.ts'

type Action = Awaited<ReturnType<typeof api.action.list.query>>['actions'][number]
type Schedule = NonNullable<Action['schedule']>
type Run = NonNullable<Schedule['last_run']>

export function ActionSchedule(props: {
  environment: Environment
  name: string
  schedule: Schedule
}) {
  const { environment: e, name, schedule: s } = props
  const [isOpen, open] = useState(false)
  return (
    <>
      <p className="row">
        <span>
          Schedule <code>{s.cron}</code> {s.timezone}
        </span>
        <span className="muted">
          <Next schedule={s} />
        </span>
        {s.last_run && (
          <Button kind="quiet" onClick={() => open(!isOpen)}>
            {isOpen ? 'Hide history' : 'Show history'}
          </Button>
        )}
      </p>
      {s.last_run && s.last_run.outcome !== 'started' && <Unstarted run={s.last_run} />}
      {isOpen && <History environmentId={e.id} name={name} />}
    </>
  )
}

function Next({ schedule: s }: { schedule: Schedule }) {
  const now = useNow()
  if (s.paused_reason !== null) return <>Paused: {s.paused_reason}</>
  if (s.next_run_at === null) return <>No next run</>
  if (Date.parse(s.next_run_at) <= now) return <>Due now</>
  return (
    <>
      Next run <DateTime at={s.next_run_at} />
    </>
  )
}

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

const DateTime = ({ at }: { at: string }) => (
  <time dateTime={at}>{moment.format(Date.parse(at))}</time>
)

const Unstarted = ({ run }: { run: Run }) => (
  <p>
    {capital(run.outcome)} {count(run.runs, 'run')} at <DateTime at={run.last_due_at} />:{' '}
    {run.reason}
  </p>
)

function History({ environmentId, name }: { environmentId: number; name: string }) {
  const query = useQuery(trpc.action.runs.queryOptions({ environment_id: environmentId, name }))
  return (
    <Table label={`Scheduled runs of ${name}`} head={['Due', 'Result', 'Reason']}>
      {query.data?.runs.map((run) => (
        <Row key={`${run.due_at} ${run.outcome}`}>
          <Cell of="Due">
            <DateTime at={run.due_at} />
            {run.runs > 1 && (
              <>
                {' '}
                to <DateTime at={run.last_due_at} /> ({count(run.runs, 'run')})
              </>
            )}
          </Cell>
          <Cell of="Result" plain>
            {run.task_id !== null && run.task_status !== null ? (
              <Link to="/tasks/$id" params={{ id: String(run.task_id) }}>
                <TaskStatus of={run.task_status} />
              </Link>
            ) : (
              capital(run.outcome)
            )}
          </Cell>
          <Cell of="Reason" plain>
            {run.reason ?? ''}
          </Cell>
        </Row>
      ))}
    </Table>
  )
}
