// Turns an Authorization header into a caller. Tokens are looked up by hash; only the holder of a token learns what is
// wrong with it. Cookies and tokens in addresses are ignored here.
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { isAdmitted } from '../../domain/people/second-factor.ts'
import { hashToken, parseToken } from '../../identity/tokens.ts'
import { isStorageFull } from '../../store/engine/faults.ts'
import {
  findTokenByHash,
  listMemberships,
  type Token,
  type User,
  updateTokenUse,
} from '../../store/people/people.ts'

export interface Authenticated {
  caller: Caller
  user: User
}

export interface ByToken extends Authenticated {
  token: Token
}

/** Reading continues when the storage is full. */
async function noteUse(ctx: Context, token: Token, now: number, address: string): Promise<void> {
  try {
    await updateTokenUse(ctx.db, token, now, address)
  } catch (error) {
    if (!isStorageFull(error)) throw error
  }
}

const USE_NOTED_MS = 60_000 // users see the last use; one write a minute is enough

export async function authenticate(
  ctx: Context,
  authorization: string | undefined,
  from: { address: string; requestId: string },
): Promise<ByToken> {
  const [scheme, text, ...rest] = (authorization ?? '').split(' ')
  if (scheme?.toLowerCase() !== 'bearer' || !text || rest.length > 0) {
    throw new AppError('token_missing', 'Send the header "Authorization: Bearer <token>".')
  }
  const prefix = parseToken(text)?.prefix
  const usable = prefix === 'berth_at_' || prefix === 'berth_pat_'
  const found = usable ? await findTokenByHash(ctx.db, hashToken(text)) : undefined
  if (!found) throw new AppError('token_invalid', 'This token is not known here. Log in again.')
  const { token, user } = found
  const now = ctx.clock.now()
  if (token.revokedAt !== null) {
    throw new AppError('token_revoked', 'This token was revoked. Log in again.')
  }
  if (token.expiresAt !== null && token.expiresAt <= now) {
    throw new AppError('token_expired', 'This token has expired. Log in again.')
  }
  if (user.disabledAt !== null) throw new AppError('account_disabled', 'Your account is disabled.')
  if (now - (token.lastUsedAt ?? 0) > USE_NOTED_MS) {
    await noteUse(ctx, token, now, from.address)
  }
  const facts = { hasSecondFactor: user.secondFactorAt !== null, tokenMadeAt: token.createdAt }
  const memberships = await listMemberships(ctx.db, user.id)
  const caller: Caller = {
    userId: user.id,
    name: user.name,
    isPlatformAdmin: user.isPlatformAdmin === 1,
    scopes: token.scopes,
    tokenOrganizationId: token.organizationId,
    askedOrganizationId: null,
    memberships: memberships.filter((one) => isAdmitted(one, facts)),
    origin: { tokenId: token.id, ...from },
  }
  return { caller, token, user }
}
