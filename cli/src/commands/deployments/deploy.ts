// berth deploy: starts a deployment and, with --wait, waits for its end. "Started" is printed only after 201 with a
// task; the exit code of a wait comes from the task's final status. A retried request cannot start twice, because every
// try of one invocation carries the same key.
import { randomUUID } from 'node:crypto'
import { CommitPrefix, Task } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { ApiFailure, isOutcomeUnknown } from '../../client/problem.ts'
import { findTarget, type Target } from '../../client/resolve.ts'
import { type Finished, type WaitOptions, waitForTask } from '../../client/wait.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { printOutput } from '../../progress/output.ts'
import { createReporter, taskHeader } from '../../progress/reporter.ts'
import { printTask, reportVerdict } from '../../progress/verdict.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, parseDuration } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'

export interface WaitChoice {
  timeoutMs: number
  showLog: boolean
  /** The caller prints the data itself. */
  hasData?: true
}

interface DeployOptions {
  /** Starts nothing; waits for the existing deployment. */
  attach: boolean
  wait: WaitChoice | null
  body: { commit_sha?: string; no_cache?: true; reuse_release?: true; message?: string }
}

/** --wait, --timeout and --log, for every command that can wait for a task. */
export function parseWait({ flags }: Invocation, waits: boolean): WaitChoice | null {
  const timeout = flagText(flags, 'timeout')
  if (!waits && timeout !== undefined) throw usage('--timeout needs --wait')
  if (!waits && flagOn(flags, 'log')) throw usage('--log needs --wait')
  if (!waits) return null
  return {
    timeoutMs:
      timeout === undefined ? CLIENT.waitMs : parseDuration('--timeout', timeout, CLIENT.waitMaxMs),
    showLog: flagOn(flags, 'log'),
  }
}

function parseDeploy(invocation: Invocation): DeployOptions {
  const { flags } = invocation
  const attach = flagOn(flags, 'attach')
  const commit = flagText(flags, 'commit')
  const message = flagText(flags, 'message')
  const noCache = flags.cache === false
  if (attach && (commit !== undefined || message !== undefined || noCache)) {
    throw usage('--attach starts nothing; it goes without --commit, --no-cache and -m')
  }
  if (commit !== undefined && !CommitPrefix.safeParse(commit).success) {
    throw usage(
      '--commit takes a SHA, or its first 7 or more hex digits',
      'git log --oneline prints them',
    )
  }
  return {
    attach,
    wait: parseWait(invocation, attach || flagOn(flags, 'wait')),
    body: {
      ...(commit === undefined ? {} : { commit_sha: commit }),
      ...(noCache ? { no_cache: true as const } : {}),
      ...(message === undefined ? {} : { message }),
    },
  }
}

export const flagsOf = ({ project, environment }: Target): string =>
  `-p ${project.name} -e ${environment.identifier}`

const TRIGGER_WORDS: Record<string, string> = {
  webhook: 'by a push',
  cli: 'with berth',
  api: 'over the API',
  mcp: 'over MCP',
  dashboard: 'in the dashboard',
}

/** What was to be started, for the messages that mention it. */
interface Undertaking {
  noun: string
  verb: string
  /** The command that lists it when it is unknown whether it was started. */
  list: string
}

/** Explains 409 and 403 with what is known about the other deployment or the owner. */
export function explainRefusal(
  failure: ApiFailure,
  target: Target,
  now: number,
  { noun, verb, list }: Undertaking,
): CliError {
  const { details } = failure
  const name = target.environment.identifier
  if (failure.code === 'deployment_in_progress' && typeof details.task_id === 'number') {
    const state = details.task_status === 'queued' ? 'queued' : 'running'
    const by = TRIGGER_WORDS[String(details.trigger)]
    const when =
      typeof details.started_at === 'string' ? ` ${formatAgo(details.started_at, now)}` : ''
    const who = by ? `, started ${by}${when}` : ''
    return new CliError(
      EXIT.refused,
      `a deployment is already ${state} (task ${details.task_id}${who})`,
      `wait for it with  berth deploy ${flagsOf(target)} --attach` +
        `     or stop it with  berth tasks cancel ${details.task_id}`,
    )
  }
  if (failure.code === 'environment_protected') {
    const owner = (details.owner as { name?: unknown } | undefined)?.name
    const named = typeof owner === 'string' ? ` (${owner})` : ''
    return new CliError(
      EXIT.refused,
      `${name} is protected; only its owner${named} can ${verb}`,
      failure.hint,
    )
  }
  if (isOutcomeUnknown(failure)) {
    return new CliError(
      failure.exitCode,
      `${failure.message}; it is not known whether ${noun} was started`,
      `${list} shows it`,
    )
  }
  return failure
}

