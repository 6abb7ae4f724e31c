// The daemon's supervision of edge and Caddy: both run detached, a new daemon finds them again, and it restarts them
// with back-off when they die. Invariant: a live process is never touched, except an edge with other settings, of
// another build or for another Caddy, and a Caddy of another version or that runs as root.
import { spawn } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../limits/machine.ts'
import { PROXY } from '../limits/proxy.ts'
import { describeError, type Log } from '../log.ts'
import { type CaddyProgram, findCaddy } from '../machine/caddy-program.ts'
import { findListeners, holdsListener, nameHolder } from '../machine/process/ports.ts'
import { readOwner, readProcess } from '../machine/process/processes.ts'
import { SYSTEM_PATH } from '../machine/process/programs.ts'
import { signalProcess } from '../machine/process/signals.ts'
import { isRoot } from '../machine/users/users.ts'
import { type AgentSettings, compiledDir, settingsEnvironment } from '../settings.ts'
import { becomeCaddy, openToCaddy } from './caddy/account.ts'
import { handOverUnaccepted } from './caddy/unaccepted.ts'
import { edgePaths } from './paths.ts'
import {
  isAlive,
  type ProxyProcess,
  readProxyProcess,
  replaceProxyProcess,
  settingsDigest,
  writeProxyProcess,
} from './process-files.ts'

/** The pause before a restart: doubles with each exit, and resets after a long enough run. */
function nextDelay(upMs: number, previousMs: number | undefined): number {
  if (previousMs === undefined || upMs >= PROXY.steadyMs) return PROXY.restartMs
  return Math.min(previousMs * 2, PROXY.restartCapMs)
}

async function until(holds: () => boolean, ms: number): Promise<boolean> {
  const end = performance.now() + ms
  while (!holds()) {
    if (performance.now() >= end) return holds()
    await delay(PROCESSES.endPollMs)
  }
  return true
}

/** SIGTERM, then SIGKILL if it does not end. */
async function end(found: ProxyProcess | undefined): Promise<void> {
  if (!isAlive(found)) return
  signalProcess(found.pid, 'SIGTERM')
  if (await until(() => !isAlive(found), PROXY.stopMs)) return
  signalProcess(found.pid, 'SIGKILL')
  await until(() => !isAlive(found), PROXY.stopMs)
}

const lastLine = (file: string): string => {
  try {
    const lines = readFileSync(file, 'utf8').trim().split('\n')
    return (lines.at(-1) ?? '').slice(0, 300)
  } catch {
    return ''
  }
}

interface Start {
  argv: string[]
  env: Record<string, string>
  log: string
}

/** Prefers requests to builds: on a busy server a new edge must be up before waiting requests time out. */
function preferTo(pid: number): void {
  try {
    setPriority(pid, PROXY.priority)
  } catch {
    // ended already, or not permitted (no root)
  }
}

/** Detached; undefined when it could not be started. */
function launch({ argv, env, log }: Start): number | undefined {
  const [file = '', ...args] = argv
  const output = openSync(log, 'w', 0o600)
  try {
    const child = spawn(file, args, {
      cwd: '/',
      env,
      stdio: ['ignore', output, output],
      detached: true,
    })
    child.on('error', () => undefined)
    child.unref()
    if (child.pid !== undefined) preferTo(child.pid)
    return child.pid
  } finally {
    closeSync(output)
  }
}

async function startEdgeProcess(
  settings: AgentSettings,
  program: readonly string[],
): Promise<void> {
  const paths = edgePaths(settings)
  await endEdge(settings)
  mkdirSync(paths.dir, { recursive: true, mode: 0o711 })
  mkdirSync(settings.runDir, { recursive: true, mode: 0o711 })
  const log = join(paths.dir, 'edge.log')
  const env = {
    PATH: SYSTEM_PATH,
    LANG: 'C.UTF-8',
    ...settingsEnvironment(settings),
    // speeds up the start, because requests wait for a new edge
    NODE_COMPILE_CACHE: compiledDir(settings),
  }
  const pid = launch({ argv: [...program, 'edge'], env, log })
  // immediately, so that an edge that starts slowly is not unknown; the last reason stays until one is up
  const { reason = '' } = readProxyProcess(paths.edgeStart) ?? {}
  if (pid !== undefined) writeProxyProcess(paths.edgeStart, pid, { reason })
  const isUp = (): boolean => {
    const found = readProxyProcess(paths.edgeProcess)
    return found?.pid === pid && isAlive(found)
  }
  const isOver = (): boolean => pid === undefined || readProcess(pid) === undefined
  await until(() => isUp() || isOver(), PROXY.startMs)
  if (isUp()) return writeProxyProcess(paths.edgeStart, pid ?? 0)
  await end(readProxyProcess(paths.edgeStart))
  throw new Error(`The edge did not start. ${lastLine(log)}`)
}

