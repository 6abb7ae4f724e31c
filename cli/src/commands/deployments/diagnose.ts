// berth diagnose: why the most recent failed deployment of an environment failed, or with --task what became of any task.
// The text is the server's: the step's own output, what was recognised in it, what changed since the last success. Exits with 0 whenever the question
// was answered, even if the deployment failed.

import { Diagnostics, Task, TaskDiagnostics } from '@berth/shared/api'
import { DIAGNOSTICS } from '@berth/shared/limits'
import type { Api } from '../../client/api.ts'
import { findTarget } from '../../client/resolve.ts'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { formatAgo, parseCount, shortCommit } from '../../terminal/format.ts'
import { cleanText, cutText } from '../../terminal/text.ts'

interface DiagnoseOptions {
  lines: number
  taskId: number | undefined
}

function parseDiagnose({ flags }: Invocation): DiagnoseOptions {
  const lines = flagText(flags, 'lines') ?? String(DIAGNOSTICS.lines)
  const task = flagText(flags, 'task')
  return {
    lines: parseCount('--lines', lines, DIAGNOSTICS.linesMax),
    taskId: task === undefined ? undefined : parseCount('--task', task, 0x7fff_ffff),
  }
}

/** These are printed in a separate line. */
const CHANGES = new Set([
  'commit_changed',
  'service_file_changed',
  'variables_changed',
  'nothing_changed',
])

/** '✗ Task 809 failed 52 min ago in build / Build image web (exit code 1)' */
function headline({ task, failure }: Diagnostics, now: number): string {
  const place = [failure?.phase, failure?.step_title ?? failure?.step].filter(Boolean).join(' / ')
  const how = failure?.is_platform_check
    ? ' (platform check)'
    : failure?.exit_code == null
      ? ''
      : ` (exit code ${failure.exit_code})`
  const when = formatAgo(task?.finished_at ?? null, now)
  return cleanText(`Task ${task?.id} failed ${when}${place === '' ? '' : ` in ${place}`}${how}`)
}

/** 'Changed since the last success (801, a51241a): commits, variable APP_KEY; .service.yml is the same' */
function changedLine({ task, since_last_success: since }: Diagnostics): string {
  if (!since) return ''
  const last = `the last success (${since.task_id}, ${shortCommit(since.commit_sha)})`
  const keys = since.variable_keys_changed
  const changed = [
    task?.commit_sha && task.commit_sha !== since.commit_sha ? 'commits' : '',
    keys.length === 0 ? '' : `${keys.length === 1 ? 'variable' : 'variables'} ${keys.join(', ')}`,
    since.service_file_changed ? '.service.yml' : '',
  ].filter(Boolean)
  const file =
    since.service_file_changed === null
      ? '; .service.yml was not read'
      : since.service_file_changed
        ? ''
        : '; .service.yml is the same'
  const what =
    changed.length === 0
      ? `Nothing changed since ${last}`
      : `Changed since ${last}: ${changed.join(', ')}`
  return cleanText(`${what}${file}`)
}

/** '9f2c1e0 "Add coupon field" by ada, push'; optional, the answer is complete without it. */
async function subjectLine(api: Api, id: number): Promise<string> {
  try {
    const options = { retries: 1, timeoutMs: CLIENT.excerptMs }
    const { value: task } = await api.get(`/api/tasks/${id}`, Task, options)
    const title = task.commit_message ? ` "${task.commit_message.split('\n')[0]}"` : ''
    const trigger = task.trigger === 'webhook' ? 'push' : task.trigger
    const commit = task.commit_sha === null ? task.branch : shortCommit(task.commit_sha)
    return cutText(cleanText(`${commit}${title} by ${task.triggered_by.name}, ${trigger}`), 100)
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.interrupted) throw error
    return ''
  }
}

const STATES = {
  queued: ['yellow', '…'],
  running: ['yellow', '…'],
  succeeded: ['green', '✓'],
  failed: ['red', '✗'],
  canceled: ['dim', '-'],
} as const

async function diagnoseOne(api: Api, taskId: number, options: DiagnoseOptions, context: Context) {
  const { screen } = context
  const { value: found, raw } = await api.get(`/api/tasks/${taskId}/diagnostics`, TaskDiagnostics, {
    query: { lines: options.lines },
  })
  if (screen.json) {
    await screen.printJson(raw)
    return EXIT.done
  }
  const { paint } = screen.out
  const [colour, mark] = STATES[found.status]
  const step = found.step ? ` in ${found.step.phase} / ${found.step.title}` : ''
  const what = `Task ${found.task_id} (${found.type}) ${found.status}${step}`
  await screen.print(`${paint(colour, mark)} ${cleanText(what)}`)
  await screen.print(`  ${cleanText(found.summary)}`)
  const lines = found.output === null ? [] : found.output.split('\n')
  for (const line of lines) await screen.print(`  ${cleanText(line)}`)
  for (const { message } of found.hints) {
    await screen.print(`  ${paint('yellow', '→')} ${cleanText(message)}`)
  }
  return EXIT.done
}

async function performDiagnose(options: DiagnoseOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  if (options.taskId !== undefined) return diagnoseOne(api, options.taskId, options, context)
  const { environment } = await findTarget(api, context, 'read')
  const path = `/api/environments/${environment.id}/diagnostics`
  const { value: found, raw } = await api.get(path, Diagnostics, {
    query: { lines: options.lines },
  })
  if (screen.json) {
    await screen.printJson(raw)
    return EXIT.done
  }
  if (!found.task) {
    await screen.print(cleanText(`No deployment of ${environment.identifier} has failed.`))
    return EXIT.done
  }
  const { paint } = screen.out
  const say = (text: string) => (text === '' ? undefined : screen.print(`  ${text}`))
  await screen.print(`${paint('red', '✗')} ${headline(found, io.now())}`)
  await say(await subjectLine(api, found.task.id))
  if (found.output_truncated)
    await say(paint('dim', `… berth tasks log ${found.task.id} has the rest`))
  for (const line of (found.output ?? '').split('\n')) await screen.print(`  ${cleanText(line)}`)
  if (!found.output_complete)
    await say(paint('dim', '… the rest of the output has not arrived yet; ask again'))
  for (const { code, message } of found.hints) {
    if (!CHANGES.has(code)) await say(`${paint('yellow', '→')} ${cleanText(message)}`)
  }
  await say(changedLine(found))
  if (found.superseded_by) {
    const later = `A later deployment (${found.superseded_by.id}) ${found.superseded_by.status}`
    await say(`${later}, so this is history.`)
  }
  return EXIT.done
}

export const diagnose = compose(parseDiagnose, performDiagnose)
