// Describes a failed deployment: its output, the known cause, the changes since the last success. PURE. The platform's
// own checks are ordinary steps and need no special case; if a step wrote nothing, or there was none, the failure's own
// sentence is the output. No text says "could not be parsed".
import type { TaskStatus } from '@berth/shared'
import type { Failure, Hint } from '@berth/shared/api'
import { readHints } from './hints.ts'

export type DiagnosticsStatus = 'failed' | 'recovered' | 'none'

/** The newest failure counts until a later deployment succeeds. */
export const diagnosticsStatus = (
  failedId: number | undefined,
  laterSuccessId: number | undefined,
): DiagnosticsStatus => {
  if (failedId === undefined) return 'none'
  return laterSuccessId === undefined ? 'failed' : 'recovered'
}

const CANCELED = {
  user: 'A user canceled it.',
  superseded: 'A newer deployment replaced it before it began.',
  environment_removed: 'Its environment was removed.',
}

/** What became of a task, in one sentence; `waiting` says what a queued or running one waits for. */
export function summarizeTask(
  task: { status: TaskStatus; cancelReason: keyof typeof CANCELED | null; failure: Failure | null },
  waiting: string | undefined,
): string {
  switch (task.status) {
    case 'queued':
      return waiting ? `It waits. ${waiting}` : 'It waits to be started.'
    case 'running':
      return waiting ? `It runs and waits. ${waiting}` : 'It runs.'
    case 'succeeded':
      return 'It succeeded.'
    case 'failed':
      return task.failure?.message ?? 'It failed.'
    case 'canceled':
      return task.cancelReason ? CANCELED[task.cancelReason] : 'It was canceled.'
  }
}

export interface SinceLastSuccess {
  taskId: number
  commitSha: string | null
  /** Null if one of the two never read its file. */
  serviceFileChanged: boolean | null
  variableKeysChanged: string[]
}

/** Puts the message first if the output does not contain it, so that reason and evidence are together. */
export function composeOutput(failure: Failure, lines: readonly string[]): string {
  const text = lines.join('\n')
  if (lines.length === 0) return failure.message
  const [sentence = ''] = failure.message.split('\n')
  const isSaid = sentence === '' || text.includes(sentence)
  return failure.is_platform_check && !isSaid ? `${failure.message}\n${text}` : text
}

const short = (sha: string): string => sha.slice(0, 7)
const named = (keys: readonly string[]): string => {
  const shown = keys.slice(0, 10).join(', ')
  return keys.length > 10 ? `${shown} and ${keys.length - 10} more` : shown
}

/** Hints for when the output does not explain the failure: the differences from the last success. */
export function changeHints(commitSha: string | null, since: SinceLastSuccess | null): Hint[] {
  if (!since) return []
  const hints: Hint[] = []
  const last = `the last success (task ${since.taskId})`
  const isOtherCommit =
    commitSha !== null && since.commitSha !== null && commitSha !== since.commitSha
  if (isOtherCommit) {
    const message = `The commit is ${short(commitSha)}; ${last} had ${short(since.commitSha ?? '')}.`
    hints.push({ code: 'commit_changed', message })
  }
  if (since.serviceFileChanged) {
    hints.push({ code: 'service_file_changed', message: `.service.yml is not that of ${last}.` })
  }
  const keys = since.variableKeysChanged
  if (keys.length > 0) {
    const message = `Changed since ${last}: ${keys.length === 1 ? 'variable' : 'variables'} ${named(keys)}.`
    hints.push({ code: 'variables_changed', message })
  }
  const isSame = commitSha !== null && commitSha === since.commitSha
  if (isSame && since.serviceFileChanged === false && keys.length === 0) {
    const message = `Commit, .service.yml and variables are the same as in ${last}. Look for the cause on the server or in something the build downloads.`
    hints.push({ code: 'nothing_changed', message })
  }
  return hints
}

export const findHints = (
  failure: Failure,
  lines: readonly string[],
  commitSha: string | null,
  since: SinceLastSuccess | null,
): Hint[] => [...readHints({ failure, lines }), ...changeHints(commitSha, since)]
