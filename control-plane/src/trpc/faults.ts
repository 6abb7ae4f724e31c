// Faults of procedures are logged once, with their cause; refusals are answers and are not.
import type { TRPCError } from '@trpc/server'
import type { Context } from '../context.ts'
import { refusalOf } from './errors.ts'

export function logFault(ctx: Context, error: TRPCError, path: string | undefined): void {
  if (refusalOf(error)) return
  ctx.log.error({ err: error.cause ?? error, path }, 'a call of the dashboard failed')
}
