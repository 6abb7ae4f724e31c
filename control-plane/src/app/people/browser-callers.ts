// Turns a browser's cookie into a caller. A browser has every scope; only its user's role limits it. Sessions are read
// at each use, so an ended one is refused immediately.
import { SCOPES } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { From } from '../../domain/core/access.ts'
import { isAdmitted } from '../../domain/people/second-factor.ts'
import type { BrowserLogin } from '../../identity/identity.ts'
import { isStorageFull } from '../../store/engine/faults.ts'
import { updateSessionUse } from '../../store/people/accounts.ts'
import { listMemberships } from '../../store/people/people.ts'
import { findUser } from '../../store/people/users.ts'
import type { Authenticated } from './callers.ts'

const USE_NOTED_MS = 60_000 // users see the last use; one write a minute is enough

/** Reading continues when the storage is full. */
async function noteUse(ctx: Context, login: BrowserLogin, { address }: From): Promise<void> {
  const lastUsedAt = ctx.clock.now()
  if (lastUsedAt - (login.lastUsedAt ?? 0) <= USE_NOTED_MS) return
  await updateSessionUse(ctx.db, login.sessionId, { lastUsedAt, address }).catch((error) => {
    if (!isStorageFull(error)) throw error
  })
}

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
  await noteUse(ctx, session, from)
  const facts = { hasSecondFactor: user.secondFactorAt !== null, tokenMadeAt: null }
  const memberships = await listMemberships(ctx.db, user.id)
  return {
    user,
    caller: {
      userId: user.id,
      name: user.name,
      isPlatformAdmin: user.isPlatformAdmin === 1,
      scopes: SCOPES,
      tokenOrganizationId: null,
      askedOrganizationId: null,
      memberships: memberships.filter((one) => isAdmitted(one, facts)),
      origin: { tokenId: null, ...from },
    },
  }
}
