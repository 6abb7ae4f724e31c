// berth tasks log: the raw log of any task. Keeps colours on a terminal and removes them in a pipe; -O keeps every
// byte. A file is written beside its target and renamed when complete, so it is never short.
import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { open, realpath, rename, stat, unlink } from 'node:fs/promises'
import { Task } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import {
  chunksOf,
  type LogRequest,
  logPath,
  readLines,
  readRecords,
} from '../../client/log-stream.ts'
import { ApiFailure } from '../../client/problem.ts'
import { findTarget } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { parseCount } from '../../terminal/format.ts'
import { cleanLogLine, toJson } from '../../terminal/text.ts'
import { parseTaskId } from './tasks.ts'

interface TasksLogOptions {
  id: number | undefined
  failed: boolean
  follow: boolean
  phase: string | undefined
  fromLine: number
  output: string | undefined
}

function parseTasksLog(invocation: Invocation): TasksLogOptions {
  const { args, flags, globals } = invocation
  const options = {
    id: args[0] === undefined ? undefined : parseTaskId(invocation).id,
    failed: flagOn(flags, 'failed'),
    follow: flagOn(flags, 'follow'),
    phase: flagText(flags, 'phase'),
    fromLine: parseCount('--from-line', flagText(flags, 'fromLine') ?? '1', 999_999_999),
    output: flagText(flags, 'output'),
  }
  if (options.id !== undefined && options.failed) throw usage('--failed goes without a task ID')
  if (options.failed && options.follow) throw usage('a failed task has ended; leave out -f')
  if (options.output !== undefined && (options.follow || globals.json)) {
    throw usage('-O saves the raw log once; it goes without -f and --json')
  }
  return options
}

async function findTaskId(api: Api, context: Context, failed: boolean): Promise<number> {
  const { environment } = await findTarget(api, context, 'read')
  const { items } = await api.list(`/api/environments/${environment.id}/tasks`, Task, {
    query: { per_page: 1, ...(failed ? { status: ['failed'] } : {}) },
    limit: 1,
  })
  if (items[0]) return items[0].id
  throw new CliError(
    EXIT.notFound,
    failed
      ? `no deployment of ${environment.identifier} has failed`
      : `${environment.identifier} was never deployed`,
    failed ? `what its containers wrote: berth logs -e ${environment.identifier}` : undefined,
  )
}

async function printText(api: Api, context: Context, request: LogRequest): Promise<void> {
  const { screen, io } = context
  const onLost = (reason: string) => screen.note(`${reason}; trying again`)
  for await (const line of readLines(api, io, request, onLost)) {
    await io.stdout.write(`${cleanLogLine(line.text, screen.out.colour)}\n`)
    if (io.stdout.closed) return
  }
}

/** The API's records: an array, because that is one document; with -f one record per line. */
async function printJson(api: Api, context: Context, request: LogRequest): Promise<void> {
  const { screen, io } = context
  const onLost = (reason: string) => screen.note(`${reason}; trying again`)
  let count = 0
  for await (const { line } of readRecords(api, io, request, onLost)) {
    if (!line) {
      throw new ApiFailure('nonsense', EXIT.error, 'this server does not give the log as JSON')
    }
    const before = request.follow ? '' : count === 0 ? '[\n' : ',\n'
    await io.stdout.write(`${before}${toJson(line)}${request.follow ? '\n' : ''}`)
    if (io.stdout.closed) return
    count++
  }
  if (!request.follow) await io.stdout.write(count === 0 ? '[]\n' : '\n]\n')
}

/** Where to write: a regular file is replaced atomically, a device or pipe is written to. */
async function chooseTarget(path: string): Promise<{ path: string; replace: boolean }> {
  const real = await realpath(path).catch(() => path)
  const found = await stat(real).catch(() => null)
  if (found?.isDirectory()) throw usage(`-O ${path} is a folder`)
  return { path: real, replace: found === null || found.isFile() }
}

/** Passes every byte of the answer to `write`; throws on a truncated answer. */
async function copyLog(
  api: Api,
  context: Context,
  request: LogRequest,
  write: (chunk: Uint8Array) => Promise<unknown>,
): Promise<{ lines: number; complete: boolean }> {
  const query = {
    from_line: request.fromLine > 1 ? request.fromLine : undefined,
    phase: request.phase,
  }
  const response = await api.stream(logPath(request.taskId), {
    query,
    headers: { accept: 'text/plain' },
  })
  let lines = 0
  let last = 10
  for await (const chunk of chunksOf(response, api, context.io)) {
    for (const byte of chunk) if (byte === 10) lines++
    last = chunk.at(-1) ?? last
    await write(chunk)
  }
  if (last !== 10) lines++
  return { lines, complete: response.headers.get('berth-log-complete') !== 'false' }
}

async function saveLog(
  api: Api,
  context: Context,
  request: LogRequest,
  output: string,
): Promise<void> {
  const { screen, io } = context
  if (output === '-') {
    await copyLog(api, context, request, (chunk) => io.stdout.write(chunk))
    return
  }
  const target = await chooseTarget(output)
  const path = target.replace
    ? `${target.path}.${randomBytes(6).toString('hex')}.part`
    : target.path
  const release = target.replace ? io.atExit(() => rmSync(path, { force: true })) : () => {}
  try {
    const file = await open(path, target.replace ? 'wx' : 'w')
    let saved: { lines: number; complete: boolean }
    try {
      saved = await copyLog(api, context, request, (chunk) => file.writeFile(chunk))
      if (target.replace) await file.sync()
    } finally {
      await file.close()
    }
    if (target.replace) await rename(path, target.path)
    const soFar = saved.complete
      ? ''
      : ' so far (the task has not ended, or its log is still coming)'
    await screen.note(`Saved ${saved.lines} lines to ${output}${soFar}`)
  } catch (error) {
    if (target.replace) await unlink(path).catch(() => {})
    if (error instanceof CliError) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new CliError(EXIT.error, `${output} cannot be written (${code})`, undefined, error)
  } finally {
    release()
  }
}

async function performTasksLog(options: TasksLogOptions, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const taskId = options.id ?? (await findTaskId(api, context, options.failed))
  const { fromLine, phase, follow } = options
  const request = { taskId, fromLine, phase, follow }
  if (options.output !== undefined) await saveLog(api, context, request, options.output)
  else if (context.screen.json) await printJson(api, context, request)
  else await printText(api, context, request)
  return EXIT.done
}

export const tasksLog = compose(parseTasksLog, performTasksLog)
