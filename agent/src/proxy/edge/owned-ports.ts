// What is left where packet rules cannot keep other accounts from a port (no iptables, a kernel without it): each time Caddy
// asks where a host is, the one who listens there must be the environment's own account. Nobody there counts as another:
// the route is gone before somebody else can take the port, but for what Caddy remembers (PROXY.refreshMs).

import { readFirewallState } from '../../machine/firewall/apply.ts'
import { findListeners } from '../../machine/process/ports.ts'
import { listEnvironmentAccounts } from '../../machine/users/users.ts'
import { type AgentSettings, environmentDir } from '../../settings.ts'
import { listRoutes, type Table } from '../table.ts'
import type { Upstream } from './name-server.ts'

/** True also where the rules are in force, or nobody tried to set them (no root, no accounts). */
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