/** Ends the edge that runs, and one that is only starting. */
async function endEdge(settings: AgentSettings): Promise<void> {
  const { edgeStart, edgeProcess } = edgePaths(settings)
  for (const file of [edgeStart, edgeProcess]) await end(readProxyProcess(file))
}

function checkPorts({ proxy }: AgentSettings): void {
  for (const endpoint of [proxy.http, proxy.https]) {
    const holders = endpoint ? findListeners(endpoint.port) : []
    if (holders.length > 0) {
      throw new Error(`Port ${endpoint?.port} is held by ${nameHolder(holders)}.`)
    }
  }
}

/**
 * Throws an error with a sentence that a person can act on. A former Caddy keeps its ports until this one listens on
 * them too, so that no connection is refused.
 */
async function startCaddy(
  settings: AgentSettings,
  caddy: CaddyProgram,
  former: ProxyProcess | undefined,
): Promise<void> {
  const paths = edgePaths(settings)
  const become = await becomeCaddy(settings)
  const file = await openToCaddy(settings, caddy.file)
  if (!former) checkPorts(settings)
  for (const folder of [paths.caddy, paths.adminDir]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  }
  const log = join(paths.dir, 'caddy-start.log')
  const env = {
    PATH: SYSTEM_PATH,
    HOME: paths.caddy,
    XDG_DATA_HOME: join(paths.caddy, 'data'),
    XDG_CONFIG_HOME: join(paths.caddy, 'config'),
    GOGC: String(PROXY.gcPercent),
  }
  const argv = [...become, file, 'run', '--config', paths.configuration]
  const pid = launch({ argv, env, log })
  // immediately, so that a daemon that dies now leaves no unknown Caddy
  if (pid !== undefined) {
    const facts = { caddy: caddy.version, ...(former ? { former } : {}) }
    writeProxyProcess(paths.caddyProcess, pid, facts)
  }
  const isListening = (): boolean =>
    holdsListener([{ pid: pid ?? 0, startTicks: '' }], findListeners(settings.proxy.http.port))
  const isOver = (): boolean => pid === undefined || readProcess(pid) === undefined
  await until(() => isListening() || isOver(), PROXY.listenMs)
  if (isOver()) throw new Error(`Caddy did not start. ${lastLine(log)}`)
}

/** Started by an earlier version; it is ended, even if no other one can be started. */
const isRootCaddy = (found: ProxyProcess): boolean => isRoot() && readOwner(found.pid) === 0

/** Of a program that does not say its version, any running one is right. */
const isOfVersion = (found: ProxyProcess, caddy: CaddyProgram | undefined): boolean =>
  !caddy?.version || found.caddy === caddy.version

const isCaddyUp = (settings: AgentSettings, caddy: CaddyProgram | undefined): boolean => {
  const found = readProxyProcess(edgePaths(settings).caddyProcess)
  return isAlive(found) && !isRootCaddy(found) && isOfVersion(found, caddy)
}

/** Of a daemon that died in between; if the replacement is dead too, the former one serves until the next. */
async function endFormerCaddy(settings: AgentSettings): Promise<void> {
  const found = readProxyProcess(edgePaths(settings).caddyProcess)
  if (isAlive(found)) await end(found.former)
}

/** Returns whether there was one. */
export async function endRootCaddy(settings: AgentSettings): Promise<boolean> {
  const found = readProxyProcess(edgePaths(settings).caddyProcess)
  if (!isAlive(found) || !isRootCaddy(found)) return false
  await end(found)
  return true
}

/** Starts what is not up, once. Throws when that fails, and records the reason for other processes. */
export async function ensureProxy(
  settings: AgentSettings,
  program: readonly string[],
): Promise<void> {
  handOverUnaccepted()
  const caddy = await findCaddy(settings)
  await ensureEdge(settings, program, caddy)
  await ensureCaddy(settings, caddy)
}

function isEdgeUp(settings: AgentSettings, caddy: CaddyProgram | undefined): boolean {
  const found = readProxyProcess(edgePaths(settings).edgeProcess)
  const isRight = found?.digest === settingsDigest(settings) && isOfVersion(found, caddy)
  return isRight && isAlive(found)
}

