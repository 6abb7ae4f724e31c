// Starts, watches and ends services, for the runner (in a deployment) and the daemon (after a reboot, or when the
// supervisor died). Invariant: when `stopService` returns, no process of that service and deployment is left.
import { mkdirSync, rmSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { Ledger, type ProcessRow } from '../journal/ledger.ts'
import { PROCESSES } from '../limits/machine.ts'
import { Cgroup, detectCgroups } from '../machine/process/cgroups.ts'
import {
  endTree,
  killTree,
  listTree,
  type Member,
  type ProcessTree,
  signalGroup,
} from '../machine/process/process-tree.ts'
import { isSameProcess } from '../machine/process/processes.ts'
import { signalProcess } from '../machine/process/signals.ts'
import type { AgentSettings } from '../settings.ts'
import { askSupervisor, endSupervisor, ensureSupervisor, requestSupervisor } from './client.ts'
import {
  type Instructions,
  isSupervised,
  isUp,
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

/** All live processes of the service, supervised or not. */
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
 * Asks the supervisor to start it, and waits until its command runs (or has ended again). `isVerified` is set for a
 * version that was verified before.
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
  const failed = (why: string): Error => new Error(`${instructions.service} did not start: ${why}`)
  await requestSupervisor(settings, { do: 'start', dir }).catch((error: Error) => {
    throw failed(error.message)
  })
  const state = readState(dir)
  if (!state) throw failed('its supervisor wrote no state')
  return state
}

/** SIGTERM, `stop_timeout`, SIGKILL of everything; returns how long it took. */
export async function stopService(settings: AgentSettings, of: Instructions): Promise<number> {
  const startedAt = performance.now()
  const dir = serviceDir(settings, of)
  const state = readState(dir)
  if (isSupervised(state) && !state.keeper) await endFormer(state, of)
  else {
    // also without a state: the supervisor may be at a start that a dead runner asked for
    await askSupervisor(settings, { do: 'stop', dir }, of.stopTimeoutMs + PROCESSES.supervisorMs)
  }
  const tree = treeOf(settings, of)
  if (state?.keeper && isSameProcess(state.pid, state.startTicks)) {
    await endTree(tree, of.stopTimeoutMs, () => signalGroup(state.pid, 'SIGTERM')) // no supervisor did it
  }
  await killTree(tree)
  if (state?.keeper) await endKeeper(state.keeper)
  tree.cgroup?.remove()
  rmSync(dir, { recursive: true, force: true })
  return performance.now() - startedAt
}

/** Returns whether the process has ended. */
const awaitEnd = async ({ pid, startTicks }: Process, ms: number): Promise<boolean> =>
  (await until(() => (isSameProcess(pid, startTicks) ? undefined : true), ms)) === true

interface Process {
  pid: number
  startTicks: string
}

/** A supervisor of before 1.16 has one service and ends it on SIGTERM. */
async function endFormer({ supervisor }: ServiceState, of: Instructions): Promise<void> {
  signalProcess(supervisor.pid, 'SIGTERM')
  if (await awaitEnd(supervisor, of.stopTimeoutMs + PROCESSES.supervisorMs)) return
  signalProcess(supervisor.pid, 'SIGKILL')
  await awaitEnd(supervisor, PROCESSES.supervisorMs)
}

/** It ends by itself once its command has. */
async function endKeeper(keeper: Process): Promise<void> {
  if (!(await awaitEnd(keeper, PROCESSES.drainMs))) signalProcess(keeper.pid, 'SIGKILL')
}

export interface Revival {
  /**
   * False when a runner works in this environment; its services stay untouched. Otherwise none starts until `vacate`.
   */
  occupy: (environmentId: number) => boolean
  vacate: (environmentId: number) => void
  /** The daemon has just started, so services that were stopped by hand or by a shutdown are started too. */
  isFirst: (environmentId: number) => boolean
  onTrouble: (row: ProcessRow, error: unknown) => void
  /** Called before processes of a dead attempt end, to remove all routes to them. If it throws, they keep running. */
  prepare?: (environmentId: number) => Promise<void>
}

/**
 * Restarts what should run, after a reboot or when its processes died. Ends what a dead attempt was starting, resumes
 * what it had paused, and stops what was replaced. A service that fails to start does not affect the others.
 */
export async function reviveServices(
  settings: AgentSettings,
  ledger: Ledger,
  revival: Revival,
): Promise<string[]> {
  const revived: string[] = []
  await bringBackSupervisor(settings, ledger)
  for (const environmentId of new Set(ledger.listProcesses().map((row) => row.environmentId))) {
    if (!revival.occupy(environmentId)) continue
    try {
      const isFirst = revival.isFirst(environmentId)
      // read only now, as a deployment may have ended since; ends come first, as they may free the port of others
      const rows = ledger.listProcesses(environmentId).filter((row) => !ledger.isDraining(row))
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

/** It continues with every service whose command runs, or should; nothing is restarted for it. */
async function bringBackSupervisor(settings: AgentSettings, ledger: Ledger): Promise<void> {
  const isLeft = ledger.listProcesses().some((row) => {
    const state = readState(serviceDir(settings, instructionsOf(row)))
    return state?.keeper !== undefined && state.condition !== 'ended' && !isSupervised(state)
  })
  if (isLeft) await ensureSupervisor(settings)
}

/** False when they cannot end yet; the next round retries. */
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

/** Returns whether it was started. */
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
  const runs: boolean = isUp(state)
  const isStopped = !runs && ledger.listStopped(row.environmentId).has(row.service)
  if (!runs && !isStopped) {
    // `services stop` leaves no state, or a stopped one; a killed supervisor leaves its last state
    const died = state?.condition === 'running' || state?.condition === 'waiting'
    if (!isFirst && !died && row.state !== 'paused') return false
    await stopService(settings, instructions) // ends what a dead supervisor left behind
    await startService(settings, instructions, { isVerified: true })
  }
  if (row.state === 'paused') ledger.setProcessState(row, 'serving', row.attemptId)
  return !runs && !isStopped
}

/** Ends every supervised service; the ledger keeps the rows, so a later start of the daemon restarts them. */
export async function stopAllServices(settings: AgentSettings): Promise<number> {
  const ledger = new Ledger(settings)
  try {
    const rows = ledger.listProcesses()
    for (const row of rows) await stopService(settings, instructionsOf(row))
    await endSupervisor(settings)
    return rows.length
  } finally {
    ledger.close()
  }
}
