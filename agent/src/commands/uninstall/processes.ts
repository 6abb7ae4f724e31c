// Ends the processes of this agent: daemon, runners, supervisors, edge, Caddy. They outlive each other on purpose, so
// each is looked for by itself, also if the daemon that started it died long ago.
import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../../limits/machine.ts'
import { UNINSTALL } from '../../limits/maintenance.ts'
import { ownLine } from '../../machine/process/leftovers.ts'
import {
  hasMarker,
  isSameProcess,
  listProcesses,
  type ProcessFacts,
} from '../../machine/process/processes.ts'
import { locateProgram, runProgram } from '../../machine/process/programs.ts'
import { signalProcess } from '../../machine/process/signals.ts'
import { readStatus } from '../../maintenance/status.ts'
import type { AgentSettings } from '../../settings.ts'
import { isInstalled, PROGRAM, UNIT } from './installed.ts'

export const hasSystemd = (): boolean =>
  existsSync('/run/systemd/system') && locateProgram('systemctl') !== undefined

/** Stops the service, so that nothing starts the daemon again. */
export async function stopUnit(settings: AgentSettings): Promise<void> {
  if (!isInstalled(settings) || !hasSystemd()) return
  const argv = ['systemctl', 'disable', '--now', '--quiet', UNIT]
  const { code, stderr } = await runProgram(argv, { timeoutMs: UNINSTALL.unitMs })
  if (code !== 0 && !/does not exist|not loaded|not found/i.test(stderr)) {
    throw new Error(`${UNIT} could not be stopped: ${stderr.trim()}`)
  }
}

type Process = Pick<ProcessFacts, 'pid' | 'startTicks'>

/** SIGTERM, then SIGKILL. Returns those that are still there. */
export async function endAll<T extends Process>(found: T[], graceMs: number): Promise<T[]> {
  const alive = (): T[] => found.filter(({ pid, startTicks }) => isSameProcess(pid, startTicks))
  const wait = async (ms: number): Promise<void> => {
    for (const end = performance.now() + ms; alive().length > 0 && performance.now() < end; )
      await delay(PROCESSES.endPollMs)
  }
  for (const { pid } of alive()) signalProcess(pid, 'SIGTERM')
  await wait(graceMs)
  for (const { pid } of alive()) signalProcess(pid, 'SIGKILL')
  await wait(UNINSTALL.killMs)
  return alive()
}

/** A daemon without a service manager. */
export async function stopDaemon(settings: AgentSettings): Promise<boolean> {
  const found = readStatus(settings)
  if (!found) return false
  if ((await endAll([found], UNINSTALL.daemonMs)).length > 0) {
    throw new Error(`The daemon (pid ${found.pid}) could not be ended.`)
  }
  return true
}

const exeOf = (pid: number): string => {
  try {
    return readlinkSync(`/proc/${pid}/exe`)
  } catch {
    return ''
  }
}

/** By program, or by the state folder that every process of an agent is started with. */
export function listOwnProcesses(settings: AgentSettings): ProcessFacts[] {
  const all = listProcesses()
  const spared = ownLine(all)
  const marker = `BERTH_STATE_DIR=${settings.stateDir}`
  return all.filter(({ pid }) => {
    if (spared.has(pid)) return false
    const exe = exeOf(pid)
    if (isInstalled(settings) && exe.startsWith(`${PROGRAM}/`)) return true
    // a shell may have exported the variable too
    return exe === process.execPath && hasMarker(pid, marker)
  })
}

/** Processes that perform a task now, or wait for one. */
export const listRunners = (settings: AgentSettings): ProcessFacts[] =>
  listOwnProcesses(settings).filter(({ pid }) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes('runner')
    } catch {
      return false // ended meanwhile
    }
  })
