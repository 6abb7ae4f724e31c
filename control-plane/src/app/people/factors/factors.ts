// The second factors of a user: what there is, the rules for the first and the last one, and the reset by an
// administrator. Each change needs a recent sign-in and writes an audit row.

import { AppError, PEOPLE } from '@berth/shared'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { normalizeEmail } from '../../../domain/people/people.ts'
import type { BrowserLogin } from '../../../identity/identity.ts'
import { passkeyObstacle } from '../../../identity/passkeys.ts'
import { hashRecoveryCode, makeRecoveryCodes } from '../../../identity/totp.ts'
import { ONE_TIME_SECRETS } from '../../../limits/browser.ts'
import { factorsResetLetter } from '../../../mail/messages.ts'
import {
  deleteOtherSessions,
  deleteUserSessions,
  findPasswordHash,
  hasProviderAccount,
} from '../../../store/people/accounts.ts'
import {
  countRecoveryCodes,
  deleteFactors,
  findTotp,
  listPasskeys,
  type Passkey,
  replaceRecoveryCodes,
} from '../../../store/people/factors.ts'
import { deleteSecretsOf } from '../../../store/people/one-time-secrets.ts'
import { listMemberships } from '../../../store/people/people.ts'
import { findUser, findUserByEmail, updateUser } from '../../../store/people/users.ts'
import { requirePlatformAdmin } from '../../core/access.ts'
import { type Actor, audit, auditCaller, byCaller } from '../../core/audit.ts'
import type { Change } from '../../core/change.ts'
import { change } from '../../core/transaction.ts'
import { queueMail } from '../mail.ts'
import { keepSecret } from '../one-time-secrets.ts'
import { PROVIDER } from '../provider-sign-in.ts'

/** A signed-in user in a browser. */
export interface Browsing {
  caller: Caller
  cookie: string | undefined
}

export async function ownLogin(ctx: Context, { caller, cookie }: Browsing): Promise<BrowserLogin> {
  const login = await ctx.identity.findSession(cookie ?? '')
  if (!login || login.userId !== caller.userId) {
    throw new AppError('token_missing', 'Sign in first.')
  }
  return login
}

const isRecent = (ctx: Context, login: BrowserLogin): boolean =>
  ctx.clock.now() - login.verifiedAt <= PEOPLE.recentSignInMs

/** A browser that was left open must not be enough to change how its user signs in. */
export async function requireRecent(ctx: Context, browsing: Browsing): Promise<BrowserLogin> {
  const login = await ownLogin(ctx, browsing)
  if (isRecent(ctx, login)) return login
  throw new AppError('recent_sign_in_required', 'Confirm that it is you, then try again.')
}

export interface FactorsView {
  hasApp: boolean
  appSince: number | null
  passkeys: Passkey[]
  recoveryCodesLeft: number
  /** Why passkeys cannot work at this address. */
  obstacle: string | undefined
  isRecent: boolean
  hasPassword: boolean
  isLinked: boolean
  /** Names of organizations that require a second factor. */
  requiredBy: string[]
}

const listRequiring = async (db: Change['db'], userId: number): Promise<string[]> =>
  (await listMemberships(db, userId))
    .filter((m) => m.secondFactorSince !== null)
    .map((m) => m.organizationName)

export async function viewFactors(ctx: Context, browsing: Browsing): Promise<FactorsView> {
  const { userId } = browsing.caller
  const login = await ownLogin(ctx, browsing)
  const totp = await findTotp(ctx.db, userId)
  return {
    hasApp: totp !== undefined && totp.confirmedAt !== null,
    appSince: totp?.confirmedAt ?? null,
    passkeys: await listPasskeys(ctx.db, userId),
    recoveryCodesLeft: await countRecoveryCodes(ctx.db, userId),
    obstacle: passkeyObstacle(ctx.baseUrl),
    isRecent: isRecent(ctx, login),
    hasPassword: (await findPasswordHash(ctx.db, userId)) !== null,
    isLinked: await hasProviderAccount(ctx.db, userId, PROVIDER),
    requiredBy: await listRequiring(ctx.db, userId),
  }
}

const codesSubject = (userId: number): string => `recovery-codes:${userId}`

/** Replaces all codes; returns the page that shows them. */
export async function makeNewCodes(ctx: Context, c: Change, caller: Caller): Promise<string> {
  const codes = makeRecoveryCodes()
  await replaceRecoveryCodes(c.db, caller.userId, codes.map(hashRecoveryCode))
  await deleteSecretsOf(c.db, codesSubject(caller.userId))
  const secret = {
    title: 'Recovery codes',
    hint: 'Save them somewhere safe. Each code signs you in once if you lose your phone and passkeys.',
    back: '/account',
    values: [{ label: 'Recovery codes', text: codes.join('\n') }],
    organizationId: null,
    subject: codesSubject(caller.userId),
    expiresAt: c.now + ONE_TIME_SECRETS.ownMs,
  }
  const id = await keepSecret(ctx, c, caller, secret)
  if (id === null) throw new Error('recovery codes are made in a browser')
  return id
}

