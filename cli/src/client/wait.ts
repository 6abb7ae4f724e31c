// Waits for the end of a task. The verdict is only the final status read over plain HTTP; lost connections, restarts
// and proxies' error pages only cost time. The end of the wait, for any reason, never cancels the task.
import { isFinished } from '@berth/shared'
import { Task } from '@berth/shared/api'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, interrupted } from '../terminal/exit.ts'
import { formatDuration } from '../terminal/format.ts'
import type { Io } from '../terminal/io.ts'
import type { Api, Read } from './api.ts'
import { ApiFailure } from './problem.ts'
import type { ReplyHeaders } from './transport.ts'

export interface Finished {
  task: Task
  raw: unknown
}

export interface WaitWatcher {
  /** Called with every state that was read; `serverNow` is the server's clock. */
  update(task: Task, serverNow: number): void | Promise<void>
  /** Called after every contact, also if nothing has changed. */
  still?(): void | Promise<void>
  lost(reason: string): void | Promise<void>
  found(): void | Promise<void>
}

export interface WaitOptions {
  /** What continues when the wait has ended. */
  what: 'deployment' | 'action' | 'task'
  timeoutMs: number
  /** The command that resumes the wait. */
  resume: string
}

/** Such an answer says nothing about the task, so poll again. */
const isPassing = (error: unknown): error is ApiFailure =>
  error instanceof ApiFailure &&
  (error.kind !== 'refused' || error.status === 429 || (error.status ?? 0) >= 500)

/** Undocumented: tests cannot wait whole seconds per poll; it can only shorten the interval. */
export function pollInterval(io: Io): number {
  const wanted = Number(io.env.BERTH_POLL_MS)
  return wanted > 0 ? Math.min(wanted, CLIENT.pollMs) : CLIENT.pollMs
}

function serverClock(headers: ReplyHeaders, now: number): number {
  const date = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(date) ? now : date
}

/** The pause: short at first, longer later, growing while the server does not answer. */
export function pauseMs(pollMs: number, waitedMs: number, failures: number): number {
  const usual = waitedMs < CLIENT.pollSlowAfterMs ? pollMs : pollMs * 3
  return Math.min(usual * 2 ** Math.min(failures, 10), CLIENT.backoffCapMs)
}

export async function waitForTask(
  api: Api,
  taskId: number,
  io: Io,
  options: WaitOptions,
  watcher: WaitWatcher,
): Promise<Finished> {
  const pollMs = pollInterval(io)
  const startedAt = io.now()
  const deadline = startedAt + options.timeoutMs
  let lastContactAt = startedAt
  let failures = 0
  let etag: string | null = null
  const goesOn = `the ${options.what} continues; resume: ${options.resume}`
  try {
    for (;;) {
      const left = deadline - io.now()
      if (left <= 0) {
        const waited = formatDuration(options.timeoutMs)
        throw new CliError(EXIT.timeout, `task ${taskId} has not ended within ${waited}`, goesOn)
      }
      try {
        const read: Read<Task> | null = await api.getIfChanged(`/api/tasks/${taskId}`, Task, etag, {
          retries: 0,
          timeoutMs: Math.min(CLIENT.pollRequestMs, left),
        })
        if (failures > 0) await watcher.found()
        failures = 0
        lastContactAt = io.now()
        if (read) {
          etag = read.headers.get('etag')
          await watcher.update(read.value, serverClock(read.headers, io.now()))
          if (isFinished(read.value.status)) return { task: read.value, raw: read.raw }
        }
        await watcher.still?.()
      } catch (error) {
        if (!isPassing(error)) throw error
        if (failures++ === 0) await watcher.lost(error.message)
        // requires several tries: a laptop that slept has been without contact for an hour at its first one
        if (failures > CLIENT.retries && io.now() - lastContactAt >= CLIENT.noContactMs) {
          const waited = formatDuration(CLIENT.noContactMs)
          const message = `no contact for ${waited}; the ${options.what} may continue (${error.message})`
          throw new CliError(EXIT.error, message, `resume: ${options.resume}`)
        }
      }
      const pause = pauseMs(pollMs, io.now() - startedAt, failures)
      await io.sleep(Math.max(0, Math.min(pause, deadline - io.now())))
    }
  } catch (error) {
    throw endOfWait(error, options.what, goesOn)
  }
}

/** Ctrl-C and refused tokens end the wait, not the task; the message says both. */
function endOfWait(error: unknown, what: string, goesOn: string): unknown {
  if (!(error instanceof CliError)) return error
  if (error.exitCode === EXIT.interrupted) return interrupted('stopped waiting', goesOn)
  if (error instanceof ApiFailure && error.kind === 'refused') {
    const message = `${error.message}; the ${what} may continue`
    return new CliError(error.exitCode, message, error.hint)
  }
  return error
}
