// Deployments and all other tasks, newest first.
import { Link } from '@tanstack/react-router'
import { TaskStatus } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Clock, Time } from '../../components/time.tsx'
import type { Task } from '../../data.ts'
import { capital, duration, short, triggerWords } from '../../format.ts'

const KINDS: Record<Task['type'], string> = {
  deploy: 'Deployment',
  destroy: 'Removal',
  action: 'Action',
  restart: 'Restart',
  stop: 'Stop',
  start: 'Start',
  backup: 'Backup',
  restore: 'Restore',
}

export const taskName = (t: Pick<Task, 'id' | 'type' | 'action' | 'reset'>): string =>
  t.type === 'action'
    ? `${t.action ?? 'Action'} ${t.id}`
    : `${t.reset ? 'Reset' : KINDS[t.type]} ${t.id}`

/** Why it ended, in a few words. */
function outcome(t: Task): string {
  if (t.failure) return t.failure.step_title ?? t.failure.message
  if (t.cancel_reason === 'superseded') return `superseded by ${t.superseded_by}`
  if (t.waiting_for) return t.waiting_for.message
  return ''
}

interface TableProps {
  label: string
  tasks: readonly Task[]
  /** Names of environments, for lists with more than one. */
  names?: ReadonlyMap<number, string>
}

export function TaskTable({ label, tasks, names }: TableProps) {
  const head = [
    'Task',
    ...(names ? ['Environment'] : []),
    'Status',
    'Commit',
    'Started',
    'Took',
    'When',
  ]
  return (
    <Table label={label} head={head}>
      {tasks.map((t) => (
        <Row key={t.id}>
          <Cell of="Task">
            <Link to="/tasks/$id" params={{ id: String(t.id) }}>
              {taskName(t)}
            </Link>
          </Cell>
          {names && <Cell of="Environment">{names.get(t.environment_id) ?? 'removed'}</Cell>}
          <Cell of="Status">
            <div className="stack-small">
              <TaskStatus of={t.status} />
              {outcome(t) && <span className="muted small">{outcome(t)}</span>}
            </div>
          </Cell>
          <Cell of="Commit">
            <span>
              <code>{short(t.commit_sha)}</code>{' '}
              <span className="muted">{t.commit_message ?? t.branch}</span>
            </span>
          </Cell>
          <Cell of="Started">
            <span className="muted">
              {capital(triggerWords(t.trigger))}, {t.triggered_by.name}
            </span>
          </Cell>
          <Cell of="Took">
            {t.duration_ms !== null ? (
              duration(t.duration_ms)
            ) : t.started_at ? (
              <Clock since={t.started_at} />
            ) : (
              ''
            )}
          </Cell>
          <Cell of="When">
            <Time at={t.finished_at ?? t.created_at} />
          </Cell>
        </Row>
      ))}
    </Table>
  )
}
