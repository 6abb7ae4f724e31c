// One service of the supervisor: starts its command as the environment's user, writes its log, restarts it when it
// exits, ends it when asked. Until the deployment is verified there is no restart, and an exit is a failure. The state
// file says all that another supervisor needs to continue.
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
import { signalProcess } from '../machine/process/signals.ts'
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
  readState,
  type ServiceState,
  writeState,
} from './instructions.ts'
import { adoptCommand, type Kept, keepCommand, type TakeOutput } from './keeper.ts'

/** Comparable with the times of other processes of this boot. */
const monotonicMs = (): number => Number(process.hrtime.bigint() / 1_000_000n)

export class SupervisedService {
  readonly #dir: string
  readonly #settings: AgentSettings
  readonly #instructions: Instructions
  readonly #log: ServiceLog
  #cgroup: Cgroup | undefined
  #kept: Kept | undefined
  readonly #stop = new AbortController()
  readonly #stopped = new Promise<void>((resolve) => {
    this.#stop.signal.addEventListener('abort', () => resolve(), { once: true })
  })
  #isReleased = false
  #state: ServiceState

  constructor(dir: string, settings: AgentSettings) {
    this.#dir = dir
    this.#settings = settings
    this.#instructions = readInstructions(dir)
    const { variablesFile, secretKeys, logDir, taskId } = this.#instructions
    const { secretsFile = variablesFile } = this.#instructions
    const values = parseShellFile(readFileSync(secretsFile, 'utf8'))
    const secrets = secretKeys.map((key) => Buffer.from(values.get(key) ?? ''))
    this.#log = new ServiceLog(logDir, taskId, new Masker(secrets))
    this.#state = {
      condition: 'waiting',
      pid: 0,
      startTicks: '',
      taskId,
      restarts: 0,
      lastEnd: null,
      startedAt: new Date().toISOString(),
      ...readState(dir),
      bootId: readBootId(),
      supervisor: { pid: process.pid, startTicks: readStartTicks(process.pid) ?? '' },
    }
  }

  /** Starts it; `ended` resolves when it has ended for good, or was released. */
  async start(): Promise<{ ended: Promise<void> }> {
    this.#cgroup = Cgroup.create(detectCgroups(), processName(this.#instructions))
    await killTree(this.#tree(0)) // a start that its supervisor did not finish
    const kept = await this.#begin()
    return { ended: this.#run(kept) }
  }

  /** Continues where a supervisor that is gone stopped. */
  async adopt(): Promise<{ ended: Promise<void> }> {
    const { condition, keeper, pid, startTicks } = this.#state
    this.#cgroup = Cgroup.create(detectCgroups(), processName(this.#instructions))
    if (keeper && (condition === 'running' || condition === 'stopping')) {
      const known = { keeper, pid, startTicks }
      const kept = adoptCommand(this.#dir, known, this.#take)
      this.#kept = kept
      this.#save({})
      if (condition === 'stopping') this.#stop.abort()
      return { ended: this.#run(kept) }
    }
    await killTree(this.#tree(0)) // a start that its supervisor did not finish
    this.#save({})
    return { ended: this.#run(undefined) }
  }

  async stop(): Promise<void> {
    this.#stop.abort()
  }

  /** Leaves the command to the next supervisor. */
  release(): void {
    this.#isReleased = true
    this.#kept?.release()
    this.#keepLog((log) => log.close())
  }

  async #run(begun: Kept | undefined): Promise<void> {
    let kept = begun
    for (;;) {
      if (kept) {
        const upMs = await this.#watch(kept)
        if (this.#isReleased) return
        if (this.#isOver()) break
        this.#save({ waitedMs: restartDelay(upMs, this.#state.waitedMs) })
      } else if (this.#isOver()) break
      this.#save({ condition: 'waiting' })
      const waitMs = this.#state.waitedMs ?? restartDelay(0, undefined)
      await delay(waitMs, undefined, { signal: this.#stop.signal }).catch(() => undefined)
      if (this.#isReleased) return
      if (this.#stop.signal.aborted) break
      this.#save({ restarts: this.#state.restarts + 1 })
      kept = await this.#begin().catch((error: Error) => {
        this.#say(`it could not be started: ${error.message}`)
        return undefined
      })
    }
    this.#keepLog((log) => log.close())
    this.#cgroup?.remove()
    this.#save({ condition: 'ended' })
  }

  #isOver(): boolean {
    return this.#stop.signal.aborted || !isVerified(this.#dir)
  }

  #say(text: string): void {
    console.error(`${this.#instructions.environmentName}/${this.#instructions.service}: ${text}`)
  }

  #save(change: Partial<ServiceState>): void {
    this.#state = { ...this.#state, ...change }
    try {
      writeState(this.#dir, this.#state)
    } catch (error) {
      this.#say(`state: ${(error as Error).message}`)
    }
  }

  #tree(root: number): ProcessTree {
    const marker = `${PROCESS_MARKER}=${processName(this.#instructions)}`
    return { root: root || -1, marker, cgroup: this.#cgroup, spared: new Set() }
  }

  async #begin(): Promise<Kept> {
    const { memoryBytes, cpus, pids = PROCESSES.pids, env } = this.#instructions
    const bounds = { memoryBytes, cpus, pids }
    this.#cgroup = Cgroup.create(detectCgroups(), processName(this.#instructions), bounds)
    const startedMs = monotonicMs()
    const memoryKills = this.#cgroup?.memoryKills() ?? 0
    await this.#removeStaleSocket()
    this.#freePort()
    const own = { ...env, [PROCESS_MARKER]: processName(this.#instructions) }
    const kept = await keepCommand(this.#dir, this.#argv(), own, this.#take)
    this.#kept = kept
    const { keeper, pid, startTicks } = kept
    const startedAt = new Date().toISOString()
    const command = { keeper, pid, startTicks, startedAt, startedMs, memoryKills }
    this.#save({ condition: 'running', ...command })
    return kept
  }

  /** Until the command and everything it started have ended. Returns how long it was up. */
  async #watch(kept: Kept): Promise<number> {
    const { stopTimeoutMs } = this.#instructions
    const tree = this.#tree(kept.pid)
    await Promise.race([kept.ended, this.#stopped])
    if (this.#isReleased) return 0
    if (this.#stop.signal.aborted) {
      this.#save({ condition: 'stopping' })
      await endTree(tree, stopTimeoutMs, () => signalGroup(kept.pid, 'SIGTERM'))
      await this.#endKeeper(kept)
    }
    const { code, signal } = await kept.ended
    const upMs = monotonicMs() - (this.#state.startedMs ?? monotonicMs())
    const isOutOfMemory = (this.#cgroup?.memoryKills() ?? 0) > (this.#state.memoryKills ?? 0)
    await killTree(tree)
    await kept.drained()
    this.#keepLog((log) => log.flush())
    const lastEnd = { code, signal, isOutOfMemory, upMs, at: new Date().toISOString() }
    this.#save({ condition: 'waiting', pid: 0, startTicks: '', lastEnd })
    return upMs
  }

  /** It ends with its command; one that does not (a stopped process) is killed. */
  async #endKeeper({ ended, keeper }: Kept): Promise<void> {
    const bound = delay(PROCESSES.supervisorMs, 'late', { ref: false })
    if ((await Promise.race([ended, bound])) !== 'late') return
    if (readStartTicks(keeper.pid) === keeper.startTicks) signalProcess(keeper.pid, 'SIGKILL')
  }

  /** The socket of a killed process stays, and would keep the next one from listening. */
  async #removeStaleSocket(): Promise<void> {
    const { socket, account } = this.#instructions
    if (socket === null || findSocketListeners(socket).length > 0) return
    const argv = [...dropRights(account ?? undefined), '/bin/rm', '-f', '--', socket]
    await runProgram(argv).catch((error: Error) => this.#say(`${socket}: ${error.message}`))
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

  #argv(): string[] {
    const { command, account, directory, temporary } = this.#instructions
    const { variablesFile, additions, socket } = this.#instructions
    return confineCommand(command, {
      account: account ?? undefined,
      cgroupFiles: this.#cgroup?.joinFiles() ?? [],
      directory,
      paths: temporary ? { temporary, instead: sharedPaths(this.#settings) } : undefined,
      variablesFile,
      additions,
      hasTerminal: false,
      offersSocket: socket !== null,
    })
  }

  readonly #take: TakeOutput = (source, chunk) => this.#keepLog((log) => log.write(source, chunk))

  /** On a full disk the service loses log lines, but keeps running. */
  #keepLog(act: (log: ServiceLog) => void): void {
    try {
      act(this.#log)
    } catch (error) {
      this.#say(`log: ${(error as Error).message}`)
    }
  }
}
