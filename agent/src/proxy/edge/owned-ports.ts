// The fallback where packet rules cannot keep other accounts from a port (no iptables, or no kernel support): each time
// Caddy resolves a hostname, the listener must belong to the environment's own account. A port without listener counts
// as foreign, so the route ends before another account can take the port, except for Caddy's cache (PROXY.refreshMs).

import { readFirewallState } from '../../machine/firewall/apply.ts'
import { findListeners } from '../../machine/process/ports.ts'
import { listEnvironmentAccounts } from '../../machine/users/users.ts'
import { type AgentSettings, environmentDir } from '../../settings.ts'
import { listRoutes, type Table } from '../table.ts'
import type { Upstream } from './name-server.ts'

/** True also when the rules are in force, or no process tried to set them (no root, no accounts). */
export function isOwnPlace(settings: AgentSettings, table: Table, place: Upstream): boolean {
  if (readFirewallState(settings)?.isInForce !== false) return true
  const route = listRoutes(table).find(
    ({ target }) => target.kind === 'loopback' && target.port === place.port,
  )
  if (!route || place.address !== '127.0.0.1') return true
  const homeOf = (id: number): string => environmentDir(settings, id)
  const account = listEnvironmentAccounts(settings.accountPrefix, homeOf).get(route.environmentId)
  if (!account) return true
  const listeners = findListeners(place.port)
  return listeners.length > 0 && listeners.every(({ uid }) => uid === account.uid)
}
