// berth actions: lists the actions of the last successful deployment, and runs one. The server decides whether an
// action needs confirmation; the user sees its question, and only a clear yes (or --yes) starts it. "Started" is
// printed only after 201 with a task of this action.
import { randomUUID } from 'node:crypto'
import { Action, type ActionStart, Task } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { ApiFailure } from '../../client/problem.ts'
import { findTarget, type Target, targetName } from '../../client/resolve.ts'
import type { Finished } from '../../client/wait.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { statusMark, statusStyle } from '../../progress/progress.ts'
import { taskHeader } from '../../progress/reporter.ts'
import { printTask } from '../../progress/verdict.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, formatSpan } from '../../terminal/format.ts'
import { suggest } from '../../terminal/suggest.ts'
import type { CellLike } from '../../terminal/terminal.ts'
import { cleanText } from '../../terminal/text.ts'
import { askYes, mayAsk } from '../prompt.ts'
import { explainRefusal, flagsOf, parseWait, type WaitChoice, waitAndReport } from './deploy.ts'

export const pathOf = (target: Target): string =>
  `/api/environments/${target.environment.id}/actions`

/** The newest run of each action, as far back as one page goes. */
interface Runs {
  byName: Map<string, Task>
  /** There are no older runs. */
  complete: boolean
}
const RUNS_READ = 100

async function readRuns(api: Api, target: Target): Promise<Runs> {
  const path = `/api/environments/${target.environment.id}/tasks`
  const query = { type: 'action', per_page: RUNS_READ }
  const { items } = await api.list(path, Task, { query, limit: RUNS_READ })
  const byName = new Map<string, Task>()
  for (const task of items) {
    if (task.action !== null && !byName.has(task.action)) byName.set(task.action, task)
  }
  return { byName, complete: items.length < RUNS_READ }
}

function lastCell(task: Task | undefined, complete: boolean, now: number): CellLike {
  if (!task) return complete ? 'never' : '-'
  const style = statusStyle(task.status)
  const mark = statusMark(task.status)
  const state = task.status === 'succeeded' ? mark : `${mark} ${task.status}`
  const when = task.finished_at === null ? '' : `${formatAgo(task.finished_at, now)} `
  return { text: `${when}${state}`, ...(style ? { style } : {}) }
}

function artifactsText({ artifact_paths: paths }: Action): string {
  if (paths[0] === undefined) return '-'
  return paths.length === 1 ? paths[0] : `${paths[0]}, …`
}

function scheduleText({ schedule }: Action): string {
  if (schedule === null) return '-'
  return schedule.timezone === 'UTC' ? schedule.cron : `${schedule.cron} ${schedule.timezone}`
}

function nextCell({ schedule }: Action, now: number): CellLike {
  if (schedule === null) return '-'
  if (schedule.paused_reason !== null) return { text: 'paused', style: 'yellow' }
  if (schedule.next_run_at === null) return '-'
  const ms = Date.parse(schedule.next_run_at) - now
  return ms <= 0 ? 'now' : `in ${formatSpan(ms)}`
}

/** Says under the table why a schedule does not run: the reasons are too long for a column. */
async function notePauses({ screen }: Context, actions: readonly Action[]): Promise<void> {
  for (const { name, schedule } of actions) {
    if (!schedule?.paused_reason) continue
    await screen.note(cleanText(`The schedule of ${name} is paused: ${schedule.paused_reason}`))
  }
}

async function performActionsList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  const { items, raw } = await api.list(pathOf(target), Action)
  const isNeeded = !screen.json && items.length > 0
  const runs = isNeeded ? await readRuns(api, target) : { byName: new Map(), complete: true }
  const hasSchedules = items.some(({ schedule }) => schedule !== null)
  const times = hasSchedules ? ['SCHEDULE', 'NEXT'] : []
  await screen.printList({
    rows: items,
    raw,
    header: ['NAME', 'TITLE', ...times, 'ARTIFACTS', 'LAST'],
    human: (action) => {
      const title = action.title === action.name ? '-' : action.title
      const name: CellLike = { text: action.name, style: 'bold' }
      if (!action.enabled) {
        const reason = `disabled: ${action.disabled_reason ?? 'no reason is known'}`
        const empty = times.map(() => '')
        return [name, title, { text: reason, style: 'yellow', reaches: true }, ...empty, '']
      }
      const last = lastCell(runs.byName.get(action.name), runs.complete, io.now())
      const when = hasSchedules ? [scheduleText(action), nextCell(action, io.now())] : []
      return [name, title, ...when, artifactsText(action), last]
    },
    plain: (action) => {
      const last: Task | undefined = runs.byName.get(action.name)
      return [
        action.name,
        action.title,
        action.artifact_paths.join(','),
        last?.finished_at ?? '',
        last?.status ?? '',
        action.enabled ? 'enabled' : 'disabled',
        action.disabled_reason ?? '',
        action.schedule?.cron ?? '',
        action.schedule?.timezone ?? '',
        action.schedule?.next_run_at ?? '',
        action.schedule?.paused_reason ?? '',
      ]
    },
    empty:
      `${targetName(target)} has no actions. They are declared under 'actions' in ` +
      '.service.yml and come with a deployment.',
  })
  if (!screen.json) await notePauses(context, items)
  return EXIT.done
}

