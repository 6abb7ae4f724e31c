// What goes wrong at this gateway. Faults of procedures are logged once, with their cause; refusals are answers and are not,
// but whoever shows no good token is counted by address, as everywhere.
import { AppError } from '@berth/shared'
import type { TRPCError } from '@trpc/server'
import type { Context } from '../../context.ts'
import { requireQuota } from '../../identity/quotas.ts'
import { refusalOf } from './errors.ts'

export function logFault(ctx: Context, error: TRPCError, path: string | undefined): void {
  if (refusalOf(error)) return
  ctx.log.error({ err: error.cause ?? error, path }, 'a call of the dashboard failed')
}

/** For `catch` of an identification: throws what it was given, or 429. */
export const countBad =
  (ctx: Context, address: string) =>
  (error: unknown): never => {
    if (error instanceof AppError && error.status === 401) {
      requireQuota(ctx.quotas.countBadToken(address))
    }
    throw error
  }
