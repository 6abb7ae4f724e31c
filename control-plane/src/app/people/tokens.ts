// A user's own tokens: listed without the secret, created with at most the scopes of the caller, revoked immediately.

import { AppError, type FieldProblem, invalidFields, PEOPLE } from '@berth/shared'
import { SCOPES, type TokenCreate } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { tooWide } from '../../domain/people/people.ts'
import { hashToken, makeToken } from '../../identity/tokens.ts'
import { ONE_TIME_SECRETS } from '../../limits/browser.ts'
import { deleteLogins } from '../../store/people/logins.ts'
import { deleteSecretsOf } from '../../store/people/one-time-secrets.ts'
import { insertToken, type Token } from '../../store/people/people.ts'
import { findToken, listUserTokens, updateTokenRevoked } from '../../store/people/tokens.ts'
import { requireScope } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { requireOwnFactor } from './factors/factors.ts'
import { keepSecret } from './one-time-secrets.ts'

const DAY_MS = 86_400_000

export async function listOwnTokens(
  ctx: Context,
  caller: Caller,
  page: { limit: number; before?: number | undefined },
): Promise<Token[]> {
  requireScope(caller, 'read')
  return listUserTokens(ctx.db, caller.userId, ctx.clock.now(), page)
}

/** The requested organization, else the header's, else the token's; `checkToken` enforces a token's binding. */
function chooseBinding(caller: Caller, asked: number | null | undefined): number | null {
  if (asked !== undefined && asked !== null) return asked
  return caller.askedOrganizationId ?? caller.tokenOrganizationId
}

function checkToken(caller: Caller, asked: TokenCreate, organizationId: number | null): void {
  const problems: FieldProblem[] = []
  const wide = tooWide(asked.scopes, caller.scopes)
  if (wide.length > 0) {
    problems.push({
      field: 'scopes',
      code: 'scope_too_wide',
      message: `The token in use lacks ${wide.join(', ')}; it can make only tokens with its own scopes or fewer.`,
    })
  }
  const member = caller.memberships.some((m) => m.organizationId === organizationId)
  const bound = caller.tokenOrganizationId
  const leavesBinding = bound !== null && organizationId !== bound
  if ((organizationId !== null && !member) || leavesBinding) {
    problems.push({
      field: 'organization_id',
      code: 'not_found',
      message: 'You cannot bind a token to this organization.',
    })
  }
  if (problems.length > 0) throw invalidFields(problems)
}

export async function createToken(
  ctx: Context,
  caller: Caller,
  asked: TokenCreate,
): Promise<{ token: Token; secret: string; page: string | null }> {
  requireScope(caller, 'admin')
  const organizationId = chooseBinding(caller, asked.organization_id)
  checkToken(caller, asked, organizationId)
  const scopes = SCOPES.filter((scope) => asked.scopes.includes(scope))
  const secret = makeToken('berth_pat_')
  return change(ctx, async (c) => {
    await requireOwnFactor(c.db, caller.userId)
    const has = await listUserTokens(c.db, caller.userId, c.now, { limit: PEOPLE.tokensPerUser })
    if (has.length >= PEOPLE.tokensPerUser) {
      const message = `You have ${has.length} tokens. Revoke one that is not used any more.`
      throw invalidFields([{ field: 'name', code: 'too_many_tokens', message }])
    }
    const id = await insertToken(c.db, {
      userId: caller.userId,
      kind: 'personal',
      name: asked.name,
      hash: hashToken(secret),
      hint: secret.slice(-4),
      scopes,
      organizationId,
      expiresAt: c.now + asked.expires_in_days * DAY_MS,
      createdAt: c.now,
    })
    const details = { name: asked.name, scopes, days: asked.expires_in_days }
    await auditCaller(c, caller, organizationId, 'token.create', ['token', id], details)
    const token = await findToken(c.db, id)
    if (!token) throw new Error(`token ${id} is not there after it was made`)
    const page = await keepSecret(ctx, c, caller, {
      title: 'New token',
      hint: `Copy ${asked.name} now. Anyone who has it can act as you.`,
      back: '/account/tokens',
      values: [{ label: 'Token', text: secret }],
      organizationId: null,
      subject: tokenSubject(id),
      expiresAt: c.now + ONE_TIME_SECRETS.ownMs,
    })
    return { token, secret, page }
  })
}

const tokenSubject = (id: number): string => `token:${id}`

/** Revoking a login's token ends the whole login, so that its refresh token cannot restore it. */
export async function endToken(c: Change, token: Token): Promise<void> {
  await updateTokenRevoked(c.db, token.id, c.now)
  await deleteSecretsOf(c.db, tokenSubject(token.id))
  if (token.loginId !== null) await deleteLogins(c.db, { id: token.loginId }, c.now)
}

/** Revokes a token of the caller; the token in use may always revoke itself. */
export async function revokeToken(ctx: Context, caller: Caller, id: number): Promise<void> {
  if (id !== caller.origin.tokenId) requireScope(caller, 'admin')
  await change(ctx, async (c) => {
    const token = await findToken(c.db, id)
    if (!token || token.userId !== caller.userId || token.revokedAt !== null) {
      throw new AppError('not_found', "Not found, or you don't have access.")
    }
    await endToken(c, token)
    const details = { name: token.name, kind: token.kind }
    await auditCaller(c, caller, token.organizationId, 'token.revoke', ['token', id], details)
  })
}
