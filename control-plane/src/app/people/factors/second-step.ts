// The second step of a sign-in, the sign-in with a passkey alone, and the confirmation before a change of factors.
import { AppError, PEOPLE } from '@berth/shared'
import type { Context } from '../../../context.ts'
import type { From } from '../../../domain/core/access.ts'
import type { BrowserLogin } from '../../../identity/identity.ts'
import type { PasskeyUsed } from '../../../identity/passkeys.ts'
import { isPassword } from '../../../identity/passwords.ts'
import { hashRecoveryCode, matchTotp } from '../../../identity/totp.ts'
import {
  completeSession,
  findPasswordHash,
  updateSessionVerified,
} from '../../../store/people/accounts.ts'
import {
  countRecoveryCodes,
  findTotp,
  listPasskeys,
  takeRecoveryCode,
  takeTotpStep,
} from '../../../store/people/factors.ts'
import { findUser } from '../../../store/people/users.ts'
import { auditCaller } from '../../core/audit.ts'
import type { Change } from '../../core/change.ts'
import { change } from '../../core/transaction.ts'
import { admitSignIn, forgetWrongPasswords, personAsCaller } from '../sign-in.ts'
import { countTry, forgetTries, openTotp } from './authenticator-app.ts'
import { type Browsing, ownLogin } from './factors.ts'
import { usePasskey } from './passkeys.ts'

export interface Awaiting {
  login: BrowserLogin
  hasApp: boolean
  hasPasskey: boolean
  hasRecoveryCode: boolean
}

/** Undefined unless the browser showed a password, or came from the provider, and owes the second factor. */
export async function findAwaiting(
  ctx: Context,
  cookie: string | undefined,
): Promise<Awaiting | undefined> {
  const login = cookie ? await ctx.identity.findAwaiting(cookie) : undefined
  if (!login) return undefined
  const totp = await findTotp(ctx.db, login.userId)
  return {
    login,
    hasApp: totp !== undefined && totp.confirmedAt !== null,
    hasPasskey: (await listPasskeys(ctx.db, login.userId)).length > 0,
    hasRecoveryCode: (await countRecoveryCodes(ctx.db, login.userId)) > 0,
  }
}

async function complete(
  c: Change,
  login: BrowserLogin,
  from: From,
  by: 'app' | 'recovery_code' | 'passkey',
): Promise<void> {
  const user = await findUser(c.db, login.userId)
  const times = { verifiedAt: c.now, expiresAt: c.now + PEOPLE.sessionMs }
  if (!user || user.disabledAt !== null || !(await completeSession(c.db, login.sessionId, times))) {
    throw new AppError('token_missing', 'Sign in first.')
  }
  const caller = personAsCaller(user, from)
  await auditCaller(c, caller, null, 'session.second_factor', ['user', user.id], { by })
}

/** Six digits are a code of the app; anything else is a recovery code, which works once. */
export async function finishByCode(
  ctx: Context,
  asked: { cookie: string | undefined; code: string },
  from: From,
): Promise<void> {
  const login = asked.cookie ? await ctx.identity.findAwaiting(asked.cookie) : undefined
  if (!login) {
    throw new AppError('token_missing', 'Your sign-in took too long. Enter your password again.')
  }
  const { userId } = login
  await countTry(ctx, userId)
  const code = asked.code.replaceAll(/\s/g, '')
  await change(ctx, async (c) => {
    const isDigits = /^\d{6}$/.test(code)
    const isGood = isDigits
      ? await takeCode(ctx, c, userId, code)
      : await takeRecoveryCode(c.db, userId, hashRecoveryCode(code), c.now)
    if (!isGood) throw new AppError('second_factor_wrong', WRONG[isDigits ? 'app' : 'recovery'])
    await complete(c, login, from, isDigits ? 'app' : 'recovery_code')
  })
  await forgetTries(ctx, userId)
}

const WRONG = {
  app: 'The code is wrong or was used. Wait for the next one.',
  recovery: 'This recovery code is wrong or was used.',
}

async function takeCode(ctx: Context, c: Change, userId: number, code: string): Promise<boolean> {
  const totp = await findTotp(c.db, userId)
  if (!totp || totp.confirmedAt === null) return false
  const step = matchTotp(await openTotp(ctx, totp), code, c.now)
  return step !== undefined && takeTotpStep(c.db, userId, step)
}

/** Finishes the browser's own sign-in; otherwise returns the user for whom a new session may begin. */
export async function finishByPasskey(
  ctx: Context,
  asked: { cookie: string | undefined; response: PasskeyUsed },
  from: From,
): Promise<{ userId: number; isDone: boolean }> {
  const login = asked.cookie ? await ctx.identity.findAwaiting(asked.cookie) : undefined
  const { userId } = await usePasskey(ctx, 'sign-in', asked.response)
  if (login?.userId !== userId) return { userId, isDone: false }
  await change(ctx, (c) => complete(c, login, from, 'passkey'))
  return { userId, isDone: true }
}

async function noteConfirmed(ctx: Context, { caller }: Browsing, login: BrowserLogin, by: string) {
  await change(ctx, async (c) => {
    await updateSessionVerified(c.db, login.sessionId, c.now)
    await auditCaller(c, caller, null, 'session.confirm', ['user', caller.userId], { by })
  })
}

/** Wrong passwords count as at sign-in. */
export async function confirmByPassword(
  ctx: Context,
  browsing: Browsing & { email: string },
  password: string,
): Promise<void> {
  const { caller, email } = browsing
  const login = await ownLogin(ctx, browsing)
  await admitSignIn(ctx, email)
  const hash = await findPasswordHash(ctx.db, caller.userId)
  if (hash === null || !(await isPassword(hash, password))) {
    throw new AppError('sign_in_failed', 'The password is wrong.')
  }
  await forgetWrongPasswords(ctx, email)
  await noteConfirmed(ctx, browsing, login, 'password')
}

export async function confirmByPasskey(
  ctx: Context,
  browsing: Browsing,
  response: PasskeyUsed,
): Promise<void> {
  const login = await ownLogin(ctx, browsing)
  const passkey = await usePasskey(ctx, 'confirm', response)
  if (passkey.userId !== browsing.caller.userId) {
    throw new AppError('passkey_refused', 'This passkey belongs to another account.')
  }
  await noteConfirmed(ctx, browsing, login, 'passkey')
}
