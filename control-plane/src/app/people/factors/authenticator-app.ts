// The authenticator app: its secret is shown until a first code confirms it, and is sealed at rest.
import { AppError, PEOPLE } from '@berth/shared'
import type { Context } from '../../../context.ts'
import { makeTotpSecret, matchTotp, toBase32, totpUri } from '../../../identity/totp.ts'
import { deleteWrongTries, raiseWrongTries } from '../../../store/people/accounts.ts'
import {
  deleteTotp,
  findTotp,
  insertTotp,
  type TotpFactor,
  takeTotpStep,
  updateTotpConfirmed,
} from '../../../store/people/factors.ts'
import { findUser, updateUser } from '../../../store/people/users.ts'
import { auditCaller } from '../../core/audit.ts'
import { change } from '../../core/transaction.ts'
import { type Browsing, noteAdded, noteRemoved, requireRecent } from './factors.ts'

export const totpPlace = (userId: number) => ({
  table: 'totp_factors',
  column: 'secret_sealed',
  organizationId: null,
  rowId: userId,
})

export const openTotp = (ctx: Context, { userId, secretSealed }: TotpFactor): Promise<Uint8Array> =>
  ctx.secretStore.open('totp', totpPlace(userId), secretSealed)

const triesKey = (userId: number): string => `second-factor:${userId}`

/** Counts a try before its code is checked; in the database, so that a restart forgives nothing. */
export async function countTry(ctx: Context, userId: number): Promise<void> {
  const now = ctx.clock.now()
  const bounds = { now, most: PEOPLE.wrongFactors, windowMs: PEOPLE.lockMs }
  const { count, until } = await raiseWrongTries(ctx.db, triesKey(userId), bounds)
  if (count <= bounds.most) return
  const seconds = Math.max(1, Math.ceil((until - now) / 1_000))
  const message = `Too many wrong codes. Try again in ${Math.ceil(seconds / 60)} min, or use a passkey.`
  throw new AppError('rate_limited', message, { retry_after: seconds })
}

export const forgetTries = (ctx: Context, userId: number): Promise<void> =>
  deleteWrongTries(ctx.db, triesKey(userId))

export interface NewApp {
  /** For people who type it. */
  secret: string
  /** For the QR code. */
  uri: string
}

/** Returns the same secret until it is confirmed, so that a reload changes nothing. */
export async function beginApp(ctx: Context, browsing: Browsing): Promise<NewApp> {
  await requireRecent(ctx, browsing)
  const { userId } = browsing.caller
  return change(ctx, async (c) => {
    await updateUser(c.db, userId, { lastActiveAt: c.now }) // locks the user
    const user = await findUser(c.db, userId)
    const found = await findTotp(c.db, userId)
    if (!user) throw new AppError('token_missing', 'Sign in first.')
    if (found && found.confirmedAt !== null) {
      throw new AppError('validation_failed', 'You have an authenticator app. Remove it first.')
    }
    const secret = found ? await openTotp(ctx, found) : makeTotpSecret()
    if (!found) {
      const secretSealed = ctx.secretStore.seal('totp', totpPlace(userId), Buffer.from(secret))
      await insertTotp(c.db, { userId, secretSealed, createdAt: c.now })
    }
    const issuer = `Berth ${new URL(ctx.baseUrl).hostname}`
    return { secret: toBase32(secret), uri: totpUri(secret, { issuer, email: user.email }) }
  })
}

/** Returns the page of the recovery codes if this is the first factor. */
export async function confirmApp(
  ctx: Context,
  browsing: Browsing,
  code: string,
): Promise<string | null> {
  const login = await requireRecent(ctx, browsing)
  const { caller } = browsing
  const { userId } = caller
  await countTry(ctx, userId)
  const page = await change(ctx, async (c) => {
    await updateUser(c.db, userId, { lastActiveAt: c.now })
    const found = await findTotp(c.db, userId)
    if (!found || found.confirmedAt !== null) {
      throw new AppError('validation_failed', 'There is no app to confirm. Start again.')
    }
    const step = matchTotp(await openTotp(ctx, found), code.replaceAll(/\s/g, ''), c.now)
    if (step === undefined || !(await takeTotpStep(c.db, userId, step))) {
      throw new AppError(
        'second_factor_wrong',
        'The code is wrong. Check the clock of your phone, then enter the present code.',
      )
    }
    await updateTotpConfirmed(c.db, userId, c.now)
    await auditCaller(c, caller, null, 'authenticator_app.add', ['user', userId])
    return noteAdded(ctx, c, caller, login)
  })
  await forgetTries(ctx, userId)
  return page
}

export async function removeApp(ctx: Context, browsing: Browsing): Promise<void> {
  await requireRecent(ctx, browsing)
  const { caller } = browsing
  await change(ctx, async (c) => {
    await updateUser(c.db, caller.userId, { lastActiveAt: c.now })
    if (!(await deleteTotp(c.db, caller.userId))) {
      throw new AppError('not_found', 'You have no authenticator app.')
    }
    await auditCaller(c, caller, null, 'authenticator_app.remove', ['user', caller.userId])
    await noteRemoved(c, caller)
  })
}
