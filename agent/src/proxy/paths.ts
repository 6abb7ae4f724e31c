// Where the edge and Caddy keep their things. What Caddy itself writes lies in folders of its own account; everything
// else is root's.
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
    keys: join(dir, 'keys.json'),
    /** The last configuration that Caddy took; it starts with it. */
    configuration: join(dir, 'caddy.json'),
    /** Names that stay while what they lead to changes: static roots. */
    links: join(dir, 'links'),
    /** The same for sockets, as hard links: beside the folders in which environments make theirs. */
    sockets: join(s.runDir, 'sockets'),
    /** Caddy's own: certificates, its log, the access log. */
    caddy: join(dir, 'caddy'),
    /** Who runs: pid and start ticks. */
    edgeProcess: join(s.runDir, 'edge.json'),
    caddyProcess: join(s.runDir, 'caddy.json'),
    socket: join(s.runDir, 'edge.sock'),
    /** 0700 of Caddy's account. */
    adminDir: join(s.runDir, 'caddy'),
    adminSocket: join(s.runDir, 'caddy', 'admin.sock'),
  }
}

export type EdgePaths = ReturnType<typeof edgePaths>

export interface EdgeKeys {
  /** Who sends it in X-Berth-Probe is this server's agent. */
  probe: string
  /** What Caddy's admin socket must be called; a random name, so that no routed service can be used to reach it. */
  origin: string
  /** Only Caddy knows where to ask whether a certificate may be had. */
  ask: string
}

/** Made by whoever comes first (the edge); readers find them there. */
export function ensureKeys(s: Folders): EdgeKeys {
  const { keys, dir } = edgePaths(s)
  if (!existsSync(keys)) {
    mkdirSync(dir, { recursive: true, mode: 0o711 })
    const fresh = (): string => randomBytes(24).toString('hex')
    replaceFile(keys, JSON.stringify({ probe: fresh(), origin: `berth-${fresh()}`, ask: fresh() }))
  }
  return JSON.parse(readFileSync(keys, 'utf8')) as EdgeKeys
}