/**
 * Call this after a factor was added. With the first one come recovery codes, and the other browsers have to sign in
 * again, now with both factors. Returns the page of the codes.
 */
export async function noteAdded(
  ctx: Context,
  c: Change,
  caller: Caller,
  login: BrowserLogin,
): Promise<string | null> {
  const user = await findUser(c.db, caller.userId)
  if (!user || user.secondFactorAt !== null) return null
  await updateUser(c.db, caller.userId, { secondFactorAt: c.now })
  await deleteOtherSessions(c.db, caller.userId, login.sessionId)
  await auditCaller(c, caller, null, 'second_factor.enable', ['user', caller.userId])
  return makeNewCodes(ctx, c, caller)
}

/** Call this after a factor was removed. The last one cannot go where an organization requires it. */
export async function noteRemoved(c: Change, caller: Caller): Promise<void> {
  const { userId } = caller
  const totp = await findTotp(c.db, userId)
  const isLast = totp?.confirmedAt == null && (await listPasskeys(c.db, userId)).length === 0
  if (!isLast) return
  const names = await listRequiring(c.db, userId)
  if (names.length > 0) {
    const message = `${names.join(' and ')} ${names.length === 1 ? 'requires' : 'require'} two-factor sign-in. Add another factor first, or leave the organization.`
    throw new AppError('second_factor_required', message)
  }
  await replaceRecoveryCodes(c.db, userId, [])
  await deleteSecretsOf(c.db, codesSubject(userId))
  await updateUser(c.db, userId, { secondFactorAt: null })
  await auditCaller(c, caller, null, 'second_factor.disable', ['user', userId])
}

export async function renewRecoveryCodes(ctx: Context, browsing: Browsing): Promise<string> {
  await requireRecent(ctx, browsing)
  const { caller } = browsing
  return change(ctx, async (c) => {
    await updateUser(c.db, caller.userId, { lastActiveAt: c.now }) // locks the user
    const user = await findUser(c.db, caller.userId)
    if (!user || user.secondFactorAt === null) {
      throw new AppError('validation_failed', 'Add an authenticator app or a passkey first.')
    }
    await auditCaller(c, caller, null, 'recovery_codes.renew', ['user', caller.userId])
    return makeNewCodes(ctx, c, caller)
  })
}

/** For a person who lost everything: factors go, browsers are signed out, and the person is told by mail. */
async function reset(
  ctx: Pick<Context, 'secretStore' | 'baseUrl'>,
  c: Change,
  userId: number,
  actor: Actor,
): Promise<void> {
  const user = await findUser(c.db, userId)
  if (!user) throw new AppError('not_found', "Not found, or you don't have access.")
  await updateUser(c.db, userId, { secondFactorAt: null })
  const removed = await deleteFactors(c.db, userId)
  await deleteSecretsOf(c.db, codesSubject(userId))
  await deleteUserSessions(c.db, userId)
  await audit(c, actor, null, 'second_factor.reset', ['user', userId], removed)
  const by = actor.type === 'user' ? actor.caller.name : 'The operator of Berth'
  const letter = factorsResetLetter({ name: user.name, by, baseUrl: ctx.baseUrl })
  await queueMail(ctx, c, { kind: 'factors_reset', to: user.email, ...letter })
}

export async function resetFactors(ctx: Context, caller: Caller, userId: number): Promise<void> {
  requirePlatformAdmin(caller)
  await change(ctx, (c) => reset(ctx, c, userId, byCaller(caller)))
}

/** For the command of `berth-server`; returns the user's name, undefined if there is no such account. */
export async function resetFactorsByOperator(
  ctx: Parameters<typeof change>[0] & Pick<Context, 'baseUrl'>,
  email: string,
): Promise<string | undefined> {
  return change(ctx, async (c) => {
    const user = await findUserByEmail(c.db, normalizeEmail(email))
    if (!user) return undefined
    await reset(ctx, c, user.id, { type: 'system', name: 'berth-server' })
    return user.name
  })
}

/** A user who must have a second factor first can make nothing that works without one. */
export async function requireOwnFactor(db: Change['db'], userId: number): Promise<void> {
  const user = await findUser(db, userId)
  if (!user || user.secondFactorAt !== null) return
  const names = await listRequiring(db, userId)
  if (names.length === 0) return
  const message = `${names.join(' and ')} ${names.length === 1 ? 'requires' : 'require'} two-factor sign-in. Set it up on your account page first.`
  throw new AppError('second_factor_required', message)
}
