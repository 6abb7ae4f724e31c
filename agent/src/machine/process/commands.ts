// Starts one command and passes on every byte it writes: under a terminal (node-pty) or, where node-pty could not be
// built, through two pipes. Invariant: when `exited` resolves, all output written before the exit was passed on.
// Deliberately absent: input. A deployment is not interactive.
import { spawn } from 'node:child_process'
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs'
import { constants as osConstants } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { ReadStream } from 'node:tty'
import { STEPS } from '@berth/shared'
import { LogSource } from '@berth/shared/wire'
import { PROCESSES } from '../../limits/machine.ts'
import { signalGroup } from './process-tree.ts'

export interface Exit {
  code: number | null
  signal: string | null
}

export interface CommandStart {
  argv: string[]
  env: Record<string, string>
  onOutput: (source: LogSource, chunk: Buffer) => void
}

export interface RunningCommand {
  /** Leads its own session and group. */
  pid: number
  /** Sends ^C on a terminal, otherwise SIGTERM to the group. */
  interrupt(): void
  exited: Promise<Exit>
}

/** The part of node-pty below its stream class, which drops unread output 200 ms after the exit. */
export interface Pty {
  fork(
    file: string,
    args: string[],
    env: string[],
    cwd: string,
    columns: number,
    rows: number,
    uid: number,
    gid: number,
    utf8: boolean,
    helper: string,
    onExit: (code: number, signal: number) => void,
  ): { fd: number; pid: number; pty: string }
  resize(fd: number, columns: number, rows: number): void
}

/** Undefined when node-pty is not installed or was built for another Node. */
export async function loadPty(): Promise<Pty | undefined> {
  try {
    const loaded = (await import('node-pty')) as unknown as {
      native?: Pty
      default?: { native?: Pty }
    }
    return loaded.native ?? loaded.default?.native ?? undefined
  } catch {
    return undefined
  }
}

const CONTROL_C = '\u0003'

const signalNames = new Map(
  Object.entries(osConstants.signals).map(([name, number]) => [number as number, name]),
)

/** Reads without waiting until the kernel has no more data; EAGAIN comes only after all written bytes were read. */
function drainTerminal(fd: number, pass: (chunk: Buffer) => void): void {
  const buffer = Buffer.allocUnsafe(64 * 1_024)
  for (let total = 0; total < PROCESSES.drainBytes; ) {
    let count = 0
    try {
      count = readSync(fd, buffer)
    } catch {
      return // EAGAIN: everything was read
    }
    if (count <= 0) return
    total += count
    pass(Buffer.from(buffer.subarray(0, count)))
  }
}

/**
 * Our own descriptor of the terminal's inner end stays open until everything was read. So the hang-up of the last
 * process cannot end the stream early, and reading, not a timer, finds the end of the output.
 */
export function startUnderTerminal(pty: Pty, start: CommandStart): RunningCommand {
  const [file = '', ...args] = start.argv
  const env = Object.entries({ ...start.env, TERM: 'xterm-256color' })
  const pass = (chunk: Buffer): void => start.onOutput(LogSource.PTY, chunk)
  const { promise: exited, resolve } = Promise.withResolvers<Exit>()
  let isOpen = true
  const terminal = pty.fork(
    file,
    args,
    env.map(([key, value]) => `${key}=${value}`),
    '/',
    STEPS.terminalColumns,
    STEPS.terminalRows,
    -1,
    -1,
    true,
    '',
    (code, signal) => {
      if (isOpen) drainTerminal(terminal.fd, pass)
      isOpen = false
      stream.destroy()
      closeSync(inner)
      resolve(
        signal > 0
          ? { code: null, signal: signalNames.get(signal) ?? String(signal) }
          : { code, signal: null },
      )
    },
  )
  const inner = openSync(terminal.pty, constants.O_RDWR | constants.O_NOCTTY)
  const stream = new ReadStream(terminal.fd)
  stream.on('data', pass)
  stream.on('error', () => {
    isOpen = false
  })
  return {
    pid: terminal.pid,
    interrupt: () => {
      try {
        if (isOpen) writeSync(terminal.fd, CONTROL_C)
      } catch {
        signalGroup(terminal.pid, 'SIGTERM')
      }
    },
    exited,
  }
}

export function startWithPipes(start: CommandStart): RunningCommand {
  const [file = '', ...args] = start.argv
  const child = spawn(file, args, {
    cwd: '/',
    env: { ...start.env, TERM: 'dumb' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  child.stdout.on('data', (chunk: Buffer) => start.onOutput(LogSource.STDOUT, chunk))
  child.stderr.on('data', (chunk: Buffer) => start.onOutput(LogSource.STDERR, chunk))
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const ended = new Promise<Exit>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })
  const exited = ended.then(async (exit) => {
    // a background process may hold the pipes open forever; by now all output from before the exit has arrived
    await Promise.race([closed, delay(PROCESSES.drainMs, undefined, { ref: false })])
    child.stdout.destroy()
    child.stderr.destroy()
    return exit
  })
  return { pid: child.pid ?? 0, interrupt: () => signalGroup(child.pid ?? 0, 'SIGTERM'), exited }
}
