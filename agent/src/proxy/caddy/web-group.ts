// The group through which Caddy reaches what environments offer it: sockets in their folders, copies of static roots. It is
// a group of its own and owns nothing else, so whoever got into it would gain nothing of Caddy's.

import { ensureMember, findGroup, isRoot } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'

type Names = Pick<AgentSettings, 'accountPrefix'>

/** berth-web. */
export const webGroup = ({ accountPrefix }: Names): string =>
  `${accountPrefix.replace(/-?e$/, '')}-web`

/** Undefined: Caddy has no account of its own here (development without root) and needs no group. */
export const findWebGroup = async (settings: Names): Promise<number | undefined> =>
  isRoot() ? findGroup(webGroup(settings)) : undefined

/** Before Caddy starts: a process gets its groups when it begins. */
export const ensureWebGroup = (settings: Names, account: string): Promise<void> =>
  ensureMember(webGroup(settings), account)
