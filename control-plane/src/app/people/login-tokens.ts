// The tokens of a client's login: an access token for 30 days and a refresh token for one use. A reused refresh token
// means that two parties hold it, so the login ends, except shortly after the use, when the reply may have been lost.
import { PEOPLE } from '@berth/shared'
import type { Scope, TokenAnswer } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { From } from '../../domain/core/access.ts'
import { decideRefresh } from '../../domain/people/device-login.ts'
import { hashToken, makeToken, parseToken } from '../../identity/tokens.ts'
import {
  deleteLogins,
  findLogin,
  findRefreshToken,
  holdLogin,
  insertRefreshToken,
  type Login,
  takeRefreshToken,
  takeRepetition,
  updateLoginScopes,
} from '../../store/people/logins.ts'
import { findTokenByHash, insertToken, type User } from '../../store/people/people.ts'
import { updateFormerTokens } from '../../store/people/tokens.ts'
import { findUser } from '../../store/people/users.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { personAsCaller } from './sign-in.ts'
import { endToken } from './tokens.ts'

/** Issues a new pair; the former access token expires soon, so that requests in progress still pass. */
export async function issueTokens(c: Change, login: Login): Promise<TokenAnswer> {
  const access = makeToken('berth_at_')
  const refresh = makeToken('berth_rt_')
  await updateFormerTokens(c.db, login.id, c.now + PEOPLE.refreshGraceMs)
  await insertToken(c.db, {
    userId: login.userId,
    kind: 'login',
    name: login.name,
    hash: hashToken(access),
    hint: access.slice(-4),
    scopes: login.scopes,
    organizationId: null,
    expiresAt: c.now + PEOPLE.accessTokenMs,
    createdAt: c.now,
    loginId: login.id,
  })
  await insertRefreshToken(c.db, {
    loginId: login.id,
    hash: hashToken(refresh),
    createdAt: c.now,
    expiresAt: c.now + PEOPLE.refreshIdleMs,
  })
  return {
    access_token: access,
    token_type: 'Bearer',
    expires_in: PEOPLE.accessTokenMs / 1_000,
    refresh_token: refresh,
    scope: login.scopes.join(' '),
  }
}

/**
 * Undefined if the token is not or no longer valid. Ending a login is committed although the answer is a refusal.
 * `wanted` (RFC 6749, section 6): fewer scopes from now on; a login never gets more.
 */
export async function refreshTokens(
  ctx: Context,
  text: string,
  from: From,
  wanted?: readonly Scope[],
): Promise<TokenAnswer | undefined> {
  if (parseToken(text)?.prefix !== 'berth_rt_') return undefined
  return change(ctx, async (c) => {
    const token = await findRefreshToken(c.db, hashToken(text))
    const login = token && (await findLogin(c.db, token.loginId))
    const user = login && (await findUser(c.db, login.userId))
    if (!token || !login || !user) return undefined
    const verdict = decideRefresh(
      { ...token, loginRevoked: login.revokedAt !== null, userDisabled: user.disabledAt !== null },
      c.now,
    )
    switch (verdict) {
      case 'refuse':
        return undefined
      case 'revoke':
        return revokeStolen(c, login, user, from)
      case 'rotate':
        // a concurrent request used it first, so this one counts as the repetition
        if (await takeRefreshToken(c.db, token.id, c.now)) break
        if (await takeRepetition(c.db, token.id, c.now)) break
        return revokeStolen(c, login, user, from)
      case 'repeat':
        if (await takeRepetition(c.db, token.id, c.now)) break
        return revokeStolen(c, login, user, from)
    }
    // false if it was ended since our read; the lock makes a later end include the new tokens
    if (!(await holdLogin(c.db, login.id))) return undefined
    const scopes = wanted ? login.scopes.filter((one) => wanted.includes(one)) : login.scopes
    if (scopes.length < login.scopes.length) await updateLoginScopes(c.db, login.id, scopes)
    const answer = await issueTokens(c, { ...login, scopes })
    const details = wanted ? { scopes } : {}
    const caller = personAsCaller(user, from)
    await auditCaller(c, caller, null, 'login.refresh', ['login', login.id], details)
    return answer
  })
}

async function revokeStolen(c: Change, login: Login, user: User, from: From): Promise<undefined> {
  await deleteLogins(c.db, { id: login.id }, c.now)
  const details = { reason: 'refresh_token_reused' }
  const caller = personAsCaller(user, from)
  await auditCaller(c, caller, null, 'login.revoke', ['login', login.id], details)
  return undefined
}

/** RFC 7009: the holder of a token may end it. Unknown tokens are no error. */
export async function revokeByToken(ctx: Context, text: string, from: From): Promise<void> {
  const prefix = parseToken(text)?.prefix
  if (prefix === 'berth_rt_') {
    await change(ctx, async (c) => {
      const token = await findRefreshToken(c.db, hashToken(text))
      const login = token && (await findLogin(c.db, token.loginId))
      const user = login && (await findUser(c.db, login.userId))
      if (!user || login.revokedAt !== null) return
      await deleteLogins(c.db, { id: login.id }, c.now)
      await auditCaller(c, personAsCaller(user, from), null, 'login.revoke', ['login', login.id])
    })
  } else if (prefix === 'berth_at_' || prefix === 'berth_pat_') {
    await change(ctx, async (c) => {
      const found = await findTokenByHash(c.db, hashToken(text))
      if (!found || found.token.revokedAt !== null) return
      const { token, user } = found
      await endToken(c, token)
      const caller = personAsCaller(user, from)
      const { organizationId, name } = token
      await auditCaller(c, caller, organizationId, 'token.revoke', ['token', token.id], { name })
    })
  }
}
