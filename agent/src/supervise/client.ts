// How runner and daemon reach the supervisor: one request and one answer per connection, through a socket in a folder
// that only root can enter. Requests are idempotent, so a caller repeats one whose supervisor ended meanwhile.
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { VERSION } from '@berth/shared'
import { PROCESSES } from '../limits/machine.ts'
import { readProcess } from '../machine/process/processes.ts'
import { SYSTEM_PATH } from '../machine/process/programs.ts'
import { type AgentSettings, compiledDir, settingsEnvironment } from '../settings.ts'

export type Request =
  | { do: 'ping' }
  /** Start what the instructions in this folder say; answered when the command runs. */
  | { do: 'start'; dir: string }
  /** Answered when nothing of it is left. */
  | { do: 'stop'; dir: string }
  /** End the supervisor, not the services. */
  | { do: 'end' }

export type Answer = { ok: true; version?: string; pid?: number } | { ok: false; message: string }

export const supervisorPaths = ({ runDir }: Pick<AgentSettings, 'runDir'>) => {
  const dir = join(runDir, 'supervisor')
  return { dir, socket: join(dir, 'socket'), log: join(dir, 'supervisor.log') }
}

/** Undefined: no supervisor listens, or it ended before it answered. */
function ask(
  settings: Pick<AgentSettings, 'runDir'>,
  request: Request,
  ms: number,
): Promise<Answer | undefined> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(supervisorPaths(settings).socket)
    let text = ''
    const end = (answer: Answer | undefined): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(answer)
    }
    const timer = setTimeout(() => {
      socket.destroy()
      reject(new Error(`the supervisor did not answer in ${ms / 1_000} s`))
    }, ms)
    socket.setEncoding('utf8')
    socket.on('connect', () => socket.write(`${JSON.stringify(request)}\n`))
    socket.on('error', () => end(undefined))
    socket.on('close', () => end(undefined))
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.endsWith('\n')) end(JSON.parse(text) as Answer)
    })
  })
}

/** Detached, with a clean environment, so that the attempt that starts it cannot find or end it later. */
function launch(settings: AgentSettings): void {
  const { dir, log: file } = supervisorPaths(settings)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const log = openSync(file, 'a', 0o600)
  const program = [...process.execArgv, process.argv[1] as string, 'supervise']
  const child = spawn(process.execPath, program, {
    cwd: '/',
    env: {
      PATH: SYSTEM_PATH,
      LANG: 'C.UTF-8',
      ...settingsEnvironment(settings),
      NODE_COMPILE_CACHE: compiledDir(settings),
    },
    stdio: ['ignore', log, log],
    detached: true,
  })
  closeSync(log)
  child.on('error', () => undefined)
  child.unref()
}

function lastWords(settings: AgentSettings): string {
  try {
    const said = readFileSync(supervisorPaths(settings).log, 'utf8')
    return said.slice(-PROCESSES.supervisorLogChars)
  } catch {
    return ''
  }
}

/** Starts a supervisor if none answers, and asks it. */
export async function requestSupervisor(
  settings: AgentSettings,
  request: Request,
  ms: number = PROCESSES.supervisorStartMs,
): Promise<Extract<Answer, { ok: true }>> {
  const until = performance.now() + ms
  let launched = Number.NEGATIVE_INFINITY
  for (;;) {
    const answer = await ask(settings, request, ms)
    if (answer?.ok) return answer
    if (answer) throw new Error(answer.message)
    const now = performance.now()
    if (now >= until) {
      throw new Error(`the supervisor of this server does not start: ${lastWords(settings)}`)
    }
    if (now - launched >= PROCESSES.supervisorMs) {
      launch(settings)
      launched = now
    }
    await delay(PROCESSES.endPollMs)
  }
}

/** Like `requestSupervisor`, but starts none: undefined when none answers. */
export const askSupervisor = (
  settings: Pick<AgentSettings, 'runDir'>,
  request: Request,
  ms: number = PROCESSES.supervisorMs,
): Promise<Answer | undefined> => ask(settings, request, ms).catch(() => undefined)

/** A supervisor runs afterwards; one of another version leaves its services to it. */
export async function ensureSupervisor(settings: AgentSettings): Promise<void> {
  const found = await requestSupervisor(settings, { do: 'ping' })
  if (found.version === VERSION) return
  await askSupervisor(settings, { do: 'end' })
  await requestSupervisor(settings, { do: 'ping' })
}

/** Ends the supervisor and waits until it is gone; services continue. Returns false when none ran. */
export async function endSupervisor(settings: Pick<AgentSettings, 'runDir'>): Promise<boolean> {
  const found = await askSupervisor(settings, { do: 'ping' })
  if ((await askSupervisor(settings, { do: 'end' })) === undefined) return false
  const pid = found?.ok ? found.pid : undefined
  for (const end = performance.now() + PROCESSES.supervisorMs; performance.now() < end; ) {
    if (pid === undefined || readProcess(pid) === undefined) break
    await delay(PROCESSES.endPollMs)
  }
  return true
}