async function ensureEdge(
  settings: AgentSettings,
  program: readonly string[],
  caddy: CaddyProgram | undefined,
): Promise<boolean> {
  if (isEdgeUp(settings, caddy)) return false
  try {
    await startEdgeProcess(settings, program)
  } catch (error) {
    // one that a former daemon had started may have come up meanwhile, and holds the port
    if (isEdgeUp(settings, caddy)) return false
    writeProxyProcess(edgePaths(settings).edgeStart, 0, { reason: (error as Error).message })
    throw error
  }
  return true
}

async function ensureCaddy(
  settings: AgentSettings,
  caddy: CaddyProgram | undefined,
): Promise<boolean> {
  const paths = edgePaths(settings)
  if (isCaddyUp(settings, caddy)) return false
  await endRootCaddy(settings)
  if (settings.development && !caddy) return false // the edge works without Caddy
  if (!existsSync(paths.configuration)) return false // the edge has not written one yet
  const found = readProxyProcess(paths.caddyProcess)
  // if the last replacement died, its former one may still run
  const former = [found, found?.former].find(isAlive)
  try {
    if (!caddy) throw new Error(NO_CADDY)
    // the version names its admin socket: a second Caddy of the same version would take it from the first
    if (!caddy.version) throw new Error(`${caddy.file} does not say its version.`)
    await startCaddy(settings, caddy, former)
  } catch (error) {
    const { message } = error as Error
    if (former) replaceProxyProcess(paths.caddyProcess, { ...former, reason: message })
    else writeProxyProcess(paths.caddyProcess, 0, { reason: message })
    throw error
  }
  void end(former)
  return true
}

const NO_CADDY = 'Caddy is not installed. Run `berth-agent setup proxy` on this server.'

/** Keeps one process up: checks it often, and restarts it with back-off. */
class Kept {
  readonly #name: string
  readonly #ensure: () => Promise<boolean>
  readonly #log: Log
  #waitMs: number | undefined
  #startedAt = 0
  #notBefore = 0
  #lastTrouble = ''

  constructor(name: string, ensure: () => Promise<boolean>, log: Log) {
    this.#name = name
    this.#ensure = ensure
    this.#log = log
  }

  /** Returns whether it was started. */
  async look(isDown: boolean): Promise<boolean> {
    const now = performance.now()
    if (!isDown || now < this.#notBefore) return false
    if (this.#startedAt > 0) this.#waitMs = nextDelay(now - this.#startedAt, this.#waitMs)
    this.#startedAt = performance.now()
    this.#notBefore = this.#startedAt + (this.#waitMs ?? 0)
    try {
      const isStarted = await this.#ensure()
      if (isStarted) this.#log.info({ process: this.#name }, 'started')
      this.#lastTrouble = ''
      return isStarted
    } catch (error) {
      const { message } = error as Error
      if (message !== this.#lastTrouble) this.#log.warn(describeError(error), `no ${this.#name}`)
      this.#lastTrouble = message
      return false
    }
  }
}

interface ProxyParts {
  settings: AgentSettings
  program: readonly string[]
  log: Log
  /** Called after a start of either process. */
  onStarted: () => void
}

/** Begins immediately; the returned function ends the supervision, while the processes continue. */
export function keepProxyUp({ settings, program, log, onStarted }: ProxyParts): () => void {
  const refusal = handOverUnaccepted()
  if (refusal) log.warn({ why: refusal }, 'new connections may be reset when settings change')
  void endFormerCaddy(settings)
  let found: CaddyProgram | undefined
  const edge = new Kept('edge', () => ensureEdge(settings, program, found), log)
  const caddy = new Kept('caddy', () => ensureCaddy(settings, found), log)
  let isBusy = false
  let isClosed = false
  const look = async (): Promise<void> => {
    if (isBusy) return
    isBusy = true
    try {
      found = await findCaddy(settings)
      let isStarted = await edge.look(!isEdgeUp(settings, found))
      if (isClosed) return
      isStarted = (await caddy.look(!isCaddyUp(settings, found))) || isStarted
      if (isStarted && !isClosed) onStarted()
    } finally {
      isBusy = false
    }
  }
  const timer = setInterval(() => void look(), PROXY.supervisionMs)
  void look()
  return () => {
    isClosed = true
    clearInterval(timer)
  }
}

/** Caddy first, so that no request waits for the edge in vain. */
export async function stopProxy(settings: AgentSettings): Promise<void> {
  const found = readProxyProcess(edgePaths(settings).caddyProcess)
  await Promise.all([end(found?.former), end(found)])
  await endEdge(settings)
}
