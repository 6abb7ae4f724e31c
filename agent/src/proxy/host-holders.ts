// Since when each hostname belongs to its environment, so that an environment cannot read requests to a hostname from
// before. The edge writes the file before its table; apart from reading and writing it, the functions are pure.
import { mkdirSync, readFileSync } from 'node:fs'
import { LOG_PAGES } from '../limits/log-pages.ts'
import { replaceFile } from '../machine/atomic-files.ts'
import type { AgentSettings } from '../settings.ts'
import { edgePaths } from './paths.ts'
import { listRoutes, type Table } from './table.ts'

interface Holder {
  environmentId: number
  /** Milliseconds since 1970. */
  since: number
}

/** By hostname. */
export type HostHolders = Record<string, Holder>

type Folders = Pick<AgentSettings, 'stateDir' | 'runDir'>

export function readHolders(settings: Folders): HostHolders {
  try {
    return JSON.parse(readFileSync(edgePaths(settings).holders, 'utf8')) as HostHolders
  } catch {
    return {} // none yet, or damaged: then every hostname counts from now on
  }
}

/** Returns the same object when nothing changes. A hostname without a route stays with its last environment. */
export function withHolders(holders: HostHolders, table: Table, now: number): HostHolders {
  const routed = new Map(listRoutes(table).map((route) => [route.host, route.environmentId]))
  const fresh = [...routed].filter(([host, id]) => holders[host]?.environmentId !== id)
  const known = Object.entries(holders)
  const former = known.filter(([host]) => !routed.has(host))
  const dropped = new Set(former.slice(0, Math.max(0, former.length - LOG_PAGES.formerHosts)))
  const kept = known.filter((entry) => !dropped.has(entry))
  if (fresh.length === 0 && kept.length === Object.keys(holders).length) return holders
  const added = fresh.map(([host, environmentId]) => [host, { environmentId, since: now }] as const)
  return { ...Object.fromEntries(kept), ...Object.fromEntries(added) }
}

/** For an environment that was removed for good. */
export const withoutHolder = (holders: HostHolders, environmentId: number): HostHolders =>
  Object.fromEntries(
    Object.entries(holders).filter(([, holder]) => holder.environmentId !== environmentId),
  )

export function writeHolders(settings: Folders, holders: HostHolders): void {
  const { dir, holders: file } = edgePaths(settings)
  mkdirSync(dir, { recursive: true, mode: 0o711 })
  replaceFile(file, JSON.stringify(holders))
}
