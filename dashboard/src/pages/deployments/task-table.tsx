// Deployments and all other tasks, newest first. On a narrow screen a row has two lines.
import { Link } from '@tanstack/react-router'
import { TaskStatus } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Clock, Time } from '../../components/time.tsx'
import type { Task } from '../../data.ts'
import { duration, short } from '../../format.ts'
import css from './task-table.module.css'
import { canceledWords, triggeredBy } from './words.ts'

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
  if (t.superseded_by !== null) return `Superseded by ${t.superseded_by}`
  if (t.status === 'canceled') return canceledWords(t)
  if (t.waiting_for) return t.waiting_for.message
  return ''
}

/** No names at all: they have not been loaded yet. */
const nameIn = (names: ReadonlyMap<number, string>, id: number): string =>
  names.get(id) ?? (names.size > 0 ? 'Removed' : '')

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
    <div className={css.tasks}>
      <Table label={label} head={head}>
        {tasks.map((t) => (
          <Row key={t.id}>
            <Cell of="Task">
              <Link to="/tasks/$id" params={{ id: String(t.id) }}>
                {taskName(t)}
              </Link>
            </Cell>
            {names && <Cell of="Environment">{nameIn(names, t.environment_id)}</Cell>}
            <Cell of="Status" plain>
              <div className="stack-small">
                <TaskStatus of={t.status} />
                {outcome(t) && <span className={`muted small ${css.outcome}`}>{outcome(t)}</span>}
              </div>
            </Cell>
            <Cell of="Commit">
              <span className={css.commit}>
                <code>{short(t.commit_sha)}</code>{' '}
                <span className="muted">{t.commit_message ?? t.branch}</span>
              </span>
            </Cell>
            <Cell of="Started">
              <span className="muted">{triggeredBy(t)}</span>
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
    </div>
  )
}
