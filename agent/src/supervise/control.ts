// Starting, watching and ending supervisors, for the runner (a deployment) and the daemon (after a reboot, after a
// supervisor died). Invariant: when `stopService` returns, no process of that service and deployment is left.
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '@berth/shared'
import { Ledger, type ProcessRow } from '../journal/ledger.ts'
import { Cgroup, detectCgroups } from '../machine/process/cgroups.ts'
import {
  killTree,
  listTree,
  type Member,
  type ProcessTree,
} from '../machine/process/process-tree.ts'
import { isSameProcess } from '../machine/process/processes.ts'
import { SYSTEM_PATH } from '../machine/process/programs.ts'
import { type AgentSettings, compiledDir, settingsEnvironment } from '../settings.ts'
import {
  type Instructions,
  isSupervised,
  markVerified,
  PROCESS_MARKER,
  processName,
  readState,
  type ServiceState,
  serviceDir,
  writeInstructions,
} from './instructions.ts'

export const instructionsOf = (row: ProcessRow): Instructions =>
  JSON.parse(row.instructions) as Instructions

async function until<T>(look: () => T | undefined, ms: number): Promise<T | undefined> {
  const end = performance.now() + ms
  for (;;) {
    const seen = look()
    if (seen !== undefined || performance.now() >= end) return seen
    await delay(PROCESSES.endPollMs)
  }
}

/** Everything of the service that is alive, supervised or not. */
function treeOf(settings: AgentSettings, of: Instructions): ProcessTree {
  return {
    root: readState(serviceDir(settings, of))?.pid || -1,
    marker: `${PROCESS_MARKER}=${processName(of)}`,
    cgroup: Cgroup.create(detectCgroups(), processName(of)),
    spared: new Set(),
  }
}

export const listServiceProcesses = (settings: AgentSettings, of: Instructions): Member[] =>
  listTree(treeOf(settings, of))

/**
 * Starts the supervisor, detached, and waits until it has started the command (or has seen it end). `verified` from
 * the beginning for a version that had been verified before.
 */
export async function startService(
  settings: AgentSettings,
  instructions: Instructions,
  options: { isVerified: boolean },
): Promise<ServiceState> {
  const dir = serviceDir(settings, instructions)
  rmSync(dir, { recursive: true, force: true })
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  writeInstructions(dir, instructions)
  if (options.isVerified) markVerified(dir)
  const log = openSync(join(dir, 'supervisor.log'), 'a', 0o600)
  const program = [...process.execArgv, process.argv[1] as string, 'supervise', dir]
  const child = spawn(process.execPath, program, {
    cwd: '/',
    // a clean environment: nothing of the attempt that starts it may find or end it later
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
  child.unref()
  const failed = new Promise<never>((_, reject) => child.once('error', reject))
  const isBegun = (state: ServiceState | undefined) =>
    state && (state.condition !== 'waiting' || state.lastEnd) ? state : undefined
  const looked = until(() => isBegun(readState(dir)), PROCESSES.supervisorMs)
  const state = await Promise.race([looked, failed])
  if (!state) throw new Error(`the supervisor of ${instructions.service} did not start`)
  return state
}

/** SIGTERM, `stop_timeout`, SIGKILL of everything; returns how long it took. */
export async function stopService(settings: AgentSettings, of: Instructions): Promise<number> {
  const startedAt = performance.now()
  const dir = serviceDir(settings, of)
  const state = readState(dir)
  if (isSupervised(state)) {
    const { pid, startTicks } = state.supervisor
    const isGone = (): true | undefined => (isSameProcess(pid, startTicks) ? undefined : true)
    process.kill(pid, 'SIGTERM')
    const bound = of.stopTimeoutMs + PROCESSES.supervisorMs
    if (!(await until(isGone, bound)) && !isGone()) process.kill(pid, 'SIGKILL')
    await until(isGone, PROCESSES.supervisorMs)
  }
  const tree = treeOf(settings, of)
  await killTree(tree)
  tree.cgroup?.remove()
  rmSync(dir, { recursive: true, force: true })
  return performance.now() - startedAt
}

export interface Revival {
  /** False: a runner works in this environment; its services are left alone. True: none starts until `vacate`. */
  occupy: (environmentId: number) => boolean
  vacate: (environmentId: number) => void
  /** The daemon has just begun: also what was stopped by hand, or by the end of the machine, comes back. */
  isFirst: (environmentId: number) => boolean
  onTrouble: (row: ProcessRow, error: unknown) => void
  /** Before processes of an attempt that is no more end: nothing may lead to them any more. Throws: they go on. */
  prepare?: (environmentId: number) => Promise<void>
}

/**
 * Brings back what should run: after a reboot, or when a supervisor died. What an attempt that is no more was
 * starting is ended, what it had paused serves again, what was replaced is stopped. One service that cannot be
 * brought back does not keep the others down.
 */
export async function reviveServices(
  settings: AgentSettings,
  ledger: Ledger,
  revival: Revival,
): Promise<string[]> {
  const revived: string[] = []
  for (const environmentId of new Set(ledger.listProcesses().map((row) => row.environmentId))) {
    if (!revival.occupy(environmentId)) continue
    try {
      const isFirst = revival.isFirst(environmentId)
      // read only now: a deployment may have ended since; ends come first, they may hold the port of the others
      const rows = ledger.listProcesses(environmentId)
      const over = rows.filter(isOver)
      const isPrepared = over.length === 0 || (await prepare(revival, over))
      for (const row of [...(isPrepared ? over : []), ...rows.filter((row) => !isOver(row))]) {
        try {
          if (await reviveOne(settings, ledger, row, isFirst)) {
            revived.push(`${instructionsOf(row).environmentName}/${row.service}`)
          }
        } catch (error) {
          revival.onTrouble(row, error)
        }
      }
    } finally {
      revival.vacate(environmentId)
    }
  }
  return revived
}

/** False: they cannot end yet; the next look tries again. */
async function prepare(revival: Revival, [row]: ProcessRow[]): Promise<boolean> {
  try {
    if (row) await revival.prepare?.(row.environmentId)
    return true
  } catch (error) {
    if (row) revival.onTrouble(row, error)
    return false
  }
}

const isOver = ({ state }: ProcessRow): boolean => state === 'starting' || state === 'retired'

/** True when it was started. */
async function reviveOne(
  settings: AgentSettings,
  ledger: Ledger,
  row: ProcessRow,
  isFirst: boolean,
): Promise<boolean> {
  const instructions = instructionsOf(row)
  if (isOver(row)) {
    await stopService(settings, instructions)
    ledger.removeProcess(row)
    return false
  }
  const state = readState(serviceDir(settings, instructions))
  const isUp: boolean = isSupervised(state)
  if (!isUp) {
    // `services stop` leaves no state, or one that says so; a supervisor that was killed leaves its last word
    const died = state?.condition === 'running' || state?.condition === 'waiting'
    if (!isFirst && !died && row.state !== 'paused') return false
    await stopService(settings, instructions) // what a dead supervisor left behind
    await startService(settings, instructions, { isVerified: true })
  }
  if (row.state === 'paused') ledger.setProcessState(row, 'serving', row.attemptId)
  return !isUp
}

/** Ends everything that is supervised here; the ledger keeps it, so a later start of the daemon brings it back. */
export async function stopAllServices(settings: AgentSettings): Promise<number> {
  const ledger = new Ledger(settings)
  try {
    const rows = ledger.listProcesses()
    for (const row of rows) await stopService(settings, instructionsOf(row))
    return rows.length
  } finally {
    ledger.close()
  }
}
