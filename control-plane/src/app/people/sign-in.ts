// What signing in and changing a password mean beyond the library that checks them: the lock after wrong passwords, the
// session's row with its audit row, the end of every other session and login when a password changes.
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
import { type IdentityRow, insertIdentityRow } from '../../store/people/identity-rows.ts'
import { deleteEndedLogins, deleteLogins } from '../../store/people/logins.ts'
import { findUser, updateUser } from '../../store/people/users.ts'
import { audit, auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { endSshAccess } from '../ssh/revocation.ts'
import { queueMail } from './mail.ts'

/** By hash: the table must not list whom somebody tried to be. */
const lockKey = (email: string): string => `sign-in:${hashToken(normalizeEmail(email))}`

/** A person who acts without a token: at sign-in, at a reset, in a browser. */
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
 * Counts a sign-in before its password is looked at; refuses once there were too many. The answer is the same whether
 * the account exists or not, because the count is.
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

/** The password was right. */
export const forgetWrongPasswords = (ctx: Context, email: string): Promise<void> =>
  deleteWrongTries(ctx.db, lockKey(email))

/**
 * The password that was shown must be the one in force. Asked with the person held: a change of password is over before
 * this or begins after it, and then ends what is made here.
 */
async function requireProven(c: Change, userId: number, proven: string): Promise<void> {
  if ((await findPasswordHash(c.db, userId)) === proven) return
  throw new AppError('token_invalid', 'The password was changed in this very moment.')
}

/**
 * A browser's session, made by the library: its row, the audit row and the last activity are one change. `proven` is the
 * hash the password was compared with: a sign-in under way while the password changes begins nothing.
 */
export async function beginBrowserSession(
  ctx: Context,
  row: IdentityRow & { userId: number },
  from: From,
  proven: string,
): Promise<IdentityRow> {
  return change(ctx, async (c) => {
    await updateUser(c.db, row.userId, { lastActiveAt: c.now }) // holds the person
    const user = await findUser(c.db, row.userId)
    if (!user || user.disabledAt !== null) throw new AppError('account_disabled', 'Disabled.')
    await requireProven(c, user.id, proven)
    const made = await insertIdentityRow(c.db, 'browserSessions', row)
    const caller = personAsCaller(user, from)
    await auditCaller(c, caller, null, 'session.begin', ['user', user.id])
    return made
  })
}

/**
 * Every session, login and SSH certificate ends with the old password; whoever had it is out. Personal tokens stay. With
 * `proven` the former password was the proof, and it must still be in force.
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
    // holds the person: a certificate being given at this moment is written before, and ends here
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

/** The link is made from the configured address; what the request called its host is never looked at. */
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

/** Once an hour. */
export async function sweepSignIns(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  await deleteEndedSessions(ctx.db, now, PEOPLE.lockMs)
  await deleteEndedLogins(ctx.db, now - PEOPLE.endedMs)
}
