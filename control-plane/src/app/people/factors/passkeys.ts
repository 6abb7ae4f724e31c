// Passkeys of a user: added, renamed, removed, and used to sign in or to confirm a change. Each ceremony has a
// challenge that works once.
import { AppError, PEOPLE } from '@berth/shared'
import type { Context } from '../../../context.ts'
import {
  checkMade,
  checkUsed,
  optionsToAdd,
  optionsToUse,
  type PasskeyMade,
  type PasskeyUsed,
} from '../../../identity/passkeys.ts'
import { hashToken } from '../../../identity/tokens.ts'
import { isUniqueViolation } from '../../../store/engine/database.ts'
import {
  deletePasskey,
  findPasskey,
  insertChallenge,
  insertPasskey,
  listPasskeys,
  type Passkey,
  type Purpose,
  takeChallenge,
  updatePasskey,
} from '../../../store/people/factors.ts'
import { findUser, updateUser } from '../../../store/people/users.ts'
import { missing } from '../../core/access.ts'
import { auditCaller } from '../../core/audit.ts'
import { change } from '../../core/transaction.ts'
import { type Browsing, noteAdded, noteRemoved, requireRecent } from './factors.ts'

async function keepChallenge(
  ctx: Context,
  purpose: Purpose,
  userId: number | null,
  challenge: string,
): Promise<void> {
  const expiresAt = ctx.clock.now() + PEOPLE.passkeyChallengeMs
  await insertChallenge(ctx.db, { hash: hashToken(challenge), purpose, userId, expiresAt })
}

/** True once, for the ceremony that this challenge began. */
const takes = (ctx: Context, purpose: Purpose, userId: number) => async (challenge: string) => {
  const found = await takeChallenge(ctx.db, hashToken(challenge))
  if (found?.purpose !== purpose || found.expiresAt <= ctx.clock.now()) return false
  return found.userId === null || found.userId === userId
}

export async function beginPasskey(ctx: Context, browsing: Browsing) {
  await requireRecent(ctx, browsing)
  const { userId } = browsing.caller
  const user = await findUser(ctx.db, userId)
  if (!user) throw missing()
  const known = await listPasskeys(ctx.db, userId)
  requireRoom(known)
  const options = await optionsToAdd(ctx.baseUrl, user, known)
  await keepChallenge(ctx, 'add', userId, options.challenge)
  return options
}

function requireRoom(known: readonly Passkey[]): void {
  if (known.length < PEOPLE.passkeys) return
  throw new AppError('validation_failed', `You have ${known.length} passkeys. Remove one first.`)
}

/** Returns the page of the recovery codes if this is the first factor. */
export async function addPasskey(
  ctx: Context,
  browsing: Browsing,
  name: string,
  response: PasskeyMade,
): Promise<string | null> {
  const login = await requireRecent(ctx, browsing)
  const { caller } = browsing
  const { userId } = caller
  const made = await checkMade(ctx.baseUrl, response, takes(ctx, 'add', userId))
  return change(ctx, async (c) => {
    await updateUser(c.db, userId, { lastActiveAt: c.now }) // locks the user
    requireRoom(await listPasskeys(c.db, userId))
    const id = await insertPasskey(c.db, { ...made, userId, name, createdAt: c.now })
    await auditCaller(c, caller, null, 'passkey.add', ['passkey', id, name])
    return noteAdded(ctx, c, caller, login)
  }).catch((error: unknown) => {
    if (!isUniqueViolation(error)) throw error
    throw new AppError('passkey_refused', 'This passkey is in use already.')
  })
}

export async function renamePasskey(
  ctx: Context,
  browsing: Browsing,
  id: number,
  name: string,
): Promise<void> {
  const { caller } = browsing
  await change(ctx, async (c) => {
    const key = { id, userId: caller.userId }
    if (!(await updatePasskey(c.db, key, { name }))) throw missing()
    await auditCaller(c, caller, null, 'passkey.rename', ['passkey', id, name])
  })
}

export async function removePasskey(ctx: Context, browsing: Browsing, id: number): Promise<void> {
  await requireRecent(ctx, browsing)
  const { caller } = browsing
  await change(ctx, async (c) => {
    await updateUser(c.db, caller.userId, { lastActiveAt: c.now })
    const gone = await deletePasskey(c.db, caller.userId, id)
    if (!gone) throw missing()
    await auditCaller(c, caller, null, 'passkey.remove', ['passkey', id, gone.name])
    await noteRemoved(c, caller)
  })
}

/** For one user their own passkeys; without a user the browser offers what it has. */
export async function beginUse(ctx: Context, purpose: 'sign-in' | 'confirm', userId?: number) {
  const known = userId === undefined ? [] : await listPasskeys(ctx.db, userId)
  if (userId !== undefined && known.length === 0) {
    throw new AppError('passkey_refused', 'You have no passkey. Use another way.')
  }
  const options = await optionsToUse(ctx.baseUrl, known)
  await keepChallenge(ctx, purpose, userId ?? null, options.challenge)
  return options
}

/** Checks the answer and notes the use; returns whose passkey it is. */
export async function usePasskey(
  ctx: Context,
  purpose: 'sign-in' | 'confirm',
  response: PasskeyUsed,
): Promise<Passkey> {
  const passkey = await findPasskey(ctx.db, response.id)
  if (!passkey) {
    const message = 'This passkey is not known here. It may have been removed from your account.'
    throw new AppError('passkey_refused', message)
  }
  const isOpen = takes(ctx, purpose, passkey.userId)
  const counter = await checkUsed(ctx.baseUrl, response, passkey, isOpen)
  await updatePasskey(ctx.db, passkey, { counter, lastUsedAt: ctx.clock.now() })
  return passkey
}
