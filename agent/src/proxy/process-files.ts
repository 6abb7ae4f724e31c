// Small files by which daemon, edge and tests find the processes of the edge and of Caddy. A file is valid only while
// exactly the process it names is alive on this boot, so nothing is synced.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { VERSION } from '@berth/shared'
import { replaceUnsynced } from '../machine/atomic-files.ts'
import { isSameProcess, readBootId, readStartTicks } from '../machine/process/processes.ts'
import { type AgentSettings, settingsEnvironment } from '../settings.ts'

export interface ProxyProcess {
  pid: number
  startTicks: string
  bootId: string
  /** Of the settings it was started with; other settings need another process. */
  digest: string
  /** Why no process runs, as a sentence. */
  reason: string
}

export function readProxyProcess(file: string): ProxyProcess | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ProxyProcess
  } catch {
    return undefined
  }
}

export const isAlive = (found: ProxyProcess | undefined): found is ProxyProcess =>
  found !== undefined && found.bootId === readBootId() && isSameProcess(found.pid, found.startTicks)

export function writeProxyProcess(file: string, pid: number, digest: string, reason = ''): void {
  const startTicks = readStartTicks(pid) ?? ''
  const written: ProxyProcess = { pid, startTicks, bootId: readBootId(), digest, reason }
  replaceUnsynced(file, JSON.stringify(written))
}

/** Changes with the build and the settings; the edge is then replaced. */
export const settingsDigest = (settings: AgentSettings): string =>
  createHash('sha256')
    .update(JSON.stringify([VERSION, settingsEnvironment(settings)]))
    .digest('hex')
    .slice(0, 16)
