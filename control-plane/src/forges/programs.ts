// Runs git: argv only, no shell, a complete environment of our own, bounded time and output. Its process group is ended
// at the limit or when the control plane stops. Nothing else on this machine is started from here.
import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'

export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Returns the absolute path of a program, so that no environment's PATH decides which one runs. */
export function locateProgram(name: string): string | undefined {
  for (const folder of SYSTEM_PATH.split(':')) {
    const file = join(folder, name)
    try {
      accessSync(file, constants.X_OK)
      return file
    } catch {
      // try the next folder
    }
  }
  return undefined
}

interface ProgramOptions {
  cwd: string
  env: Record<string, string>
  timeoutMs: number
  maxBytes: number
  maxErrorBytes: number
  signal: AbortSignal
}

export interface ProgramResult {
  code: number | null
  stdout: Buffer
  stderr: string
  timedOut: boolean
  overflow: boolean
}

function killGroup(pid: number | undefined): void {
  if (!pid) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // already ended
  }
}

/** Rejects if the program cannot be started; the caller judges its exit code. */
export function runProgram(argv: string[], options: ProgramOptions): Promise<ProgramResult> {
  const [file = '', ...args] = argv
  const { promise, resolve, reject } = Promise.withResolvers<ProgramResult>()
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: options.env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  let [kept, keptErrors] = [0, 0]
  let [timedOut, overflow] = [false, false]
  const end = (): void => killGroup(child.pid)
  const timer = setTimeout(() => {
    timedOut = true
    end()
  }, options.timeoutMs)
  options.signal.addEventListener('abort', end, { once: true })
  if (options.signal.aborted) end()
  child.stdout.on('data', (chunk: Buffer) => {
    kept += chunk.length
    if (kept <= options.maxBytes) stdout.push(chunk)
    else {
      overflow = true
      end()
    }
  })
  child.stderr.on('data', (chunk: Buffer) => {
    if (keptErrors > options.maxErrorBytes) return // only the first part of an error explains it
    keptErrors += chunk.length
    stderr.push(chunk)
  })
  child.on('error', reject)
  child.on('close', (code) => {
    end() // also ends what the leader left in its group
    const text = Buffer.concat(stderr).toString('utf8')
    resolve({ code, stdout: Buffer.concat(stdout), stderr: text, timedOut, overflow })
  })
  return promise.finally(() => {
    clearTimeout(timer)
    options.signal.removeEventListener('abort', end)
  })
}
