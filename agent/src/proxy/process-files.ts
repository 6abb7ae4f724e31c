// Small files by which daemon, edge and tests find the processes of the edge and of Caddy. A file is valid only while
// exactly the process it names is alive on this boot, so nothing is synced.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { VERSION } from '@berth/shared'
import { replaceUnsynced } from '../machine/atomic-files.ts'
import { isSameProcess, readBootId, readStartTicks } from '../machine/process/processes.ts'
import { type AgentSettings, settingsEnvironment } from '../settings.ts'
import { edgePaths } from './paths.ts'

export interface ProxyProcess {
  pid: number
  startTicks: string
  bootId: string
  /** Of the settings it was started with; other settings need another process. */
  digest: string
  /** Why no process runs, as a sentence. */
  reason: string
  /** Version of this Caddy, or of the one that this edge serves. Processes of earlier builds have none. */
  caddy?: string
  /** A Caddy that this one replaces; it is ended as soon as this one listens. */
  former?: ProxyProcess
}

type Facts = Partial<Pick<ProxyProcess, 'digest' | 'reason' | 'caddy' | 'former'>>

export function readProxyProcess(file: string): ProxyProcess | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ProxyProcess
  } catch {
    return undefined
  }
}

export const isAlive = (found: ProxyProcess | undefined): found is ProxyProcess =>
  found !== undefined && found.bootId === readBootId() && isSameProcess(found.pid, found.startTicks)

export function writeProxyProcess(file: string, pid: number, facts: Facts = {}): void {
  const startTicks = readStartTicks(pid) ?? ''
  const bootId = readBootId()
  const written: ProxyProcess = { pid, startTicks, bootId, digest: '', reason: '', ...facts }
  replaceProxyProcess(file, written)
}

/** Back to a process that was recorded before. */
export const replaceProxyProcess = (file: string, found: ProxyProcess): void =>
  replaceUnsynced(file, JSON.stringify(found))

/** Changes with the build and the settings; the edge is then replaced. */
export const settingsDigest = (settings: AgentSettings): string =>
  createHash('sha256')
    .update(JSON.stringify([VERSION, settingsEnvironment(settings)]))
    .digest('hex')
    .slice(0, 16)

/** The admin socket of the running Caddy. */
export const findAdminSocket = (settings: Pick<AgentSettings, 'stateDir' | 'runDir'>): string => {
  const paths = edgePaths(settings)
  return paths.adminSocket(readProxyProcess(paths.caddyProcess)?.caddy ?? '')
}
