// Paths of the edge and Caddy. Files that Caddy itself writes are in folders of its own account; root owns the rest.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from '../machine/atomic-files.ts'
import type { AgentSettings } from '../settings.ts'

type Folders = Pick<AgentSettings, 'stateDir' | 'runDir'>

export const edgePaths = (s: Folders) => {
  const dir = join(s.stateDir, 'edge')
  return {
    dir,
    table: join(dir, 'table.json'),
    /** Since when each hostname belongs to its environment. */
    holders: join(dir, 'holders.json'),
    keys: join(dir, 'keys.json'),
    /** The last configuration that Caddy accepted; it starts with it. */
    configuration: join(dir, 'caddy.json'),
    /** Stable names of static roots, whose targets change. */
    links: join(dir, 'links'),
    /** Stable names of sockets, as hard links; beside the folders in which environments make their sockets. */
    sockets: join(s.runDir, 'sockets'),
    /** A copy of Caddy, where its account cannot reach the original. */
    program: join(dir, 'program', 'caddy'),
    /** Caddy's own: certificates, its log, the access log. */
    caddy: join(dir, 'caddy'),
    /** The process that the daemon started last, also if it is not up yet; or why it failed. Only the daemon writes it. */
    edgeStart: join(s.runDir, 'edge-start.json'),
    /** The running process: pid and start ticks. Only an edge that is up writes it. */
    edgeProcess: join(s.runDir, 'edge.json'),
    caddyProcess: join(s.runDir, 'caddy.json'),
    socket: join(s.runDir, 'edge.sock'),
    /** 0700, owned by Caddy's account. */
    adminDir: join(s.runDir, 'caddy'),
    /** Each version has its own: an ending Caddy removes its socket while the next one runs already. */
    adminSocket: (version: string): string => join(s.runDir, 'caddy', `${version}.sock`),
  }
}

export type EdgePaths = ReturnType<typeof edgePaths>

export interface EdgeKeys {
  /** The secret in X-Berth-Probe, by which Caddy recognises this server's agent. */
  probe: string
  /** The random Host of Caddy's admin socket, so that no routed service can be used to reach it. */
  origin: string
  /** A secret in the address of the certificate check, which only Caddy knows. */
  ask: string
}

/** The first process, which is the edge, makes them; others read them. */
export function ensureKeys(s: Folders): EdgeKeys {
  const { keys, dir } = edgePaths(s)
  if (!existsSync(keys)) {
    mkdirSync(dir, { recursive: true, mode: 0o711 })
    const fresh = (): string => randomBytes(24).toString('hex')
    replaceFile(keys, JSON.stringify({ probe: fresh(), origin: `berth-${fresh()}`, ask: fresh() }))
  }
  return JSON.parse(readFileSync(keys, 'utf8')) as EdgeKeys
}
