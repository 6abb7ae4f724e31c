// Turns a browser's cookie into a caller. A browser has every scope; only its user's role limits it. Sessions are read
// at each use, so an ended one is refused immediately.
import { SCOPES } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { From } from '../../domain/core/access.ts'
import { listMemberships } from '../../store/people/people.ts'
import { findUser } from '../../store/people/users.ts'
import type { Authenticated } from './callers.ts'

/** Undefined if no user is signed in. The calling code must have checked the request's Origin. */
export async function authenticateSession(
  ctx: Context,
  headers: { cookie?: string | undefined },
  from: From,
): Promise<Authenticated | undefined> {
  if (!headers.cookie) return undefined
  const session = await ctx.identity.findSession(headers.cookie)
  const user = session && (await findUser(ctx.db, session.userId))
  if (!user || user.disabledAt !== null) return undefined
  return {
    user,
    caller: {
      userId: user.id,
      name: user.name,
      isPlatformAdmin: user.isPlatformAdmin === 1,
      scopes: SCOPES,
      tokenOrganizationId: null,
      askedOrganizationId: null,
      memberships: await listMemberships(ctx.db, user.id),
      origin: { tokenId: null, ...from },
    },
  }
}