export const actionsList = compose(() => undefined, performActionsList)

interface ActionsRunOptions {
  name: string
  message: string | undefined
  wait: WaitChoice | null
  /** The folder for its files; implies waiting. */
  download: string | undefined
}

function parseActionsRun(invocation: Invocation): ActionsRunOptions {
  const { args, flags } = invocation
  const download = flagText(flags, 'download')
  return {
    name: args[0] ?? '',
    message: flagText(flags, 'message'),
    wait: parseWait(invocation, flagOn(flags, 'wait') || download !== undefined),
    download,
  }
}

/** Lists the existing actions when this one is not among them. */
export async function unknownAction(api: Api, target: Target, name: string, reported?: ApiFailure) {
  const { items } = await api.list(pathOf(target), Action)
  const names = items.map((action) => action.name)
  if (reported && (names.length === 0 || names.includes(name))) return reported
  const hint = suggest(name, names, 'actions')
  return new CliError(EXIT.notFound, `no action '${name}' in ${targetName(target)}`, hint)
}

async function explain(error: ApiFailure, api: Api, target: Target, name: string, now: number) {
  const flags = flagsOf(target)
  const list = `berth tasks ${flags} --type action`
  const refused = (message: string, hint?: string) => new CliError(EXIT.refused, message, hint)
  switch (error.code) {
    case 'not_found':
      return unknownAction(api, target, name, error)
    case 'action_disabled':
      return refused(`${name} is disabled: ${error.message}`)
    case 'not_deployed':
      return refused(error.message, `berth deploy ${flags} --wait`)
    case 'too_many_tasks':
      return refused(error.message, `${list} lists them; berth tasks cancel ID`)
    default:
      return explainRefusal(error, target, now, { noun: 'the action', verb: 'run it', list })
  }
}

/** Names as in .service.yml; any other word would be another path of the API. */
export const ACTION_NAME = /^[a-z][a-z0-9-]{0,63}$/

async function post(api: Api, target: Target, name: string, body: ActionStart): Promise<Finished> {
  const { value: task, raw } = await api.post(`${pathOf(target)}/${name}/tasks`, Task, {
    body,
    idempotencyKey: randomUUID(),
    madeAt: '/api/tasks',
    expect: 201,
  })
  const isIt = task.environment_id === target.environment.id && task.action === name
  if (isIt) return { task, raw }
  throw new ApiFailure('nonsense', EXIT.error, `task ${task.id} is not one of ${name}`)
}

/** Asks the user the action's question; throws unless confirmed. */
async function confirm(context: Context, name: string, refusal: ApiFailure): Promise<void> {
  const asked = refusal.details.confirm
  const question = typeof asked === 'string' && asked !== '' ? asked : `Run ${name}?`
  if (!mayAsk(context)) {
    throw usage(`${name} asks first: ${question} Nothing was started`, 'add --yes')
  }
  if (await askYes(context, question)) return
  throw new CliError(EXIT.refused, 'not confirmed; nothing was started')
}

async function start(
  context: Context,
  api: Api,
  target: Target,
  { name, message }: ActionsRunOptions,
): Promise<Finished> {
  const body = message === undefined ? {} : { message }
  const isConfirmed = context.globals.yes
  try {
    return await post(api, target, name, isConfirmed ? { ...body, confirm: true } : body)
  } catch (error) {
    const asks = error instanceof ApiFailure && error.code === 'confirmation_required'
    if (!asks || isConfirmed) throw error
    await confirm(context, name, error)
    return post(api, target, name, { ...body, confirm: true })
  }
}

async function performActionsRun(options: ActionsRunOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'change')
  if (!ACTION_NAME.test(options.name)) throw await unknownAction(api, target, options.name)
  let started: Finished
  try {
    started = await start(context, api, target, options)
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error
    throw await explain(error, api, target, options.name, io.now())
  }
  const { task, raw } = started
  if (options.wait) {
    const code = await waitAndReport(context, api, target, task, options.wait)
    if (code !== EXIT.done || options.download === undefined) return code
    const { downloadOf } = await import('../files/artifacts.ts')
    await downloadOf(context, api, task.id, options.download)
    return code
  }
  await screen.note(taskHeader(task, target))
  const waiting = task.waiting_for ? cleanText(`: ${task.waiting_for.message}`) : ''
  await screen.note(
    `Started, ${task.status}${waiting}. Watch it with: berth tasks log ${task.id} -f`,
  )
  await printTask(context, target, task, raw, null, false)
  return EXIT.done
}

export const actionsRun = compose(parseActionsRun, performActionsRun)
