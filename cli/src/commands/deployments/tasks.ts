// berth tasks: list, show, cancel. Tasks of any age; only their logs expire.
import { randomUUID } from 'node:crypto'
import { TASK_STATUSES, TASK_TYPES } from '@berth/shared'
import { Task } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { findProject, findTarget, namesEnvironment } from '../../client/resolve.ts'
import { type Context, compose, flagList, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { statusMark, statusStyle } from '../../progress/progress.ts'
import { cancelReason, failurePlace } from '../../progress/verdict.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import {
  formatAgo,
  formatDuration,
  formatStepDuration,
  parseCount,
  shortCommit,
} from '../../terminal/format.ts'
import { type Cell, renderTable } from '../../terminal/terminal.ts'

interface TasksListOptions {
  status: string[]
  type: string | undefined
  limit: number
}

function checkWord(flag: string, word: string, known: readonly string[]): string {
  if (known.includes(word)) return word
  throw usage(`${flag} takes ${known.join(', ')}, got '${word}'`)
}

function parseTasksList({ flags }: Invocation): TasksListOptions {
  const type = flagText(flags, 'type')
  return {
    status: flagList(flags, 'status').map((word) => checkWord('--status', word, TASK_STATUSES)),
    type: type === undefined ? undefined : checkWord('--type', type, [...TASK_TYPES, 'all']),
    limit: parseCount('-n', flagText(flags, 'limit') ?? '20', CLIENT.listRows),
  }
}

/** Users know it as "push"; the API's word is for programs. */
const triggerText = (task: Task): string => (task.trigger === 'webhook' ? 'push' : task.trigger)

function statusCell(status: Task['status']): Cell {
  const style = statusStyle(status)
  return { text: `${statusMark(status)} ${status}`, ...(style ? { style } : {}) }
}

/** Where it failed, why it was canceled, what it waits for. */
function phaseText(task: Task): string {
  if (task.failure) {
    const { phase, step_title: step } = task.failure
    return [phase, step].filter(Boolean).join(' / ') || task.failure.message
  }
  if (task.status === 'canceled') return cancelReason(task)
  if (task.status === 'queued') return task.waiting_for?.message ?? ''
  return task.phases?.find((phase) => phase.status === 'running')?.name ?? ''
}

/** Of one environment; of the whole project when no environment is named. */
async function findHistory(api: Api, context: Context): Promise<{ path: string; name: string }> {
  if (await namesEnvironment(context)) {
    const { environment } = await findTarget(api, context, 'read')
    return { path: `/api/environments/${environment.id}/tasks`, name: environment.identifier }
  }
  const project = await findProject(api, context, 'read')
  return { path: `/api/projects/${project.id}/tasks`, name: project.name }
}

async function performTasksList(options: TasksListOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { path, name } = await findHistory(api, context)
  const { items, raw } = await api.list(path, Task, {
    query: {
      per_page: Math.min(options.limit, 100),
      status: options.status,
      type: options.type,
    },
    limit: options.limit,
  })
  await screen.printList({
    rows: items,
    raw,
    header: ['ID', 'STATUS', 'COMMIT', 'TRIGGER', 'STARTED', 'TOOK', 'PHASE'],
    human: (task) => [
      String(task.id),
      statusCell(task.status),
      shortCommit(task.commit_sha),
      triggerText(task),
      formatAgo(task.started_at ?? task.created_at, io.now()),
      task.duration_ms === null ? '-' : formatDuration(task.duration_ms),
      phaseText(task),
    ],
    plain: (task) => [
      String(task.id),
      task.status,
      task.commit_sha ?? '',
      task.trigger,
      task.started_at ?? '',
      task.duration_ms === null ? '' : String(task.duration_ms),
      phaseText(task),
    ],
    empty: `No tasks of ${name} match.`,
  })
  return EXIT.done
}

export const tasksList = compose(parseTasksList, performTasksList)

export function parseTaskId({ args }: Invocation): { id: number } {
  return { id: parseCount('ID', (args[0] ?? '').replace(/^#/, ''), 4_294_967_295) }
}

async function performTasksShow(options: { id: number }, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { value: task, raw } = await api.get(`/api/tasks/${options.id}`, Task)
  await screen.printFields(raw, [
    ['task', String(task.id)],
    ['type', task.type],
    ['status', screen.human ? statusCell(task.status) : task.status],
    ['waits for', task.waiting_for?.message ?? ''],
    ['canceled', task.status === 'canceled' ? cancelReason(task) : ''],
    ['failed', task.failure ? failurePlace(task) : ''],
    ['reason', task.failure?.message ?? ''],
    ['commit', task.commit_sha ?? ''],
    ['title', task.commit_message?.split('\n')[0] ?? ''],
    ['branch', task.branch],
    ['trigger', `${triggerText(task)}, ${task.triggered_by.name}`],
    ['message', task.message ?? ''],
    ['created', screen.human ? formatAgo(task.created_at, io.now()) : task.created_at],
    ['took', task.duration_ms === null ? '' : formatDuration(task.duration_ms)],
    ['log', `${task.log_lines} lines${task.log_complete ? '' : ' so far'}`],
    ['url', task.url],
  ])
  if (!screen.human || !task.phases?.length) return EXIT.done
  const rows = task.phases.flatMap((phase) =>
    [
      { ...phase, indent: '', code: null },
      ...phase.steps.map((step) => ({ ...step, indent: '  ', code: step.exit_code })),
    ].map((part) => [
      { text: `${part.indent}${statusMark(part.status)} ${part.title}`, ...styleOf(part.status) },
      part.status,
      part.duration_ms === null ? '-' : formatStepDuration(part.duration_ms),
      part.code === null ? '' : `exit code ${part.code}`,
    ]),
  )
  const lines = renderTable(['PHASE', 'STATUS', 'TOOK', ''], rows, screen.width, screen.out.paint)
  await screen.print(`\n${lines.join('\n')}`)
  return EXIT.done
}

function styleOf(status: Parameters<typeof statusStyle>[0]): Pick<Cell, 'style'> {
  const style = statusStyle(status)
  return style ? { style } : {}
}

export const tasksShow = compose(parseTaskId, performTasksShow)

async function performTasksCancel(options: { id: number }, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { value: task, raw } = await api.post(`/api/tasks/${options.id}/cancel`, Task, {
    idempotencyKey: randomUUID(),
    expect: 202,
  })
  const isOver = task.status === 'canceled'
  await screen.note(
    isOver
      ? `Task ${task.id} is canceled`
      : `Task ${task.id} is asked to stop; berth tasks show ${task.id} tells when it has`,
  )
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(`${task.id}\t${task.status}`)
  return EXIT.done
}

export const tasksCancel = compose(parseTaskId, performTasksCancel)
