// Sign-in and password changes beyond the library that checks passwords: the lock after wrong passwords, the session's
// row with its audit row, and the end of every other session and login when a password changes.
import { AppError, PEOPLE } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller, From } from '../../domain/core/access.ts'
import { normalizeEmail } from '../../domain/people/people.ts'
import { hashToken } from '../../identity/tokens.ts'
import { passwordResetLetter } from '../../mail/messages.ts'
import {
  deleteEndedSessions,
  deleteUserSessions,
  deleteUserVerifications,
  deleteWrongTries,
  findPasswordHash,
  raiseWrongTries,
  upsertPassword,
} from '../../store/people/accounts.ts'
import { deleteOldChallenges } from '../../store/people/factors.ts'
import { type IdentityRow, insertIdentityRow } from '../../store/people/identity-rows.ts'
import { deleteEndedLogins, deleteLogins } from '../../store/people/logins.ts'
import type { User } from '../../store/people/people.ts'
import { findUser, updateUser } from '../../store/people/users.ts'
import { audit, auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { endSshAccess } from '../ssh/revocation.ts'
import { queueMail } from './mail.ts'

/** A hash, because the table must not list the addresses that were tried. */
const lockKey = (email: string): string => `sign-in:${hashToken(normalizeEmail(email))}`

/** A user without a token: at sign-in, at a reset, in a browser. */
export function personAsCaller(user: { id: number; name: string }, from: From): Caller {
  return {
    userId: user.id,
    name: user.name,
    isPlatformAdmin: false,
    scopes: [],
    tokenOrganizationId: null,
    askedOrganizationId: null,
    memberships: [],
    origin: { tokenId: null, ...from },
  }
}

/**
 * Counts a sign-in before its password is checked; refuses after too many. Unknown accounts are counted too, so the
 * answer does not reveal whether the account exists.
 */
export async function admitSignIn(ctx: Context, email: string): Promise<void> {
  const bounds = { now: ctx.clock.now(), most: PEOPLE.wrongPasswords, windowMs: PEOPLE.lockMs }
  const { count, until } = await change(ctx, async (c) => {
    const tries = await raiseWrongTries(c.db, lockKey(email), bounds)
    if (tries.count === PEOPLE.wrongPasswords + 1) {
      const by = { type: 'system' as const, name: 'sign-in' }
      await audit(c, by, null, 'account.lock', ['address', lockKey(email).slice(-16)])
    }
    return tries
  })
  if (count <= PEOPLE.wrongPasswords) return
  const seconds = Math.max(1, Math.ceil((until - bounds.now) / 1_000))
  throw new AppError(
    'rate_limited',
    `Too many failed sign-ins for this address. Try again in ${Math.ceil(seconds / 60)} min, or reset the password.`,
    { retry_after: seconds },
  )
}

/** Call this after a right password. */
export const forgetWrongPasswords = (ctx: Context, email: string): Promise<void> =>
  deleteWrongTries(ctx.db, lockKey(email))

/**
 * Requires that the proven password is still in force. The user's row is locked: a change of password either ended
 * before, or comes later and ends what is created here.
 */
async function requireProven(c: Change, userId: number, proven: string): Promise<void> {
  if ((await findPasswordHash(c.db, userId)) === proven) return
  throw new AppError('token_invalid', 'The password was changed in this very moment.')
}

/** How a session was proven. */
export interface SignInProof {
  method: 'password' | 'provider' | 'passkey'
  /** The hash that the password was compared with: if the password changed meanwhile, no session begins. */
  passwordHash: string
  /** The browser had a session already, with its second factor. */
  isSignedIn: boolean
}

/**
 * Stores a browser session that the library made: its row, the audit row and the last activity are one change. With a
 * second factor, the session opens nothing until that is shown; a passkey is both factors.
 */
export async function beginBrowserSession(
  ctx: Context,
  row: IdentityRow & { userId: number },
  from: From,
  { method, passwordHash, isSignedIn }: SignInProof,
): Promise<IdentityRow> {
  return change(ctx, async (c) => {
    await updateUser(c.db, row.userId, { lastActiveAt: c.now }) // locks the user
    const user = await findUser(c.db, row.userId)
    if (!user || user.disabledAt !== null) throw new AppError('account_disabled', 'Disabled.')
    if (method === 'password') {
      await requireProven(c, user.id, passwordHash)
      requirePasswordAllowed(ctx, user)
    }
    const awaits = user.secondFactorAt !== null && method !== 'passkey' && !isSignedIn
    const made = await insertIdentityRow(c.db, 'browserSessions', {
      ...row,
      method,
      awaitsFactor: awaits ? 1 : 0,
      verifiedAt: c.now,
      lastUsedAt: c.now,
      ...(awaits ? { expiresAt: c.now + PEOPLE.awaitFactorMs } : {}),
    })
    const caller = personAsCaller(user, from)
    const details = { method, awaits_second_factor: awaits }
    await auditCaller(c, caller, null, 'session.begin', ['user', user.id], details)
    return made
  })
}

/** Administrators keep their passwords, so that they can repair a broken provider. */
function requirePasswordAllowed(ctx: Context, user: User): void {
  const { oidc } = ctx.config
  if (!oidc || oidc.passwords === 'everyone' || user.isPlatformAdmin === 1) return
  throw new AppError(
    'password_sign_in_off',
    `Signing in with a password is switched off here. Continue with ${oidc.name}.`,
  )
}

/**
 * Ends every session, login and SSH certificate together with the old password; personal tokens stay. With `proven`,
 * the former password was the proof and must still be in force.
 */
export async function replacePassword(
  ctx: Context,
  userId: number,
  passwordHash: string,
  from: From,
  proven?: string,
): Promise<void> {
  await change(ctx, async (c) => {
    const user = await findUser(c.db, userId)
    if (!user) throw new AppError('not_found', 'There is no such account.')
    // locks the user: a certificate that is issued concurrently is written before, and ends here
    await updateUser(c.db, userId, { lastActiveAt: c.now })
    if (proven !== undefined) await requireProven(c, userId, proven)
    await upsertPassword(c.db, userId, passwordHash, c.now)
    await deleteUserSessions(c.db, userId)
    await deleteUserVerifications(c.db, userId)
    await deleteLogins(c.db, { userId }, c.now)
    await endSshAccess(c, { userId }, 'password_reset')
    await deleteWrongTries(c.db, lockKey(user.email))
    await auditCaller(c, personAsCaller(user, from), null, 'password.change', ['user', userId])
  })
}

/** True when one more mail may go to this address now. */
export async function admitReset(ctx: Context, email: string): Promise<boolean> {
  const { count } = await raiseWrongTries(ctx.db, `reset:${hashToken(normalizeEmail(email))}`, {
    now: ctx.clock.now(),
    most: PEOPLE.resetMails,
    windowMs: PEOPLE.lockMs,
  })
  return count <= PEOPLE.resetMails
}

/** Builds the link from the configured address, never from the request's Host header. */
export async function mailReset(
  ctx: Context,
  user: { id: number; name: string; email: string },
  token: string,
  from: From,
): Promise<void> {
  const letter = passwordResetLetter({ name: user.name, baseUrl: ctx.baseUrl, token })
  await change(ctx, async (c) => {
    await queueMail(ctx, c, { kind: 'password_reset', to: user.email, ...letter })
    const caller = personAsCaller(user, from)
    await auditCaller(c, caller, null, 'password.reset_request', ['user', user.id])
  })
}

/** Runs once an hour. */
export async function sweepSignIns(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  await deleteEndedSessions(ctx.db, now, PEOPLE.lockMs)
  await deleteEndedLogins(ctx.db, now - PEOPLE.endedMs)
  await deleteOldChallenges(ctx.db, now)
}
