// The parent of one long-running process of an environment (`berth-agent supervise <folder>`): starts it as the
// environment's user, writes its log, restarts it when it exits, ends it on SIGTERM. It is detached, so daemon, runner
// and control plane may come and go. Until the deployment is verified there is no restart, and an exit is a failure.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../limits/machine.ts'
import { Masker } from '../machine/masking/mask.ts'
import { Cgroup, detectCgroups } from '../machine/process/cgroups.ts'
import { confineCommand, dropRights } from '../machine/process/confinement.ts'
import { endHolders, findListeners, findSocketListeners } from '../machine/process/ports.ts'
import {
  endTree,
  killTree,
  type ProcessTree,
  signalGroup,
} from '../machine/process/process-tree.ts'
import { readBootId, readStartTicks } from '../machine/process/processes.ts'
import { runProgram } from '../machine/process/programs.ts'
import { sharedPaths } from '../machine/users/shared-paths.ts'
import { listEnvironmentAccounts } from '../machine/users/users.ts'
import { parseShellFile } from '../runner/plan/variable-files.ts'
import { ServiceLog } from '../service-logs/writer.ts'
import { type AgentSettings, environmentDir } from '../settings.ts'
import { restartDelay } from './backoff.ts'
import {
  type Instructions,
  isVerified,
  PROCESS_MARKER,
  processName,
  readInstructions,
  type ServiceState,
  writeState,
} from './instructions.ts'

/** Resolves when the service has ended for good. */
export async function superviseService(dir: string, settings: AgentSettings): Promise<void> {
  await new Supervisor(dir, settings).run()
}