/** `words`: what was to be started, for a refusal. */
export async function startTask(
  api: Api,
  target: Target,
  body: DeployOptions['body'],
  now: number,
  words: Omit<Undertaking, 'list'>,
): Promise<Finished> {
  const path = `/api/environments/${target.environment.id}/tasks`
  try {
    const { value: task, raw } = await api.post(path, Task, {
      body,
      idempotencyKey: randomUUID(),
      madeAt: '/api/tasks',
      expect: 201,
    })
    if (task.environment_id === target.environment.id) return { task, raw }
    throw new ApiFailure('nonsense', EXIT.error, `task ${task.id} is one of another environment`)
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error
    const list = `berth tasks ${flagsOf(target)}`
    throw explainRefusal(error, target, now, { ...words, list })
  }
}

/** The newest deployment that is queued or running, else the last one that ended. */
export async function findTask(api: Api, target: Target): Promise<Finished> {
  const path = `/api/environments/${target.environment.id}/tasks`
  const active = { status: ['queued', 'running'], per_page: 1 }
  for (const query of [active, { per_page: 1 }]) {
    const { items, raw } = await api.list(path, Task, { query, limit: 1 })
    if (items[0]) return { task: items[0], raw: raw[0] }
  }
  throw new CliError(
    EXIT.notFound,
    `${target.environment.identifier} was never deployed`,
    `berth deploy ${flagsOf(target)} --wait`,
  )
}

const watchCommand = (task: Task, target: Target): string =>
  task.type === 'deploy'
    ? `berth deploy ${flagsOf(target)} --attach`
    : `berth tasks log ${task.id} -f`

/** Waits and reports the end; shared by every command that starts a task. */
export async function waitAndReport(
  context: Context,
  api: Api,
  target: Target,
  task: Task,
  choice: WaitChoice,
): Promise<ExitCode> {
  const reporter = createReporter(context, target, api, choice.showLog)
  const isAction = task.type === 'action'
  const isDeployment = task.type === 'deploy'
  const options: WaitOptions = {
    timeoutMs: choice.timeoutMs,
    what: isAction ? 'action' : isDeployment ? 'deployment' : 'task',
    resume: watchCommand(task, target),
  }
  let finished: Finished
  try {
    await reporter.begin(task)
    finished = await waitForTask(api, task.id, context.io, options, reporter)
  } finally {
    await reporter.end()
  }
  const hasLog = choice.showLog
  if (isAction && !hasLog && finished.task.status === 'succeeded') {
    await printOutput(context, api, task.id)
  }
  const hasData = hasLog || isAction || choice.hasData === true
  return reportVerdict(context, api, target, finished, { hasLog, hasData })
}

/** Waits for a started task, or says how to watch it. */
export async function finishStart(
  context: Context,
  api: Api,
  target: Target,
  { task, raw }: Finished,
  wait: WaitChoice | null,
): Promise<ExitCode> {
  const { screen } = context
  if (wait) return waitAndReport(context, api, target, task, wait)
  await screen.note(taskHeader(task, target))
  const waiting = task.waiting_for ? cleanText(`: ${task.waiting_for.message}`) : ''
  await screen.note(
    `Started, ${task.status}${waiting}. Watch it with: ${watchCommand(task, target)}`,
  )
  await printTask(context, target, task, raw, null, false)
  return EXIT.done
}

async function performDeploy(options: DeployOptions, context: Context): Promise<ExitCode> {
  const { io } = context
  const api = await context.connect()
  const target = await findTarget(api, context, options.attach ? 'read' : 'change')
  const words = { noun: 'a deployment', verb: 'deploy it' }
  const started = options.attach
    ? await findTask(api, target)
    : await startTask(api, target, options.body, io.now(), words)
  return finishStart(context, api, target, started, options.wait)
}

export const deploy = compose(parseDeploy, performDeploy)
