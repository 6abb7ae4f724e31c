// Secrets that were made in a browser (a token, an invitation's link, recovery codes) have a page of their own until
// their user says that they are saved, so that a reload loses nothing. Only that user's browser reads them.
import { AppError, PEOPLE } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  deleteOneTimeSecret,
  insertOneTimeSecret,
  listOneTimeSecrets,
  type OneTimeSecret,
  updateOneTimeSecret,
} from '../../store/people/one-time-secrets.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'

export const oneTimeSecretPlace = (id: number) => ({
  table: 'one_time_secrets',
  column: 'sealed',
  organizationId: null,
  rowId: id,
})

interface NewSecret extends Pick<OneTimeSecret, 'kind' | 'title'> {
  /** What the secret opens, such as `invitation:7`; the secret goes with it. */
  subject: string
  value: string
  expiresAt?: number
}

/** Returns the id of its page; null for a caller with a token, who gets the secret in the answer alone. */
export async function keepSecret(
  ctx: Context,
  c: Change,
  caller: Caller,
  { value, ...secret }: NewSecret,
): Promise<number | null> {
  if (caller.origin.tokenId !== null) return null
  const { userId } = caller
  const kept = await listOneTimeSecrets(c.db, userId, c.now)
  for (const old of kept.slice(PEOPLE.oneTimeSecrets - 1)) {
    await deleteOneTimeSecret(c.db, userId, old.id)
  }
  const expiresAt = secret.expiresAt ?? c.now + PEOPLE.oneTimeSecretMs
  const row = { ...secret, userId, createdAt: c.now, expiresAt }
  const id = await insertOneTimeSecret(c.db, row)
  const place = oneTimeSecretPlace(id)
  const sealed = ctx.secretStore.seal('one-time-secret', place, Buffer.from(value))
  await updateOneTimeSecret(c.db, id, sealed)
  return id
}

export const listSecrets = (ctx: Context, caller: Caller): Promise<OneTimeSecret[]> =>
  listOneTimeSecrets(ctx.db, caller.userId, ctx.clock.now())

export async function readSecret(
  ctx: Context,
  caller: Caller,
  id: number,
): Promise<{ secret: OneTimeSecret; value: string }> {
  const secret = (await listSecrets(ctx, caller)).find((one) => one.id === id)
  if (!secret) {
    throw new AppError('not_found', 'This was confirmed as saved, used, or is too old to be shown.')
  }
  const opened = ctx.secretStore.open('one-time-secret', oneTimeSecretPlace(id), secret.sealed)
  return { secret, value: Buffer.from(opened).toString() }
}

/** The user saved it. Doing so twice is no error. */
export async function forgetSecret(ctx: Context, caller: Caller, id: number): Promise<void> {
  await change(ctx, async (c) => {
    await deleteOneTimeSecret(c.db, caller.userId, id)
  })
}
