// Handles failures of this gateway. Faults of procedures are logged once, with their cause. Refusals are answers and
// are not logged, but a missing or bad token counts by address, as in every gateway.
import { AppError } from '@berth/shared'
import type { TRPCError } from '@trpc/server'
import type { Context } from '../../context.ts'
import { requireQuota } from '../../identity/quotas.ts'
import { refusalOf } from './errors.ts'

export function logFault(ctx: Context, error: TRPCError, path: string | undefined): void {
  if (refusalOf(error)) return
  ctx.log.error({ err: error.cause ?? error, path }, 'a call of the dashboard failed')
}

/** For `catch` after identification: rethrows the error, or throws 429. */
export const countBad =
  (ctx: Context, address: string) =>
  async (error: unknown): Promise<never> => {
    if (error instanceof AppError && error.status === 401) {
      requireQuota(await ctx.quotas.countBadToken(address))
    }
    throw error
  }
