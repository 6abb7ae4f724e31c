// Resolves a name in Caddy's query, or a request's host and path, to its current upstream. PURE: table and addresses
// in, upstream out. Invariant: a plain name resolves only for hostnames that the catch-all may serve; a route with a
// password is found under its own name alone.

import { needsOwnRoute, OWN_ZONE, ownName, PLAIN_ZONE } from '../caddy/render.ts'
import { containerIds, type EdgeTarget, type SocketTarget } from '../protocol.ts'
import { findRoute, listRoutes, type PlacedRoute, type Table } from '../table.ts'
import type { Upstream } from './name-server.ts'
import type { Page } from './pages.ts'

type FindAddress = (containerId: string) => string | undefined

const NONE: ReadonlySet<string> = new Set()

/**
 * Where requests may go; empty: a page is shown. Avoided replicas are left out while another one is up, because a sick
 * one may still answer some requests and a page answers none.
 */
export function upstreamsOf(
  target: EdgeTarget,
  find: FindAddress,
  avoided: ReadonlySet<string> = NONE,
): Upstream[] {
  if (target.kind === 'loopback') return [{ address: '127.0.0.1', port: target.port }]
  if (target.kind !== 'container') return []
  const up = containerIds(target).flatMap((id) => {
    const address = find(id)
    return address === undefined ? [] : [{ id, address, port: target.port }]
  })
  const well = up.filter(({ id }) => !avoided.has(id))
  return (well.length > 0 ? well : up).map(({ address, port }) => ({ address, port }))
}

/** The destination of a connection without Caddy; a socket needs its own way to connect. */
export type Place = Upstream | { socket: SocketTarget; environmentId: number }

export const placesOf = (
  { target, environmentId }: PlacedRoute,
  find: FindAddress,
  avoided?: ReadonlySet<string>,
): Place[] =>
  target.kind === 'socket'
    ? [{ socket: target, environmentId }]
    : upstreamsOf(target, find, avoided)

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
  return upstreamsOf(route.target, find).length > 0 ? undefined : 'stopped'
}

export const containersOf = (table: Table): string[] => [
  ...new Set(
    listRoutes(table).flatMap(({ target }) =>
      target.kind === 'container' ? containerIds(target) : [],
    ),
  ),
]
