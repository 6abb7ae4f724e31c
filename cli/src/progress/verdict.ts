// Reports the end of a task once: the addresses of a success, the failed step's own last lines, who or what canceled
// it. Failures of additional requests (environment, log) do not change the verdict.

import { Environment, type Task } from '@berth/shared/api'
import type { Api } from '../client/api.ts'
import { LOG_ACCEPT, logPath, type NumberedLine, parseLines } from '../client/log-stream.ts'
import type { Target } from '../client/resolve.ts'
import type { Finished } from '../client/wait.ts'
import type { Context } from '../context.ts'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, type ExitCode } from '../terminal/exit.ts'
import { formatClock, formatDuration } from '../terminal/format.ts'
import { cleanLogLine, cleanText, padText, textWidth } from '../terminal/text.ts'
import { summaryLines } from './progress.ts'

interface VerdictOptions {
  /** The log was shown instead of the phases. */
  hasLog: boolean
  /** stdout already has the log or the output. */
  hasData: boolean
}

/** "Deployment", "Removal", or the action's name. */
const nounOf = (task: Task): string =>
  task.type === 'deploy'
    ? 'Deployment'
    : task.type === 'destroy'
      ? 'Removal'
      : (task.action ?? 'Action')

const tookText = (task: Task): string =>
  task.duration_ms === null ? '' : formatDuration(task.duration_ms)

export function exitCodeOfTask(task: Task): ExitCode {
  return task.status === 'succeeded' ? EXIT.done : EXIT.taskFailed
}

export function cancelReason(task: Task): string {
  if (task.cancel_reason === 'superseded') {
    return task.superseded_by === null
      ? 'superseded by a newer deployment'
      : `superseded by task ${task.superseded_by}`
  }
  if (task.cancel_reason === 'environment_removed') return 'the environment was removed'
  // a control plane of before does not name the user
  return task.canceled_by === null ? 'canceled by a user' : `canceled by ${task.canceled_by}`
}

/** 'in "Build image web" (exit code 1)' */
export function failurePlace(task: Task): string {
  const { failure } = task
  if (!failure) return ''
  const place = failure.step_title ?? failure.step ?? failure.phase
  const code = failure.exit_code === null ? '' : ` (exit code ${failure.exit_code})`
  return place === null ? code.trim() : `in "${place}"${code}`
}

/** What serves now; only stated if known. */
export function survivorSentence(task: Task, environment: Environment | undefined): string {
  if (task.type !== 'deploy' || !environment) return ''
  if (task.live_at !== null) return 'The new version serves; what failed came after that.'
  if (environment.status === 'stopped') return 'The version deployed before stays stopped.'
  if (environment.status === 'running') return 'The version deployed before keeps running.'
  if (environment.status === 'degraded') {
    const reason = environment.status_reason ? `: ${environment.status_reason}` : '.'
    return `The version deployed before is degraded${reason}`
  }
  if (environment.status === 'failed' || environment.status === 'new') {
    return `Nothing is running in ${environment.identifier} now.`
  }
  return ''
}

/** The last lines of the failed step; by step, because concurrent steps mix their lines. */
async function readFailedLines(api: Api, task: Task): Promise<NumberedLine[]> {
  const name = task.failure?.step
  if (!name) return []
  const step = task.phases?.flatMap((phase) => phase.steps).find((one) => one.name === name)
  const last = step?.last_line ?? task.log_lines
  const from = Math.max(step?.first_line ?? 1, last - CLIENT.excerptScanLines, 1)
  const answer = await api.ask('GET', logPath(task.id), {
    query: { step: name, from_line: from },
    headers: LOG_ACCEPT,
    retries: 1,
    timeoutMs: CLIENT.excerptMs,
  })
  if (answer.status >= 400) throw api.explain('GET', logPath(task.id), answer)
  const lines = parseLines(answer.text.trimEnd(), answer.headers)
  return lines.slice(-CLIENT.excerptLines)
}

async function readEnvironment(api: Api, id: number): Promise<Environment | undefined> {
  try {
    const options = { retries: 1, timeoutMs: CLIENT.excerptMs }
    return (await api.get(`/api/environments/${id}`, Environment, options)).value
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.interrupted) throw error
    return undefined // only needed for a sentence
  }
}

