// The group through which Caddy reaches what environments offer: sockets in their folders, copies of static roots. It
// is separate and owns nothing else, so a member of it gains no access to Caddy's own files.

import { ensureMember, findGroup, isRoot } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'

type Names = Pick<AgentSettings, 'accountPrefix'>

/** berth-web. */
export const webGroup = ({ accountPrefix }: Names): string =>
  `${accountPrefix.replace(/-?e$/, '')}-web`

/** Undefined when Caddy has no account of its own (development without root) and needs no group. */
export const findWebGroup = async (settings: Names): Promise<number | undefined> =>
  isRoot() ? findGroup(webGroup(settings)) : undefined

/** Called before Caddy starts, because a process gets its groups at its start. */
export const ensureWebGroup = (settings: Names, account: string): Promise<void> =>
  ensureMember(webGroup(settings), account)
