// berth actions history: what became of the scheduled runs of an action: started, skipped or missed, with the reason.
import { Action, ScheduledRun } from '@berth/shared/api'
import { findTarget, targetName } from '../../client/resolve.ts'
import { type Context, compose, type Invocation } from '../../context.ts'
import { statusMark, statusStyle } from '../../progress/progress.ts'
import { EXIT, type ExitCode } from '../../terminal/exit.ts'
import type { CellLike } from '../../terminal/terminal.ts'
import { ACTION_NAME, pathOf, unknownAction } from './actions.ts'

function resultCell(run: ScheduledRun): CellLike {
  if (run.task_status === null) return { text: run.outcome, style: 'yellow' }
  const style = statusStyle(run.task_status)
  const text = `${statusMark(run.task_status)} ${run.task_status}`
  return { text, ...(style ? { style } : {}) }
}

const dueText = ({ due_at, last_due_at }: ScheduledRun): string =>
  due_at === last_due_at ? due_at : `${due_at} to ${last_due_at}`

async function performHistory(name: string, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  if (!ACTION_NAME.test(name)) throw await unknownAction(api, target, name)
  const { items, raw } = await api.list(`${pathOf(target)}/${name}/runs`, ScheduledRun)
  if (items.length === 0) {
    const { items: actions } = await api.list(pathOf(target), Action)
    const isKnown = actions.some((action) => action.name === name)
    if (!isKnown) throw await unknownAction(api, target, name)
  }
  await screen.printList({
    rows: items,
    raw,
    header: ['DUE', 'RESULT', 'RUNS', 'TASK', 'REASON'],
    human: (run) => [
      dueText(run),
      resultCell(run),
      String(run.runs),
      run.task_id === null ? '-' : String(run.task_id),
      { text: run.reason ?? '-', reaches: true },
    ],
    plain: (run) => [
      run.due_at,
      run.last_due_at,
      run.outcome,
      run.task_status ?? '',
      String(run.runs),
      run.task_id === null ? '' : String(run.task_id),
      run.reason ?? '',
    ],
    empty: `No scheduled run of ${name} in ${targetName(target)} yet.`,
  })
  return EXIT.done
}

export const actionsHistory = compose(
  ({ args }: Invocation): string => args[0] ?? '',
  performHistory,
)
