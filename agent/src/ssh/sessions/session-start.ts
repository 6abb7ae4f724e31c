// Starts the process of a session: detached, with its job on stdin and no secrets in its arguments. The process reports
// when it listens, and writes its result to a file.
import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessKey } from '../../journal/ssh-sessions.ts'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { readStartTicks } from '../../machine/process/processes.ts'
import { SYSTEM_PATH } from '../../machine/process/programs.ts'
import { type AgentSettings, settingsEnvironment } from '../../settings.ts'
import type { Verb } from '../commands/commands.ts'
import type { TerminalSize } from './frames.ts'

/** In the environment of every process of a session. */
export const SESSION_MARKER = 'BERTH_SSH_SESSION'

export interface Job {
  id: string
  /** What the forced command must send first. */
  word: string
  socket: string
  result: string
  gid: number
  verb: Verb
  environmentId: number | null
  untilMs: number
  terminal: TerminalSize | null
  /** Whether the forced command supports unframed bytes. */
  passing: boolean
}

export const READY = 'ready\n'

/** Resolves when the process listens. */
export async function startWork(
  { settings, program }: { settings: AgentSettings; program: readonly string[] },
  job: Job,
  onExit: () => void,
): Promise<ProcessKey> {
  const [file = '', ...args] = [...program, 'ssh-work']
  const log = openSync(join(settings.stateDir, 'ssh-sessions.log'), 'a', 0o600)
  const child = spawn(file, args, {
    cwd: '/',
    env: {
      PATH: SYSTEM_PATH,
      LANG: 'C.UTF-8',
      ...settingsEnvironment(settings),
      [SESSION_MARKER]: job.id,
      NODE_COMPILE_CACHE: join(settings.runDir, 'compiled'),
    },
    stdio: ['pipe', 'pipe', log],
    detached: true,
  })
  closeSync(log)
  child.unref()
  child.once('exit', onExit)
  const { stdin, stdout } = child
  if (!stdin || !stdout) throw new Error('the process of the session has no pipes')
  stdin.on('error', () => undefined)
  stdin.end(JSON.stringify(job))
  await new Promise<void>((resolve, reject) => {
    const late = setTimeout(() => fail('did not start in time'), SSH_SESSIONS.answerMs)
    const fail = (why: string): void => {
      clearTimeout(late)
      if (child.exitCode === null) child.kill('SIGKILL')
      reject(new Error(`the process of the session ${why}`))
    }
    child.once('error', (error) => fail(`cannot be started: ${error.message}`))
    child.once('exit', () => fail('ended at once'))
    stdout.once('data', (said: Buffer) => {
      clearTimeout(late)
      if (said.toString() === READY) resolve()
      else fail('did not say that it is ready')
    })
  })
  stdout.destroy()
  const pid = child.pid ?? 0
  return { pid, startTicks: readStartTicks(pid) ?? '' }
}
