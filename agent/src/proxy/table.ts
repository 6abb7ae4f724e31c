// The routing table: the edge's whole state, in one file that is replaced atomically before a call is answered. Apart
// from reading and writing that file, the functions are pure. Invariants: a lower fence or revision never changes
// anything; no two routes of the table have the same host and path.

import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { replaceFile } from '../machine/atomic-files.ts'
import type { AgentSettings } from '../settings.ts'
import { edgePaths } from './paths.ts'
import {
  type BasicAuth,
  EdgeError,
  type EdgeRoute,
  type RemoveRoutes,
  type SetAuth,
  type SetRoutes,
} from './protocol.ts'

interface TableEntry {
  /** Of the attempt that set the routes, as a decimal. */
  fence: string
  routes: EdgeRoute[]
  revision: string
  basicAuth: BasicAuth | null
}

export interface Table {
  format: 1
  generation: number
  mode: 'caddy' | 'ports'
  /** Of the page server; stored, because Caddy's configuration contains it. 0 when not chosen yet. */
  pagePort: number
  /** By environment. */
  environments: Record<string, TableEntry>
  /** In mode 'ports', by host and path. */
  ports: Record<string, number>
  /** Last known address of each routed container, used after a restart of the edge on the same boot. */
  addresses: Record<string, string>
  bootId: string
}

const EMPTY: Table = {
  format: 1,
  generation: 0,
  mode: 'caddy',
  pagePort: 0,
  environments: {},
  ports: {},
  addresses: {},
  bootId: '',
}

type Folders = Pick<AgentSettings, 'stateDir' | 'runDir'>

/** Empty when there is no file yet; an unreadable table is an error, never an empty table. */
export function readTable(settings: Folders): Table {
  let text: string
  try {
    text = readFileSync(edgePaths(settings).table, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return structuredClone(EMPTY)
    throw error
  }
  return { ...structuredClone(EMPTY), ...(JSON.parse(text) as Table) }
}

export function writeTable(settings: Folders, table: Table): void {
  const paths = edgePaths(settings)
  mkdirSync(paths.dir, { recursive: true, mode: 0o711 })
  replaceFile(paths.table, JSON.stringify(table))
}

export const routeKey = (host: string, path: string): string => `${host} ${path}`

/** Short, safe in names of files and of the name server, and always the same for one host and path. */
export const routeId = (host: string, path: string): string =>
  createHash('sha256').update(routeKey(host, path)).digest('hex').slice(0, 20)

export interface PlacedRoute extends EdgeRoute {
  environmentId: number
  basicAuth: BasicAuth | null
}

/** Every route with its environment's data, in a fixed order. */
export const listRoutes = (table: Table): PlacedRoute[] =>
  Object.entries(table.environments)
    .flatMap(([id, entry]) =>
      entry.routes.map((route) => ({
        ...route,
        environmentId: Number(id),
        basicAuth: route.auth ? entry.basicAuth : null,
      })),
    )
    .sort((a, b) => (routeKey(a.host, a.path) < routeKey(b.host, b.path) ? -1 : 1))

const entryOf = (table: Table, environmentId: number): TableEntry =>
  table.environments[environmentId] ?? { fence: '0', routes: [], revision: '0', basicAuth: null }

const changed = (table: Table, environmentId: number, entry: TableEntry): Table => ({
  ...table,
  generation: table.generation + 1,
  environments: { ...table.environments, [environmentId]: entry },
})

function refuseOldFence(entry: TableEntry, fence: bigint): void {
  if (fence >= BigInt(entry.fence)) return
  const why = `A newer deployment (fence ${entry.fence}) has set the routes; ${fence} comes too late.`
  throw new EdgeError('stale', why)
}

function refuseTwice(table: Table, { environmentId, routes }: SetRoutes): void {
  const others = listRoutes(table).filter((route) => route.environmentId !== environmentId)
  const taken = new Map(others.map((r) => [routeKey(r.host, r.path), r.environmentId]))
  for (const { host, path } of routes) {
    const holder = taken.get(routeKey(host, path))
    if (holder !== undefined) {
      const whose = holder === environmentId ? 'twice' : `for environment ${holder}`
      throw new EdgeError('refused', `${host}${path} is routed ${whose} on this server already.`)
    }
    taken.set(routeKey(host, path), environmentId)
  }
}

export function withRoutes(table: Table, set: SetRoutes): Table {
  const entry = entryOf(table, set.environmentId)
  refuseOldFence(entry, set.fence)
  refuseTwice(table, set)
  const next = { ...entry, fence: String(set.fence), routes: set.routes }
  return changed(table, set.environmentId, next)
}

/** Keeps the fence, so that an attempt with a lower number that comes later cannot set routes again. */
export function withoutRoutes(table: Table, removal: RemoveRoutes): Table {
  const entry = entryOf(table, removal.environmentId)
  refuseOldFence(entry, removal.fence)
  const kept = removal.forget ? { ...entry, basicAuth: null } : entry
  const next = { ...kept, fence: String(removal.fence), routes: [] }
  return changed(table, removal.environmentId, next)
}

/** Returns the same table when nothing changes, as each deployment repeats the call. */
export function withAuth(table: Table, set: SetAuth): Table {
  const entry = entryOf(table, set.environmentId)
  if (set.revision < BigInt(entry.revision)) {
    const why = `Newer settings (revision ${entry.revision}) are here; ${set.revision} comes too late.`
    throw new EdgeError('stale', why)
  }
  const next = { ...entry, revision: String(set.revision), basicAuth: set.basicAuth }
  const isKnown = table.environments[set.environmentId] && isDeepStrictEqual(next, entry)
  return isKnown ? table : changed(table, set.environmentId, next)
}

/** Whether a path is below a prefix, on segment boundaries. */
export const isBelow = (path: string, prefix: string): boolean =>
  prefix === '/' || path === prefix || path.startsWith(`${prefix}/`)

/** The route of a request: the longest prefix on its host. */
export function findRoute(table: Table, host: string, path: string): PlacedRoute | undefined {
  return listRoutes(table)
    .filter((route) => route.host === host && isBelow(path, route.path))
    .sort((a, b) => b.path.length - a.path.length)[0]
}
