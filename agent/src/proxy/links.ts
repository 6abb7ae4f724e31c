// Stable names for folders of static files, which only root writes. Caddy's configuration contains only the name, so a
// new version moves a link and needs no push. socket-links.ts does the same for sockets.
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { listFolder, moveLink, readLink } from '../machine/files.ts'
import { listRoutes, routeId, type Table } from './table.ts'

function wantedLinks(table: Table): Map<string, string> {
  const wanted = new Map<string, string>()
  for (const { host, path, target } of listRoutes(table)) {
    if (target.kind === 'static') wanted.set(routeId(host, path), target.root)
  }
  return wanted
}

/** The current target of a route's link. */
export const readRouteLink = (folder: string, host: string, path: string): string | undefined =>
  readLink(join(folder, routeId(host, path)))

/** Called before a push: adds the names that only the new configuration uses. */
export function addLinks(folder: string, table: Table): void {
  for (const [id, target] of wantedLinks(table)) {
    if (readLink(join(folder, id)) === undefined) moveLink(join(folder, id), target)
  }
}

/** Called after the table was written: every name leads where the table says, and all others are removed. */
export function syncLinks(folder: string, table: Table): void {
  mkdirSync(folder, { recursive: true, mode: 0o711 })
  const wanted = wantedLinks(table)
  for (const [id, target] of wanted) {
    if (readLink(join(folder, id)) !== target) moveLink(join(folder, id), target)
  }
  for (const id of listFolder(folder)) {
    if (!wanted.has(id)) rmSync(join(folder, id), { force: true })
  }
}
