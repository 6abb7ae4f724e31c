// Secrets that the dashboard shows once: an address that survives a reload, only for the person who made the secret,
// until that person confirms having copied it. Only a browser's login reads them; a token gets its secrets in the answer
// that made them.
import { randomBytes } from 'node:crypto'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import type { Place } from '../../keys/secret-store.ts'
import { ONE_TIME_SECRETS } from '../../limits/browser.ts'
import {
  deleteSecret,
  findSecret,
  insertSecret,
  type OneTimeSecretRow,
} from '../../store/people/one-time-secrets.ts'
import { missing, requirePermission } from '../core/access.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'

/** What is shown. Sealed as a whole, so that the table says nothing about it. */
export interface OneTimeSecret {
  /** "Webhook secret of shop". */
  title: string
  /** What to do with it. */
  hint: string
  /** Where the page leads after the confirmation, an address of the dashboard. */
  back: string
  values: { label: string; text: string }[]
}

interface Kept extends OneTimeSecret {
  /** The secret is no longer shown to a person who left this organization; null: the person's own. */
  organizationId: number | null
  /** What the secret opens, such as `invitation:7`; the secret goes with it. */
  subject?: string
  /** The end of what is shown, if it is not the usual one. */
  expiresAt?: number
}

export const secretPlace = (id: string): Place => ({
  table: 'one_time_secrets',
  column: 'sealed',
  organizationId: null,
  rowId: id,
})

/** Returns the id for the address `/secrets/{id}`, or null for a token, which has the answer only. */
export async function keepSecret(
  ctx: Context,
  c: Change,
  caller: Caller,
  kept: Kept,
): Promise<string | null> {
  if (caller.origin.tokenId !== null) return null
  const { organizationId, subject = null, expiresAt, ...shown } = kept
  const id = randomBytes(16).toString('base64url')
  const sealed = ctx.secretStore.seal(
    'one-time',
    secretPlace(id),
    Buffer.from(JSON.stringify(shown)),
  )
  const row = {
    id,
    userId: caller.userId,
    organizationId,
    subject,
    sealed,
    createdAt: c.now,
    expiresAt: expiresAt ?? c.now + ONE_TIME_SECRETS.keptMs,
  }
  await insertSecret(c.db, row, ONE_TIME_SECRETS.perUser)
  return id
}

/** As `keepSecret`, after the change that made the secret. */
export const keepMadeSecret = (ctx: Context, caller: Caller, kept: Kept): Promise<string | null> =>
  change(ctx, (c) => keepSecret(ctx, c, caller, kept))

/** Another person's, a confirmed and an expired one are all missing. */
async function loadSecret(ctx: Context, caller: Caller, id: string): Promise<OneTimeSecretRow> {
  const row = await findSecret(ctx.db, id)
  if (!row || row.userId !== caller.userId || row.expiresAt <= ctx.clock.now()) throw missing()
  if (row.organizationId !== null) requirePermission(caller, row.organizationId, 'read')
  return row
}

export async function readSecret(
  ctx: Context,
  caller: Caller,
  id: string,
): Promise<OneTimeSecret & { expiresAt: number }> {
  const { sealed, expiresAt } = await loadSecret(ctx, caller, id)
  const plain = Buffer.from(await ctx.secretStore.open('one-time', secretPlace(id), sealed))
  return { ...(JSON.parse(plain.toString()) as OneTimeSecret), expiresAt }
}

/** The person has copied it; it is deleted. */
export async function confirmSecret(ctx: Context, caller: Caller, id: string): Promise<void> {
  await loadSecret(ctx, caller, id)
  await change(ctx, (c) => deleteSecret(c.db, id))
}
