// Who runs: small files by which daemon, edge and tests find the edge's and Caddy's processes again. A file is believed
// only while the very process it names lives on this boot.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { VERSION } from '@berth/shared'
import { replaceFile } from '../machine/atomic-files.ts'
import { isSameProcess, readBootId, readStartTicks } from '../machine/process/processes.ts'
import { type AgentSettings, settingsEnvironment } from '../settings.ts'

export interface ProxyProcess {
  pid: number
  startTicks: string
  bootId: string
  /** With which settings it was started; others need another process. */
  digest: string
  /** Why there is none: a sentence. */
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
  replaceFile(file, JSON.stringify(written))
}

/** Another build or other settings: another edge. */
export const settingsDigest = (settings: AgentSettings): string =>
  createHash('sha256')
    .update(JSON.stringify([VERSION, settingsEnvironment(settings)]))
    .digest('hex')
    .slice(0, 16)
