// Decides who writes the log of a container: its follower in the daemon, or the runner that removes it. A claim is a
// small file in the run folder, named after the log, with the id of the process; a claim of a dead process is void.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { SERVICE_LOGS } from '@berth/shared'
import { isSameProcess, readStartTicks } from '../machine/process/processes.ts'
import type { AgentSettings } from '../settings.ts'

interface ClaimedLog {
  environmentId: number
  service: string
  taskId: number
  /** Absent or 1: the first one. */
  replica?: number | undefined
}

const fileOf = (settings: Pick<AgentSettings, 'runDir'>, log: ClaimedLog): string =>
  join(
    settings.runDir,
    'logs',
    `e${log.environmentId}-${log.service}-${log.taskId}${(log.replica ?? 1) > 1 ? `.${log.replica}` : ''}`,
  )

function isLive(file: string): boolean {
  try {
    const [pid = '', ticks = ''] = readFileSync(file, 'utf8').split(' ')
    return isSameProcess(Number(pid), ticks)
  } catch {
    return false
  }
}

/** Returns how to release the claim; undefined when another process writes. */
export function claimLog(
  settings: Pick<AgentSettings, 'runDir'>,
  log: ClaimedLog,
): (() => void) | undefined {
  mkdirSync(join(settings.runDir, 'logs'), { recursive: true, mode: 0o700 })
  const file = fileOf(settings, log)
  const holder = `${process.pid} ${readStartTicks(process.pid) ?? ''}`
  for (const last of [false, true]) {
    try {
      writeFileSync(file, holder, { flag: 'wx', mode: 0o600 })
      return () => rmSync(file, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      if (last || isLive(file)) return undefined
      rmSync(file, { force: true })
    }
  }
  return undefined
}

/** The same, but waits for the current writer to finish. */
export async function awaitLog(
  settings: Pick<AgentSettings, 'runDir'>,
  log: ClaimedLog,
  waitMs: number = SERVICE_LOGS.claimMs,
): Promise<(() => void) | undefined> {
  const until = performance.now() + waitMs
  for (;;) {
    const release = claimLog(settings, log)
    if (release || performance.now() >= until) return release
    await delay(SERVICE_LOGS.claimPollMs)
  }
}