class Supervisor {
  readonly #dir: string
  readonly #settings: AgentSettings
  readonly #instructions: Instructions
  readonly #environment: Record<string, string>
  readonly #log: ServiceLog
  #cgroup: Cgroup | undefined
  readonly #stop = new AbortController()
  readonly #stopped = new Promise<void>((resolve) => {
    this.#stop.signal.addEventListener('abort', () => resolve(), { once: true })
  })
  #state: ServiceState

  constructor(dir: string, settings: AgentSettings) {
    this.#dir = dir
    this.#settings = settings
    this.#instructions = readInstructions(dir)
    const { variablesFile, env, secretKeys, logDir, taskId } = this.#instructions
    const values = parseShellFile(readFileSync(variablesFile, 'utf8'))
    this.#environment = { ...env, [PROCESS_MARKER]: processName(this.#instructions) }
    const secrets = secretKeys.map((key) => Buffer.from(values.get(key) ?? ''))
    this.#log = new ServiceLog(logDir, taskId, new Masker(secrets))
    this.#state = {
      bootId: readBootId(),
      supervisor: { pid: process.pid, startTicks: readStartTicks(process.pid) ?? '' },
      condition: 'waiting',
      pid: 0,
      startTicks: '',
      taskId,
      restarts: 0,
      lastEnd: null,
      startedAt: new Date().toISOString(),
    }
  }

  async run(): Promise<void> {
    for (const signal of ['SIGHUP', 'SIGPIPE', 'SIGINT', 'SIGUSR2'] as const) {
      process.on(signal, () => undefined)
    }
    process.on('SIGTERM', () => this.#stop.abort())
    let waited: number | undefined
    for (;;) {
      const upMs = await this.#runOnce()
      if (this.#stop.signal.aborted || !isVerified(this.#dir)) break
      waited = restartDelay(upMs, waited)
      this.#save({ condition: 'waiting' })
      await delay(waited, undefined, { signal: this.#stop.signal }).catch(() => undefined)
      if (this.#stop.signal.aborted) break
      this.#save({ restarts: this.#state.restarts + 1 })
    }
    this.#keepLog((log) => log.close())
    this.#cgroup?.remove()
    this.#save({ condition: 'ended' })
  }

  #save(change: Partial<ServiceState>): void {
    this.#state = { ...this.#state, ...change }
    try {
      writeState(this.#dir, this.#state)
    } catch (error) {
      console.error(`state of ${this.#instructions.service}: ${(error as Error).message}`)
    }
  }

  /** Runs the command once; everything it started has ended when this returns. Returns how long it was up. */
  async #runOnce(): Promise<number> {
    const { memoryBytes, cpus, pids = PROCESSES.pids } = this.#instructions
    const bounds = { memoryBytes, cpus, pids }
    this.#cgroup = Cgroup.create(detectCgroups(), processName(this.#instructions), bounds)
    const startedAt = performance.now()
    const killsBefore = this.#cgroup?.memoryKills() ?? 0
    await this.#removeStaleSocket()
    this.#freePort()
    const child = this.#start()
    const exited = once(child, 'exit').catch(() => [127, null])
    const closed = once(child, 'close').catch(() => undefined)
    const pid = child.pid ?? 0
    const tree: ProcessTree = {
      root: pid,
      marker: `${PROCESS_MARKER}=${processName(this.#instructions)}`,
      cgroup: this.#cgroup,
      spared: new Set(),
    }
    this.#save({
      condition: 'running',
      pid,
      startTicks: readStartTicks(pid) ?? '',
      startedAt: new Date().toISOString(),
    })
    await Promise.race([exited, this.#stopped])
    if (this.#stop.signal.aborted) {
      this.#save({ condition: 'stopping' })
      await endTree(tree, this.#instructions.stopTimeoutMs, () => signalGroup(pid, 'SIGTERM'))
    }
    const [code, signal] = (await exited) as [number | null, string | null]
    const upMs = Math.round(performance.now() - startedAt)
    const isOutOfMemory = (this.#cgroup?.memoryKills() ?? 0) > killsBefore
    await killTree(tree)
    // the processes have ended, but one may have passed a descriptor of the pipes to another process
    await Promise.race([closed, delay(PROCESSES.drainMs, undefined, { ref: false })])
    this.#keepLog((log) => log.flush())
    const lastEnd = { code, signal, isOutOfMemory, upMs, at: new Date().toISOString() }
    this.#save({ condition: 'waiting', pid: 0, startTicks: '', lastEnd })
    return upMs
  }

  /** The socket of a killed process stays, and would keep the next one from listening. */
  async #removeStaleSocket(): Promise<void> {
    const { socket, account } = this.#instructions
    if (socket === null || findSocketListeners(socket).length > 0) return
    const argv = [...dropRights(account ?? undefined), '/bin/rm', '-f', '--', socket]
    await runProgram(argv).catch((error: Error) => console.error(`${socket}: ${error.message}`))
  }

  /**
   * The port belongs to this environment, also while its service is down. A process of another environment on it gets
   * no request (packet rules), but keeps the service from listening.
   */
  #freePort(): void {
    const { port, account } = this.#instructions
    if (port === null || account === null) return
    const others = findListeners(port).filter(({ uid }) => uid !== account.uid)
    if (others.length === 0) return
    const settings = this.#settings
    const accounts = listEnvironmentAccounts(settings.accountPrefix, (id) =>
      environmentDir(settings, id),
    )
    const ended = endHolders(others, new Set([...accounts.values()].map(({ uid }) => uid)))
    const said = `berth: ${ended.join(', ')} of another environment held port ${port} and was ended.\n`
    if (ended.length > 0) this.#keepLog((log) => log.write('err', Buffer.from(said)))
  }

  #start(): ChildProcess {
    const { command, account, directory, temporary } = this.#instructions
    const { variablesFile, additions, socket } = this.#instructions
    const [file = '', ...args] = confineCommand(command, {
      account: account ?? undefined,
      cgroupFiles: this.#cgroup?.joinFiles() ?? [],
      directory,
      paths: temporary ? { temporary, instead: sharedPaths(this.#settings) } : undefined,
      variablesFile,
      additions,
      hasTerminal: false,
      offersSocket: socket !== null,
    })
    const child = spawn(file, args, {
      cwd: '/',
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    child.stdout?.on('data', (chunk: Buffer) => this.#keepLog((log) => log.write('out', chunk)))
    child.stderr?.on('data', (chunk: Buffer) => this.#keepLog((log) => log.write('err', chunk)))
    return child
  }

  /** On a full disk the service loses log lines, but keeps running. */
  #keepLog(act: (log: ServiceLog) => void): void {
    try {
      act(this.#log)
    } catch (error) {
      console.error(`log of ${this.#instructions.service}: ${(error as Error).message}`)
    }
  }
}
