// The small parent of one command: a shell that starts it, waits for it and writes its exit code to a file. It holds the
// pipes of the output open, so a service outlives its supervisor, and a new supervisor can continue to read. Costs a
// fraction of a megabyte, where a parent with Node.js costs 20.
import { spawn } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, rmSync } from 'node:fs'
import { Socket } from 'node:net'
import { constants as osConstants } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../limits/machine.ts'
import { isSameProcess, readStartTicks } from '../machine/process/processes.ts'
import { locateProgram, runProgram, SYSTEM_PATH } from '../machine/process/programs.ts'

/**
 * A handler instead of an ignored signal, because the command would inherit that. The command opens the pipes for
 * writing only; the keeper's own descriptors of them, 1 to 3, are for both directions, so a pipe never breaks.
 */
const KEEP =
  'd=$1; shift; trap : HUP INT QUIT PIPE TERM; "$@" >"$d/out" 2>"$d/err"; echo $? >"$d/exit"'

/** Leads its session. Descriptor 3 is the keeper's alone, so that its end shows the end of the keeper. */
const BEGIN = 'echo $$ >"$1/pid"; echo >&3; shift; exec "$@" 3>&-'

const PIPES = ['out', 'err', 'alive'] as const

export interface Exit {
  code: number | null
  signal: string | null
}

/** A command under its keeper, as its supervisor sees it; the same for one that another supervisor started. */
export interface Kept {
  keeper: { pid: number; startTicks: string }
  /** 0: it ended before it could be looked at. */
  pid: number
  startTicks: string
  /** How it ended; both null when the keeper was killed, because then only its end is known. */
  ended: Promise<Exit>
  /** Resolves when everything that the processes wrote was passed on, or after a bound. */
  drained(): Promise<void>
  /** Stops reading, so that another supervisor can. */
  release(): void
}

export type TakeOutput = (source: 'out' | 'err', chunk: Buffer) => void

const open = (dir: string, name: string, flags: number): number => openSync(join(dir, name), flags)

const reader = (dir: string, name: string): Socket =>
  new Socket({
    fd: open(dir, name, constants.O_RDONLY | constants.O_NONBLOCK),
    readable: true,
    writable: false,
  })

const readText = (file: string): string => {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return ''
  }
}

const signalNames = new Map(
  Object.entries(osConstants.signals).map(([name, number]) => [number as number, name]),
)

/** A shell reports a signal as 128 and its number. */
function readExit(dir: string): Exit {
  const text = readText(join(dir, 'exit'))
  if (!/^[0-9]+$/.test(text)) return { code: null, signal: null }
  const code = Number(text)
  const signal = code > 128 ? signalNames.get(code - 128) : undefined
  return signal === undefined ? { code, signal: null } : { code: null, signal }
}

/** Starts the command; returns when its process exists. `env` is all that it gets. */
export async function keepCommand(
  dir: string,
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
  take: TakeOutput,
): Promise<Kept> {
  for (const name of [...PIPES, 'pid', 'exit']) rmSync(join(dir, name), { force: true })
  const pipes = PIPES.map((name) => join(dir, name))
  const made = await runProgram(['mkfifo', '-m', '0600', '--', ...pipes])
  if (made.code !== 0) throw new Error(`pipes could not be made: ${made.stderr.trim()}`)
  const held = PIPES.map((name) => open(dir, name, constants.O_RDWR))
  try {
    const given = Object.entries(env).map(([key, value]) => `${key}=${value}`)
    const begin = [locateProgram('setsid') ?? 'setsid', '/bin/sh', '-c', BEGIN, 'berth-begin', dir]
    const clean = [locateProgram('env') ?? '/usr/bin/env', '-i', ...given, ...argv]
    const child = spawn('/bin/sh', ['-c', KEEP, 'berth-keeper', dir, ...begin, ...clean], {
      cwd: '/',
      env: { PATH: SYSTEM_PATH }, // without the service's marker, so that a search for its processes spares the keeper
      stdio: ['ignore', ...held],
      detached: true,
    })
    child.unref()
    child.on('error', () => undefined)
    if (child.pid === undefined) throw new Error('its keeper could not be started')
    const keeper = { pid: child.pid, startTicks: readStartTicks(child.pid) ?? '' }
    const alive = reader(dir, 'alive')
    const output = attach(dir, take)
    const begun = new Promise<void>((resolve) => {
      alive.once('data', () => resolve())
      alive.once('close', () => resolve())
    })
    const over = endOf(alive)
    await begun
    const pid = Number(readText(join(dir, 'pid'))) || 0
    return keptOf(dir, { keeper, pid, startTicks: readStartTicks(pid) ?? '' }, over, output)
  } finally {
    for (const fd of held) closeSync(fd)
  }
}

/** Continues to watch a command that another supervisor started. */
export function adoptCommand(
  dir: string,
  known: Pick<Kept, 'keeper' | 'pid' | 'startTicks'>,
  take: TakeOutput,
): Kept {
  const over = endOf(reader(dir, 'alive'))
  const { pid, startTicks } = known.keeper
  // a pipe whose last writer closed before we opened it never says so
  const isOver = isSameProcess(pid, startTicks) ? over.isOver : Promise.resolve()
  return keptOf(dir, known, { ...over, isOver }, attach(dir, take))
}

interface End {
  isOver: Promise<void>
  stop(): void
}

function endOf(alive: Socket): End {
  alive.on('error', () => undefined)
  alive.resume()
  const isOver = new Promise<void>((resolve) => alive.once('close', () => resolve()))
  return { isOver, stop: () => alive.destroy() }
}

function attach(dir: string, take: TakeOutput): Socket[] {
  return (['out', 'err'] as const).map((source) => {
    const socket = reader(dir, source)
    socket.on('data', (chunk: Buffer) => take(source, chunk))
    socket.on('error', () => undefined)
    return socket
  })
}

function keptOf(
  dir: string,
  known: Pick<Kept, 'keeper' | 'pid' | 'startTicks'>,
  { isOver, stop }: End,
  output: Socket[],
): Kept {
  const closed = output.map(
    (socket) => new Promise<void>((resolve) => socket.once('close', () => resolve())),
  )
  const end = async (): Promise<Exit> => {
    await isOver
    // the command outlives a keeper that was killed
    while (isSameProcess(known.pid, known.startTicks)) await delay(PROCESSES.stopPollMs)
    return readExit(dir)
  }
  const release = (): void => {
    stop()
    for (const socket of output) socket.destroy()
  }
  return {
    ...known,
    ended: end(),
    async drained() {
      // the processes have ended, but one may have passed a descriptor of the pipes to another process
      const bound = delay(PROCESSES.drainMs, undefined, { ref: false })
      await Promise.race([Promise.all(closed), bound])
      release()
    },
    release,
  }
}
