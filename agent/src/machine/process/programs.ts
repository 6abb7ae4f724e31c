// Runs a program of the server and waits for it: argv only, no shell, bounded time and output. Ends its whole process
// group when it takes too long or the caller aborts. For Berth's own tools (git, useradd, rm); the user's commands go
// through commands.ts.
import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { PROCESSES } from '../../limits/machine.ts'
import { signalProcess } from './signals.ts'

/** The PATH of everything Berth starts; the agent's own PATH is unknown. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

const located = new Map<string, string>()

/** The absolute path of a program, so that no environment's PATH decides which one runs as root. */
export function locateProgram(name: string): string | undefined {
  const known = located.get(name)
  if (known) return known
  for (const folder of SYSTEM_PATH.split(':')) {
    const file = join(folder, name)
    try {
      accessSync(file, constants.X_OK)
      located.set(name, file)
      return file
    } catch {
      // next folder
    }
  }
  return undefined
}

interface ProgramOptions {
  cwd?: string
  /** Complete; nothing of the runner's own environment is inherited. */
  env?: Record<string, string>
  timeoutMs?: number
  /** More output ends the program (`overflow`). */
  maxBytes?: number
  signal?: AbortSignal
  onStderr?: (chunk: Buffer) => void
}

export interface ProgramResult {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: Buffer
  stderr: string
  timedOut: boolean
  overflow: boolean
}

function killGroup(pid: number | undefined): void {
  if (pid) signalProcess(-pid, 'SIGKILL')
}

/** Rejects when the program cannot be started; the caller judges its exit code. */
export function runProgram(argv: string[], options: ProgramOptions = {}): Promise<ProgramResult> {
  const [name = '', ...args] = argv
  const file = name.startsWith('/') ? name : locateProgram(name)
  if (!file) return Promise.reject(new Error(`${name} is not installed.`))
  const maxBytes = options.maxBytes ?? PROCESSES.programBytes
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      cwd: options.cwd ?? '/',
      env: options.env ?? { PATH: SYSTEM_PATH, LC_ALL: 'C' },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const stdout: Buffer[] = []
    const stderr: Buffer[] = []
    let kept = 0
    let keptErrors = 0
    let timedOut = false
    let overflow = false
    const end = (): void => killGroup(child.pid)
    const timer = setTimeout(() => {
      timedOut = true
      end()
    }, options.timeoutMs ?? PROCESSES.programMs)
    options.signal?.addEventListener('abort', end, { once: true })
    if (options.signal?.aborted) end()
    const finish = (): void => {
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', end)
    }
    child.stdout.on('data', (chunk: Buffer) => {
      kept += chunk.length
      if (kept <= maxBytes) stdout.push(chunk)
      else {
        overflow = true
        end()
      }
    })
    child.stderr.on('data', (chunk: Buffer) => {
      options.onStderr?.(chunk)
      if (keptErrors > maxBytes) return // only the beginning of the errors is useful
      keptErrors += chunk.length
      stderr.push(chunk)
    })
    child.on('error', (error) => {
      finish()
      reject(error)
    })
    child.on('close', (code, signal) => {
      finish()
      const text = Buffer.concat(stderr).toString('utf8')
      resolve({ code, signal, stdout: Buffer.concat(stdout), stderr: text, timedOut, overflow })
    })
  })
}
