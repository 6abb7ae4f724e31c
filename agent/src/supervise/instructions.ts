// The files between the supervisor and a runner or daemon, one folder per process of a service; no file contains a
// variable's value. Either side may die at any moment, so files are replaced atomically.
// After a reboot nothing here counts, so none is synced to the disk.
//
//   instructions.json   runner or daemon   what to run, as whom, where; also kept in the ledger
//   state.json          supervisor         the current state; a new supervisor continues from it
//   verified            runner             the deployment succeeded; from now on an exit is followed by a restart
//   out, err, alive     service, keeper    pipes (keeper.ts)
//   pid, exit           keeper             the pid of the command, and its exit code
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { replaceUnsynced } from '../machine/atomic-files.ts'
import type { Account } from '../machine/process/confinement.ts'
import { isSameProcess, readBootId } from '../machine/process/processes.ts'
import type { AgentSettings } from '../settings.ts'

export interface Instructions {
  format: 1
  environmentId: number
  /** For example berth-e101; distinguishes this agent's environments on the machine. */
  environmentName: string
  service: string
  taskId: number
  commit: string
  /** Passed to `/bin/sh -eu -c` as one argument. */
  command: string
  directory: string
  /** What it sees as /tmp; absent in instructions of earlier versions. */
  temporary?: string
  account: Account | null
  variablesFile: string
  /** Has the values to mask; absent: the variables file has them. */
  secretsFile?: string
  /** Berth's own variables, PATH and BERTH_…; set before the rights are dropped. */
  env: Record<string, string>
  /** `env` of the service and its PORT; set afterwards, and overrides the variable file. */
  additions: Record<string, string>
  /** Names of the variables whose values are masked in the service's log. */
  secretKeys: string[]
  port: number | null
  socket: string | null
  logDir: string
  stopTimeoutMs: number
  memoryBytes: number
  cpus: number
  /** Absent when written before processes had a limit. */
  pids?: number
}

type ServiceCondition = 'running' | 'waiting' | 'stopping' | 'ended'

export interface ServiceEnd {
  code: number | null
  signal: string | null
  isOutOfMemory: boolean
  /** How long it was up, on the monotonic clock. */
  upMs: number
  at: string
}

export interface ServiceState {
  bootId: string
  supervisor: { pid: number; startTicks: string }
  /** The parent of the command; absent: written by a supervisor of before 1.16, which was the parent itself. */
  keeper?: { pid: number; startTicks: string }
  /** When the command started, in milliseconds of the boot's monotonic clock. */
  startedMs?: number
  /** How often the kernel had killed for memory when the command started. */
  memoryKills?: number
  /** The last pause before a restart. */
  waitedMs?: number
  condition: ServiceCondition
  /** Of the command; 0 while it does not run. */
  pid: number
  startTicks: string
  taskId: number
  restarts: number
  lastEnd: ServiceEnd | null
  startedAt: string
}

export const serviceDir = (
  s: Pick<AgentSettings, 'runDir'>,
  of: Pick<Instructions, 'environmentId' | 'service' | 'taskId'>,
): string => join(s.runDir, 'services', `e${of.environmentId}`, `${of.service}-${of.taskId}`)

/** In the environment of every process of a service; also names its cgroup. */
export const processName = (
  of: Pick<Instructions, 'environmentName' | 'service' | 'taskId'>,
): string => `${of.environmentName}-${of.service}-${of.taskId}`

export const PROCESS_MARKER = 'BERTH_PROCESS'

const files = (dir: string) => ({
  instructions: join(dir, 'instructions.json'),
  state: join(dir, 'state.json'),
  verified: join(dir, 'verified'),
})

export function writeInstructions(dir: string, instructions: Instructions): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  replaceUnsynced(files(dir).instructions, JSON.stringify(instructions))
}

export const readInstructions = (dir: string): Instructions =>
  JSON.parse(readFileSync(files(dir).instructions, 'utf8')) as Instructions

export const writeState = (dir: string, state: ServiceState): void =>
  replaceUnsynced(files(dir).state, JSON.stringify(state))

/** Undefined when it never started, or not since the last boot. */
export function readState(dir: string): ServiceState | undefined {
  try {
    const state = JSON.parse(readFileSync(files(dir).state, 'utf8')) as ServiceState
    return state.bootId === readBootId() ? state : undefined
  } catch {
    return undefined
  }
}

export const isSupervised = (state: ServiceState | undefined): state is ServiceState =>
  state !== undefined && isSameProcess(state.supervisor.pid, state.supervisor.startTicks)

/** Its command runs, even if no supervisor watches it at the moment. */
export const isUp = (state: ServiceState | undefined): state is ServiceState =>
  state !== undefined &&
  (isSameProcess(state.supervisor.pid, state.supervisor.startTicks) ||
    (state.keeper !== undefined && isSameProcess(state.pid, state.startTicks)))

export const markVerified = (dir: string): void => writeFileSync(files(dir).verified, '')

export const isVerified = (dir: string): boolean => existsSync(files(dir).verified)
