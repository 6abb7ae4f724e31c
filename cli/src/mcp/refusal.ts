// Turns an error into an answer: a sentence with the problem and the remedy, and a code for programs. Refusals keep
// their messages, internal faults show none, and no answer contains the value of a variable.

import { ApiFailure, isOutcomeUnknown } from '../client/problem.ts'
import type { Target } from '../client/resolve.ts'
import { MCP } from '../limits/client.ts'
import { CliError, EXIT } from '../terminal/exit.ts'
import { type Answer, oneLine } from './answer.ts'
import type { Refused } from './schemas.ts'

/** What the tool was about to do; only `start` and `change` can leave an unknown outcome. */
export type Undertaking = 'read' | 'start' | 'change'

export const refuse = (refused: Refused): Answer => {
  const hint = refused.hint === undefined ? '' : ` ${sentence(refused.hint)}`
  const problems = (refused.problems ?? []).map(
    ({ field, code, message }) => `\n- ${field} (${code}): ${message}`,
  )
  return {
    text: `${sentence(refused.message)}${hint}${problems.join('')}`,
    structured: refused,
    isError: true,
  }
}

const clean = (text: string): string => oneLine(text, MCP.sentenceChars)

/** Words that may begin a sentence; any other word may be a name, which keeps its case. */
const OPENING =
  /^(an?|did|environments|it|log|name|no|not|nothing|one|projects|the|this|try|which)\b/

/** With a capital and a full stop. */
export function sentence(text: string): string {
  const tidy = clean(text)
  const first = OPENING.test(tidy) ? tidy.slice(0, 1).toUpperCase() + tidy.slice(1) : tidy
  return /[.!?…)]$/.test(first) ? first : `${first}.`
}

const STARTED_BY: Record<string, string> = {
  webhook: 'started by a push',
  cli: 'started with berth',
  api: 'started over the API',
  mcp: 'started over MCP',
  dashboard: 'started in the dashboard',
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

function inProgress({ details }: ApiFailure): Refused | undefined {
  if (typeof details.task_id !== 'number') return undefined
  const state = details.task_status === 'queued' ? 'queued' : 'running'
  const by = STARTED_BY[String(details.trigger)]
  const message = `Not started: task ${details.task_id} is already ${state}${by ? ` (${by})` : ''}.`
  const hint = 'Ask get_deploy_diagnostics for its state.'
  return { code: 'deployment_in_progress', message, hint, task_id: details.task_id }
}

function problemsOf({ details }: ApiFailure): Refused['problems'] {
  if (!Array.isArray(details.errors)) return undefined
  return details.errors.slice(0, MCP.hints).map((one: unknown) => {
    const { field, code, message } = (one ?? {}) as Record<string, unknown>
    return {
      field: clean(text(field) ?? '-'),
      code: clean(text(code) ?? 'invalid'),
      message: clean(text(message) ?? ''),
    }
  })
}

const DOUBT: Record<Undertaking, string | undefined> = {
  read: undefined,
  start: 'It is not known whether a deployment started: ask get_deploy_diagnostics (latest_task).',
  change: 'It is not known whether the change was made: ask list_variables, or repeat the call.',
}

function fromServer(failure: ApiFailure, undertaking: Undertaking, target?: Target): Refused {
  const { details } = failure
  const code = failure.code ?? (failure.kind === 'no_answer' ? 'no_contact' : 'unexpected_answer')
  if (failure.code === 'deployment_in_progress') {
    const known = inProgress(failure)
    if (known) return known
  }
  if (failure.code === 'environment_protected' && target) {
    const owner = text((details.owner as { name?: unknown } | undefined)?.name) ?? 'its owner'
    const message = `${target.environment.identifier} is protected; only ${oneLine(owner)} can change it.`
    return { code, message }
  }
  const problems = problemsOf(failure)
  const requestId = text(details.request_id)
  const isUnknown = undertaking !== 'read' && isOutcomeUnknown(failure)
  const hint = isUnknown ? DOUBT[undertaking] : failure.hint
  return {
    code,
    message: problems ? (text(details.title) ?? 'The request is not valid') : failure.message,
    ...(hint === undefined ? {} : { hint }),
    ...(problems ? { problems } : {}),
    ...(requestId === undefined || (failure.status ?? 0) < 500 ? {} : { request_id: requestId }),
  }
}

const LOG_IN = 'Not logged in. Run: berth login'

function isNotLoggedIn(error: CliError): boolean {
  return error.exitCode === EXIT.notLoggedIn && (error as Partial<ApiFailure>).status !== 403
}

/** Turns every error into an answer. `taskId`: the task that was started before the error. */
export function explain(
  error: unknown,
  about: { undertaking: Undertaking; target?: Target | undefined; taskId?: number | undefined },
): Answer {
  const refused = describe(error, about.undertaking, about.target)
  if (about.taskId === undefined) return refuse(refused)
  const message = `Task ${about.taskId} was started, but how it ends is not known: ${refused.message}`
  const hint = 'Ask get_deploy_diagnostics later.'
  return refuse({ ...refused, message, hint, task_id: about.taskId })
}

function describe(error: unknown, undertaking: Undertaking, target?: Target): Refused {
  if (!(error instanceof CliError)) {
    const doubt = DOUBT[undertaking]
    const name = error instanceof Error ? error.name : 'unknown'
    const message = `Internal error of berth mcp (${name})`
    return { code: 'internal_error', message, ...(doubt ? { hint: doubt } : {}) }
  }
  if (isNotLoggedIn(error)) {
    const why = error.message === 'not logged in' ? '' : ` (${clean(error.message)})`
    return { code: 'not_logged_in', message: `${LOG_IN}${why}` }
  }
  if (error instanceof ApiFailure) return tidied(fromServer(error, undertaking, target))
  const code = error.exitCode === EXIT.notFound ? 'not_found' : 'refused'
  const { message, hint } = error
  return tidied({ code, message, ...(hint === undefined ? {} : { hint }) })
}

const tidied = (refused: Refused): Refused => ({
  ...refused,
  message: clean(refused.message),
  ...(refused.hint === undefined ? {} : { hint: clean(refused.hint) }),
})
