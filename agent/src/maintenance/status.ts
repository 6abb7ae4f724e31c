// The status that `berth-agent status` shows. Only the daemon may open the journal, so it writes a small file to the
// run directory at each change; a reader believes it only while that very process lives.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { VERSION } from '@berth/shared'
import { replaceUnsynced } from '../machine/atomic-files.ts'
import { isSameProcess, readStartTicks } from '../machine/process/processes.ts'
import type { AgentSettings } from '../settings.ts'

interface Status {
  phase: string
  endpoint: string
  /** When this phase began. */
  since: string
  attempts: string[]
}
interface WrittenStatus extends Status {
  pid: number
  startTicks: string
  version: string
}

const statusFile = (s: AgentSettings): string => join(s.runDir, 'agent.json')

export function writeStatus(settings: AgentSettings, status: Status): void {
  const { pid } = process
  const startTicks = readStartTicks(pid) ?? ''
  const written: WrittenStatus = { ...status, pid, startTicks, version: VERSION }
  const file = statusFile(settings)
  try {
    replaceUnsynced(file, `${JSON.stringify(written, null, 2)}\n`, 0o644)
  } catch {
    // a full or read-only run directory costs only the status
  }
}

export const removeStatus = (settings: AgentSettings): void =>
  rmSync(statusFile(settings), { force: true })

/** Undefined: no daemon of this state directory runs. */
export function readStatus(settings: AgentSettings): WrittenStatus | undefined {
  try {
    const status = JSON.parse(readFileSync(statusFile(settings), 'utf8')) as WrittenStatus
    return isSameProcess(status.pid, status.startTicks) ? status : undefined
  } catch {
    return undefined
  }
}
