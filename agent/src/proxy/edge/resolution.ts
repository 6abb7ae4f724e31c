// Resolves a name in Caddy's query, or a request's host and path, to its current upstream. PURE: table and addresses
// in, upstream out. Invariant: a plain name resolves only for hostnames that the catch-all may serve; a route with a
// password is found under its own name alone.

import { needsOwnRoute, OWN_ZONE, ownName, PLAIN_ZONE } from '../caddy/render.ts'
import type { EdgeTarget, SocketTarget } from '../protocol.ts'
import { findRoute, listRoutes, type PlacedRoute, type Table } from '../table.ts'
import type { Upstream } from './name-server.ts'
import type { Page } from './pages.ts'

type FindAddress = (containerId: string) => string | undefined

/** Undefined when there is none; a page is shown. */
export function upstreamOf(target: EdgeTarget, find: FindAddress): Upstream | undefined {
  switch (target.kind) {
    case 'loopback':
      return { address: '127.0.0.1', port: target.port }
    case 'container': {
      const address = find(target.id)
      return address === undefined ? undefined : { address, port: target.port }
    }
    default:
      return undefined
  }
}

/** The destination of a connection without Caddy; a socket needs its own way to connect. */
export type Place = Upstream | { socket: SocketTarget; environmentId: number }

export const placeOf = (
  { target, environmentId }: PlacedRoute,
  find: FindAddress,
): Place | undefined =>
  target.kind === 'socket' ? { socket: target, environmentId } : upstreamOf(target, find)

/** Every name that resolves, with its target. */
export function listNames(table: Table): Map<string, EdgeTarget> {
  const names = new Map<string, EdgeTarget>()
  for (const route of listRoutes(table)) names.set(nameOf(route), route.target)
  return names
}

/** The name under which Caddy asks for this route. */
const nameOf = (route: PlacedRoute): string =>
  needsOwnRoute(route) ? ownName(route.host, route.path) : `${route.host}.${PLAIN_ZONE}`

export const namesOf = (table: Table, environmentId: number): string[] =>
  listRoutes(table)
    .filter((route) => route.environmentId === environmentId)
    .map(nameOf)

export const isOurName = (name: string): boolean =>
  name.endsWith(`.${PLAIN_ZONE}`) || name.endsWith(`.${OWN_ZONE}`)

/** The page that the page server shows; undefined when an application should have answered. */
export function pageFor(
  table: Table,
  host: string,
  path: string,
  find: FindAddress,
): Page | undefined {
  const route = findRoute(table, host, path)
  if (!route) return 'unknown'
  if (route.target.kind === 'page') return route.target.page
  if (route.target.kind === 'static' && table.mode === 'ports') return 'files'
  return upstreamOf(route.target, find) ? undefined : 'stopped'
}

export const containersOf = (table: Table): string[] => [
  ...new Set(
    listRoutes(table).flatMap(({ target }) => (target.kind === 'container' ? [target.id] : [])),
  ),
]
