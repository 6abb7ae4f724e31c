// The interface between the daemon and the runner processes. The real executor starts this same program as `runner
// <dir>` in its own session, so that a restart, an upgrade or a crash of the daemon does not affect it. Secrets go only
// through its stdin, which closes after one message; never argv, environment or a file.
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { DAEMON } from '@berth/shared'
import type { TaskSecrets } from '@berth/shared/wire'
import { attemptPaths } from '../journal/attempt-files.ts'
import { frameOrder, frameSecrets } from '../journal/secrets-pipe.ts'
import { removeTree } from '../machine/files.ts'
import {
  hasMarker,
  isSameProcess,
  listProcesses,
  readStartTicks,
} from '../machine/process/processes.ts'
import { signalProcess } from '../machine/process/signals.ts'
import { type AgentSettings, compiledDir, scratchDir, settingsEnvironment } from '../settings.ts'
import { describeExit, describeSpawn } from './not-started.ts'

/** Pid and start ticks together identify one process of this boot. */
export interface RunnerProcess {
  pid: number
  startTicks: string
}

export interface SpawnRequest {
  /** attempts/<id>, which holds spec.bin. */
  dir: string
  attemptId: string
  secrets: TaskSecrets
  /** Only a hint; the daemon also polls. */
  onExit: () => void
  /** Why it could not start, or how it ended. */
  onTrouble?: (reason: string) => void
}

export interface Executor {
  spawnRunner(request: SpawnRequest): RunnerProcess
  isAlive(runner: RunnerProcess): boolean
  /** Asks the runner to check its stop file; sent only after it took its claim. */
  poke(runner: RunnerProcess): void
  /**
   * Kills what is left of a finished attempt and removes its files. Kills `runner` too if it lives, because one that
   * was started early carries no mark of the attempt.
   */
  killRest(attemptId: string, runner?: RunnerProcess): void
  /** Attempts may come: prepare for the next one. */
  prepare?(): void
  close?(): void
}

/** `program`: the command that starts this agent, e.g. [node, main.ts]. */
export function createExecutor(settings: AgentSettings, program: readonly string[]): Executor {
  const warm = new WarmRunner(settings, program)
  return {
    spawnRunner(request) {
      const child = warm.take()
      return child ? order(child, request) : spawnFor(settings, program, request)
    },
    prepare: () => warm.prepare(),
    isAlive: ({ pid, startTicks }) => isSameProcess(pid, startTicks),
    poke({ pid, startTicks }) {
      if (isSameProcess(pid, startTicks)) signalProcess(pid, 'SIGUSR2')
    },
    killRest(attemptId, runner) {
      if (runner && isSameProcess(runner.pid, runner.startTicks))
        signalProcess(runner.pid, 'SIGKILL')
      const marker = `BERTH_ATTEMPT_ID=${attemptId}`
      for (const { pid } of listProcesses()) {
        if (pid !== process.pid && hasMarker(pid, marker)) signalProcess(pid, 'SIGKILL')
      }
      // holds the deploy key if the runner died during a fetch
      removeTree(scratchDir(settings, attemptId)).catch(() => undefined)
    },
    close: () => warm.close(),
  }
}

/**
 * One runner that is started early and waits for its attempt. It costs memory, so it exists only while deployments
 * happen; after an idle period the next attempt starts cold.
 */
class WarmRunner {
  readonly #settings: AgentSettings
  readonly #program: readonly string[]
  #child: ChildProcess | undefined
  #soon: NodeJS.Timeout | undefined
  #idle: NodeJS.Timeout | undefined

  constructor(settings: AgentSettings, program: readonly string[]) {
    this.#settings = settings
    this.#program = program
  }

  take(): ChildProcess | undefined {
    const child = this.#child
    this.#child = undefined
    clearTimeout(this.#idle)
    clearTimeout(this.#soon)
    // later, so that the attempt that begins now gets the machine first
    this.#soon = setTimeout(() => this.prepare(), DAEMON.warmAfterMs).unref()
    // asks the kernel, because the exit event may not have arrived yet
    return child?.pid && readStartTicks(child.pid) !== undefined ? child : undefined
  }

  prepare(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.close(), DAEMON.warmForMs).unref()
    if (this.#child) return
    try {
      const [command = process.execPath, ...rest] = this.#program
      // it has time, and code compiled now is not compiled during a deployment
      const eager = [command, '--no-lazy', ...rest]
      const child = startRunner(this.#settings, eager, [], 'ignore', {})
      const gone = (): void => {
        if (this.#child === child) this.#child = undefined
      }
      child.once('exit', gone)
      child.once('error', gone)
      this.#child = child
    } catch {
      // out of memory, for example: the next attempt starts cold and reports the reason
    }
  }

  close(): void {
    clearTimeout(this.#soon)
    clearTimeout(this.#idle)
    this.#child?.stdin?.end() // without an order it exits
    this.#child = undefined
  }
}

function startRunner(
  settings: AgentSettings,
  program: readonly string[],
  args: string[],
  output: number | 'ignore',
  marker: Record<string, string>,
): ChildProcess {
  const [command = process.execPath, ...rest] = program
  const child = spawn(command, [...rest, 'runner', ...args], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', output, output],
    env: { ...runnerEnvironment(settings), ...marker },
  })
  child.on('error', () => {}) // a caller that waits for it notices that it is missing
  child.unref()
  // the runner may exit before it has read everything; its end is noticed elsewhere
  child.stdin?.on('error', () => {})
  return child
}

/** Calls `onTrouble` before the hint, so that the check that follows knows the reason. */
function listen(child: ChildProcess, program: string, request: SpawnRequest): void {
  const { onExit, onTrouble } = request
  child.on('error', (error) => {
    onTrouble?.(describeSpawn(program, error))
    onExit()
  })
  child.on('exit', (code, signal) => {
    onTrouble?.(describeExit(code, signal))
    onExit()
  })
}

function order(child: ChildProcess, request: SpawnRequest): RunnerProcess {
  const { dir, secrets } = request
  listen(child, 'the runner', request)
  child.stdin?.end(frameOrder(dir, secrets))
  const pid = child.pid ?? 0
  return { pid, startTicks: readStartTicks(pid) ?? '' }
}

function spawnFor(
  settings: AgentSettings,
  program: readonly string[],
  request: SpawnRequest,
): RunnerProcess {
  const { dir, attemptId, secrets } = request
  const output = openSync(attemptPaths(dir).runnerLog, 'a', 0o600)
  try {
    const marker = { BERTH_ATTEMPT_ID: attemptId }
    const child = startRunner(settings, program, [dir], output, marker)
    listen(child, program[0] ?? '', request)
    if (child.pid === undefined) throw new Error(`${program[0]} could not be started`)
    child.stdin?.end(frameSecrets(secrets))
    return { pid: child.pid, startTicks: readStartTicks(child.pid) ?? '' }
  } finally {
    closeSync(output)
  }
}

/** Variables of the daemon's environment that the runner may see. */
const PASSED = [
  'PATH',
  'HOME',
  'LANG',
  'LC_ALL',
  'TZ',
  'TMPDIR',
  'DOCKER_HOST',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'NODE_EXTRA_CA_CERTS',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
]

function runnerEnvironment(settings: AgentSettings): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {
    ...settingsEnvironment(settings),
    NODE_COMPILE_CACHE: compiledDir(settings),
  }
  for (const name of PASSED) if (process.env[name] !== undefined) env[name] = process.env[name]
  return env
}