async function reportSuccess(
  context: Context,
  task: Task,
  environment?: Environment,
): Promise<void> {
  const { screen, io } = context
  const took = tookText(task)
  const url = environment?.url ?? ''
  if (!screen.live) {
    await screen.note(
      cleanText(`${formatClock(io.now())} task ${task.id} succeeded ${took} ${url}`).trimEnd(),
    )
  } else {
    const word = task.type === 'deploy' ? 'Deployed' : `${nounOf(task)} finished`
    await screen.note(`${screen.err.paint('green', '✓')} ${cleanText(word)} in ${took}`)
    const services = (environment?.services ?? []).filter((service) => service.url !== null)
    const width = Math.max(0, ...services.map((service) => textWidth(cleanText(service.name))))
    for (const { name, url: address } of services) {
      await screen.note(`  ${padText(cleanText(name), width)}   ${cleanText(address ?? '')}`)
    }
    if (services.length === 0 && url) await screen.note(`  ${cleanText(url)}`)
  }
}

async function reportLines(context: Context, api: Api, task: Task): Promise<void> {
  const { screen } = context
  const say = (text: string) => screen.say(`  ${text}`)
  let lines: NumberedLine[] = []
  try {
    lines = await readFailedLines(api, task)
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.interrupted) throw error
    await say(cleanText(`(its output could not be read: ${(error as Error).message})`))
  }
  const width = Math.max(0, ...lines.map((line) => String(line.n ?? '').length))
  for (const { n, text } of lines) {
    const number = String(n ?? '').padStart(width)
    await say(`${number} │ ${cleanLogLine(text, screen.err.colour)}`)
  }
  if (task.failure && (lines.length === 0 || task.failure.is_platform_check)) {
    for (const line of task.failure.message.split('\n')) await say(cleanText(line))
  }
}

async function reportFailure(
  context: Context,
  api: Api,
  task: Task,
  environment?: Environment,
): Promise<void> {
  const { screen, io } = context
  const took = tookText(task)
  const place = cleanText(failurePlace(task))
  if (screen.live) {
    const text = `${nounOf(task)} failed ${place}${took === '' ? '' : ` after ${took}`}`
    await screen.say(`${screen.err.paint('red', '✗')} ${cleanText(text)}\n`)
  } else {
    const text = `${formatClock(io.now())} task ${task.id} failed ${took} ${place}`
    await screen.say(text.replace(/ +/g, ' ').trimEnd())
  }
  await reportLines(context, api, task)
  const survivor = survivorSentence(task, environment)
  const anchor = task.failure?.line ? `#L${task.failure.line}` : ''
  if (screen.live) await screen.say('')
  if (survivor) await screen.say(`  ${cleanText(survivor)}`)
  await screen.say(
    `  Full log:   berth tasks log ${task.id}          ${cleanText(task.url)}${anchor}`,
  )
}

async function reportCanceled(context: Context, task: Task, target: Target): Promise<void> {
  const { screen, io } = context
  const reason = cancelReason(task)
  if (screen.live) {
    await screen.say(
      `${screen.err.paint('yellow', '–')} ${cleanText(nounOf(task))} canceled: ${reason}`,
    )
  } else {
    await screen.say(`${formatClock(io.now())} task ${task.id} canceled: ${reason}`)
  }
  if (task.superseded_by !== null) {
    const name = cleanText(`-p ${target.project.name} -e ${target.environment.identifier}`)
    await screen.say(`  Follow task ${task.superseded_by} with:  berth deploy ${name} --attach`)
  }
}

/** Prints the outcome and returns the exit code. */
export async function reportVerdict(
  context: Context,
  api: Api,
  target: Target,
  { task, raw }: Finished,
  options: VerdictOptions,
): Promise<ExitCode> {
  const { screen } = context
  // an action does not change the addresses or what serves there
  const isReported = task.status !== 'canceled' && task.type === 'deploy'
  const environment = isReported ? await readEnvironment(api, task.environment_id) : undefined
  if (screen.live && !options.hasLog) {
    for (const line of summaryLines(task, screen.width, screen.err.paint)) await screen.note(line)
  }
  if (task.status === 'succeeded') await reportSuccess(context, task, environment)
  else if (task.status === 'failed') await reportFailure(context, api, task, environment)
  else await reportCanceled(context, task, target)
  for (const warning of task.warnings) await screen.warn(warning.message)
  await printTask(context, target, task, raw, environment?.url ?? null, options.hasData)
  return exitCodeOfTask(task)
}

/** The task as data: JSON, or one tab-separated line for a pipe. */
export async function printTask(
  context: Context,
  target: Target,
  task: Task,
  raw: unknown,
  url: string | null,
  hasData: boolean,
): Promise<void> {
  const { screen } = context
  if (screen.json) return screen.printJson(raw)
  if (screen.human || hasData) return
  const { project, environment } = target
  const cells = [task.id, task.status, project.name, environment.identifier, task.commit_sha, url]
  await screen.print(cells.map((cell) => cleanText(String(cell ?? '-'))).join('\t'))
}
